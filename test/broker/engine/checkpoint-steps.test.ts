import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { StateCopy, decodeCheckpoint } from '../../../src/broker/engine/checkpoint-content.ts'
import { jsonMembers } from '../../../src/broker/engine/json-members.ts'
import { atOnce } from '../../../src/steps.ts'
import { BrokerState } from '../../../src/broker/state/state.ts'

const CONFIG = { durability: 'sync' } as never // a checkpoint copies it unread

describe('the members of an object in JSON', () => {
  it('are what JSON.parse finds, and those of long arrays come one by one', () => {
    const arrays = new Set(['streams', 'groups'])
    const content = fc.dictionary(
      fc.oneof(fc.constantFrom('streams', 'groups', 'secret', '__proto'), fc.string()),
      fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue())),
    )
    fc.assert(
      fc.property(content, (object) => {
        const text = JSON.stringify(object)
        const bytes = Buffer.from(text)
        const found: Record<string, unknown> = Object.create(null)
        for (const [name, value] of Object.entries(JSON.parse(text) as object)) {
          if (arrays.has(name) && Array.isArray(value)) found[name] = []
        }
        let before = 0
        for (const { name, value, end } of jsonMembers(bytes, arrays)) {
          assert.ok(end > before && end <= bytes.byteLength)
          before = end
          const list = found[name]
          if (arrays.has(name) && Array.isArray(list)) list.push(value)
          else found[name] = value
        }
        assert.deepEqual({ ...found }, { ...(JSON.parse(text) as object) })
      }),
      { numRuns: 300 },
    )
  })

  it('are refused where the text is none', () => {
    for (const text of ['', '[]', '{', '{"a"', '{"a":', '{"a":"b', '{"streams":[1,2', '{"a":{"b":1}', '{"a":x}']) {
      assert.throws(() => [...jsonMembers(Buffer.from(text), new Set(['streams']))], SyntaxError, text)
    }
  })
})

describe('a checkpoint that is made', () => {
  it('comes in turns, none of which shapes more than a bound of a large group, and is of the moment it began', async () => {
    const LEASES = 100_000
    const state = new BrokerState()
    const stream = state.applyStreamCreated(0, 'acme', 'orders', CONFIG, 1)
    const group = state.applyGroupCreated(0, stream, 'workers')
    state.applyClaim(group, 0, 1, 1e9, [{ offset: 0, count: LEASES, attempt: 1 }])
    for (let offset = 0; offset < LEASES; offset += 2) state.applyFinished(group, offset, 1, 'stopped', 2, null)
    const expected = Buffer.concat(await new StateCopy(state).finish(async () => {}))

    let turns = 0
    const made = await new StateCopy(state).finish(async () => {
      turns += 1
      state.applyFinished(group, 2 * turns - 1, 1, 'stopped', 3, null)
    })
    assert.ok(turns > LEASES / 10_000, `${turns} turns`)
    assert.ok(Buffer.concat(made).equals(expected))
    const [restored] = atOnce(decodeCheckpoint(expected)).groups
    assert.deepEqual(
      [0, 1, LEASES - 1].map((offset) => restored!.queue.find(offset, 1, 5).kind),
      ['resolved', 'active', 'active'],
    )
  })
})

describe('a checkpoint that is read', () => {
  const STREAMS = 3000
  const LEASES = 200_000
  /** Most bytes between two steps, except from the JSON to the first group: work of some milliseconds. */
  const STEP_BYTES_MAX = 2 << 20

  it('comes in steps, none of which restores more than a bound, whatever there is of streams, groups, leases and finished offsets', async () => {
    const state = new BrokerState()
    for (let number = 0; number < STREAMS; number++) {
      state.applyGroupCreated(
        number,
        state.applyStreamCreated(number, 'acme', `stream ${number} ${'x'.repeat(200)}`, CONFIG, 1),
        'workers',
      )
    }
    const [leased, finished] = state.groups
    state.applyClaim(leased!, 0, 1, 1e9, [{ offset: 0, count: LEASES, attempt: 1 }])
    state.applyClaim(finished!, 1, 1, 1e9, [{ offset: 0, count: LEASES, attempt: 1 }])
    for (let offset = 0; offset < LEASES; offset += 2) state.applyFinished(finished!, offset, 1, 'stopped', 2, null)
    const bytes = Buffer.concat(await new StateCopy(state).finish(async () => {}))

    const steps = decodeCheckpoint(bytes)
    let done = 0
    let count = 0
    let restored: BrokerState | null = null
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done) {
        restored = step.value
        break
      }
      assert.ok(step.value.done - done <= STEP_BYTES_MAX, `${step.value.done - done} bytes in a step`)
      done = Math.max(done, step.value.done)
      count += 1
    }
    assert.ok(count > bytes.byteLength / STEP_BYTES_MAX, `${count} steps`)
    assert.equal(restored.streams.length, STREAMS)
    assert.equal(restored.groups[0]!.queue.find(LEASES - 1, 1, 5).kind, 'active')
    assert.equal(restored.groups[1]!.queue.find(LEASES - 2, 1, 5).kind, 'resolved')
    assert.ok(Buffer.concat(await new StateCopy(restored).finish(async () => {})).equals(bytes))
  })
})
