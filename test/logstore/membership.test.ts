import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FORMAT_JSON, SIGNAL_LOG } from '../../src/logstore/batch-frame.ts'
import { ActiveIndex } from '../../src/logstore/index/active-index.ts'
import { FrameIndexer } from '../../src/logstore/index/index-frame.ts'
import { memberOf, retentionClock } from '../../src/logstore/membership.ts'
import { logRecordOf, payloadOf } from '../support/batch-payloads.ts'
import { nextTurn } from '../support/next-turn.ts'

const NOW_NS = 1_000_000_000_000_000_000n
/** Time of receipt that `payloadOf` writes: 2^32 + 2. */
const RECEIVED_NS = (1n << 32n) + 2n

/** A log store in a cluster, of which the test plays the parts. */
class Rig {
  readonly did: string[] = []
  readonly lane = Promise.withResolvers<void>()
  readonly member = memberOf({
    supervisor: { atWork: () => this.lane.promise },
    follower: {
      follow: async (frames) => void this.did.push(`follows ${frames.byteLength} bytes`),
      end: () => this.did.push('lets go'),
    },
    retain: () => this.did.push('drops what has expired'),
  })
}

describe('the membership of a log store', () => {
  it('leads when a decode lane is at work, after what has expired is dropped', async () => {
    const rig = new Rig()
    void rig.member.beganToLead().then(() => rig.did.push('leads'))
    await nextTurn()
    assert.deepEqual(rig.did, [])
    rig.lane.resolve()
    await nextTurn()
    assert.deepEqual(rig.did, ['drops what has expired', 'leads'])
  })

  it('does not lead when no decode lane can be had, and drops nothing', async () => {
    const rig = new Rig()
    rig.lane.reject(new Error('given up'))
    await assert.rejects(rig.member.beganToLead(), /given up/)
    assert.deepEqual(rig.did, [])
  })

  it('hands frames over, and lets them go when it stepped down', async () => {
    const rig = new Rig()
    await rig.member.follow(Buffer.alloc(8), () => false)
    rig.member.steppedDown()
    assert.deepEqual(rig.did, ['follows 8 bytes', 'lets go'])
  })
})

describe('the clock that retention goes by', () => {
  const index = ActiveIndex.create(16)
  const body = { resourceLogs: [{ scopeLogs: [{ logRecords: [logRecordOf(record())] }] }] }
  const payload = payloadOf('acme', Buffer.from(JSON.stringify(body)), SIGNAL_LOG, FORMAT_JSON, ['cart'])

  function record() {
    return { time: 1n, trace: null, text: 'a record', dataset: 'cart' }
  }

  /** The retention clock of a node whose own clock is hours ahead of everything in the log. */
  function clockOf({ leads = false, bundles = [] as readonly bigint[], newest = null as ActiveIndex | null }): bigint {
    const registry = {
      bundles: bundles.map((receivedUntil) => ({ receivedUntil })) as unknown as Parameters<
        typeof retentionClock
      >[1]['bundles'],
      newest: () => newest?.handle ?? null,
    }
    return retentionClock({ mayAnswer: leads }, registry, () => NOW_NS)()
  }

  it('is the own one of a leader', () => {
    assert.equal(clockOf({ leads: true, bundles: [5n], newest: index }), NOW_NS)
  })

  it('is the last receipt in the log of a follower: of the segment that is written, or else of the last bundle', () => {
    assert.equal(clockOf({ bundles: [3n, 5n] }), 5n)
    assert.equal(clockOf({ bundles: [3n, 5n], newest: index }), 5n, 'nothing was received there yet')
    new FrameIndexer().add(index, 0, payload)
    assert.equal(clockOf({ bundles: [3n, 5n], newest: index }), RECEIVED_NS)
  })

  it('stands at the beginning where a follower has received nothing: nothing has expired', () => {
    assert.equal(clockOf({}), 0n)
  })
})
