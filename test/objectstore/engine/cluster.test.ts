/** The engine in a cluster: a leader whose frames a follower applies. The test steps the lane of the cluster. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RingFrames } from '../../../src/cluster/lane/ring-frames.ts'
import type { ClusterOptions } from '../../../src/log/cluster-part.ts'
import { LogShared } from '../../../src/log/log-shared.ts'
import { finishBody } from '../../../src/objectstore/finish-body.ts'
import { notLeading } from '../../../src/objectstore/refusals.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { StoreClient, resultAfterFlush } from './client.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { EXTENT_BYTES, SEGMENT_BYTES, StoreWorld } from './world.ts'
import type { StoreWorldOptions } from './world.ts'

const BODY = payloadOf(1, 3 * EXTENT_BYTES + 300)
const CLUSTER: ClusterOptions = { ack: 'cluster', logId: 77, keepUpTo: null, nowMs: () => 0, onSetAside: () => {} }

/** A node whose lane confirms everything at once, unless it is cut off. */
class Node extends StoreWorld {
  follower: Node | null = null
  /** Whether the anchor follows the synced frames. */
  isAnchoring = true
  isCutOff = false
  #confirmed = 0

  static override async open(options: StoreWorldOptions = {}): Promise<Node> {
    const node = new Node(options)
    await node.open({ cluster: CLUSTER })
    return node
  }

  lead(epoch: number): void {
    this.#confirmed = this.core.appender.tail
    this.#shared.publishLease(1000)
    this.log.cluster!.lead(epoch)
  }

  /** Steps down like the membership does. */
  async stepDown(): Promise<void> {
    this.#shared.publishLease(0)
    this.log.cluster!.follow()
    this.store.bodies.endAll(notLeading(null))
    await this.log.cutTo(this.#confirmed)
    const { ring } = this.log.cluster!
    while (ring.next() >= 0);
    ring.release()
    this.isCutOff = false
  }

  get #shared(): LogShared {
    return LogShared.attach(this.log.cluster!.handle.shared)
  }

  override async step(): Promise<void> {
    const { ring, leads } = this.log.cluster!
    if (leads && this.isCutOff) return super.step()
    for (const { bytes, end } of new RingFrames(ring, this.arena.bytes).take(this.log.generation, Infinity)) {
      if (this.follower !== null) await this.follower.take(Buffer.from(bytes))
      this.#shared.publishLaneTaken(end.position)
      this.#confirmed = end.position
    }
    ring.release()
    this.#confirm()
    await super.step()
    this.#confirm()
  }

  async take(frame: Buffer): Promise<void> {
    while (this.core.engine.applyCopy(frame, 0) === 0) await this.step()
    await this.step()
  }

  #confirm(): void {
    const confirmed = this.log.cluster!.leads ? this.#confirmed : this.core.appender.tail
    this.#shared.publishConfirmed(confirmed)
    if (this.isAnchoring) this.#shared.publishAnchored(Math.min(confirmed, this.#shared.syncedHere()))
    this.log.noteProgress()
  }
}

async function cluster(): Promise<{ leader: Node; follower: Node; client: StoreClient }> {
  const [leader, follower] = await Promise.all([Node.open(), Node.open()])
  leader.follower = follower
  leader.lead(1)
  return { leader, follower, client: await StoreClient.open(leader) }
}

/** Seeds of a test. One of them found that after a cut the last segment was sealed on one node only. */
const SEEDS = [1, 3, 6]

const clientOf = (node: Node): StoreClient => new StoreClient(node, node.store.bucket('photos')!)
const clean = (node: Node): Promise<void> => resultAfterFlush(node, node.engine.cleaner.enforce())
const begin = ({ log }: Node): number => log.segments[0]!.base

async function litter(leader: Node, client: StoreClient): Promise<void> {
  const { written } = leader.log
  for (let n = 0; leader.log.written - written < 20 * SEGMENT_BYTES; n += 1)
    await client.put('litter', payloadOf(n, 1000))
}

describe('a log that the leader cleans', () => {
  it('is dropped by each node for itself, once no cut can take the word of it away', async () => {
    const { leader, follower, client } = await cluster()
    await client.putLarge('large', BODY)
    await client.put('small', BODY.subarray(0, 700))
    await litter(leader, client)
    follower.isAnchoring = false
    await clean(leader)
    await leader.flush()
    await clean(leader) // only now the anchor covers the frame that drops the last segment
    assert.ok(begin(leader) > 5 * SEGMENT_BYTES)
    await clean(follower)
    assert.equal(begin(follower), 0)
    follower.isAnchoring = true
    await follower.flush()
    await clean(follower)
    assert.equal(begin(follower), begin(leader))
    assert.equal(follower.counters.segmentsCleaned, 0)

    leader.follower = null
    follower.lead(2)
    const bucket = follower.store.bucket('photos')!
    const after = new StoreClient(follower, bucket)
    assert.ok((await after.get('large')).equals(BODY))
    assert.ok((await after.get('small')).equals(BODY.subarray(0, 700)))
    await after.put('small', BODY.subarray(0, 100))
    assert.ok((await after.get('small')).equals(BODY.subarray(0, 100)))
  })

  it('keeps a segment that is damaged on its disk: the others have it whole', async () => {
    const { leader, follower, client } = await cluster()
    await client.put('small', BODY.subarray(0, 700))
    await litter(leader, client)
    await leader.flush()
    const { recordsPath, base } = leader.log.segments[0]!
    leader.files.damage(recordsPath, (content) => {
      content[content.indexOf(BODY.subarray(100, 200))]! ^= 1
      return content
    })
    for (let round = 0; round < 2; round += 1) {
      await clean(leader)
      await clean(follower)
      await leader.flush()
    }
    assert.equal(leader.log.incidents.length, 1)
    assert.deepEqual([begin(leader), begin(follower), leader.core.state.cleaned.before], [base, base, 0])
    leader.follower = null
    follower.lead(2)
    const after = new StoreClient(follower, follower.store.bucket('photos')!)
    await clean(follower)
    assert.ok(follower.core.state.cleaned.before > 0)
    assert.ok((await after.get('small')).equals(BODY.subarray(0, 700)))
  })

  it('is known to be clean after a restart', async () => {
    const { leader, client } = await cluster()
    leader.follower = null
    await client.putLarge('large', BODY)
    await litter(leader, client)
    await clean(leader)
    await litter(leader, client) // so that checkpoints come after it
    await leader.flush()
    const { before } = leader.core.state.cleaned
    assert.ok(before > 0)
    await leader.close()
    await leader.open({ cluster: CLUSTER })
    assert.equal(leader.core.state.cleaned.before, before)
  })
})

describe('a body on its way', () => {
  it('never goes to the cluster as other bytes than those that were digested', async () => {
    const { leader, client } = await cluster()
    client.large('large').write(BODY)
    await leader.step() // the digest lane has answered, and the frames are in the ring
    leader.arena.bytes.fill(0)
    await assert.rejects(leader.step(), { message: 'the arena keeps a frame until the lane has taken it' })
  })

  it('ends with the lead, and what it had is free', async () => {
    const { leader, client } = await cluster()
    const body = client.large('large')
    body.write(BODY)
    await leader.step()
    leader.log.cluster!.follow()
    leader.store.bodies.endAll(notLeading('http://10.0.0.2:9000'))
    const refused = { code: 'SlowDown', leader: 'http://10.0.0.2:9000' }
    await assert.rejects(finishBody(body), refused)
    await leader.flush()
    assert.equal(leader.arena.usedBytes, 0)
    assert.equal(leader.store.bodies.oldestExtent, Infinity)
    await assert.rejects(resultAfterFlush(leader, finishBody(client.large('other'))), { code: 'SlowDown' })
    const refusal = leader.store.term()
    assert.ok(typeof refusal !== 'number')
    assert.equal(refusal.code, 'SlowDown')
  })
})

describe('two nodes that lead in turn', () => {
  for (const seed of SEEDS) {
    it(`have what was acknowledged, and nothing that was lost: seed ${seed}`, async () => {
      const random = mulberry32(seed)
      const pick = (count: number): number => Math.floor(random() * count)
      const nodes = [await Node.open({ seed }), await Node.open({ seed: seed + 1000 })] as const
      const expected = new Map<string, Buffer>()
      let [leader, follower] = nodes
      for (let term = 1; term <= 6; term += 1) {
        leader.follower = follower
        leader.lead(term)
        const client = term === 1 ? await StoreClient.open(leader) : clientOf(leader)
        for (const [key, body] of expected) assert.ok((await client.get(key)).equals(body), `${key} in term ${term}`)
        const upload = await client.begin('parted')
        for (let n = 0; n < 40; n += 1) {
          const key = `key-${pick(6)}`
          const body = payloadOf(1000 * term + n, pick(4 * EXTENT_BYTES))
          const what = pick(10)
          if (what < 6) await client.put(key, body)
          else if (what < 7) await client.putLarge(key, body)
          else if (what < 8) await client.part(upload, 1 + pick(3), body)
          else if (what < 9) await clean(random() < 0.5 ? leader : follower)
          else await client.delete(key)
          if (what < 7) expected.set(key, body)
          if (what === 9) expected.delete(key)
          follower.isAnchoring = random() < 0.8
        }
        follower.isAnchoring = true
        leader.isCutOff = true
        const lost = [client.putting('key-0', payloadOf(term, 500)), client.putting('key-1', BODY)]
        for (const each of lost) each.catch(() => {})
        for (let steps = pick(10); steps > 0; steps -= 1) await leader.step()
        await leader.stepDown()
        assert.deepEqual(leader.log.cluster!.end, follower.log.cluster!.end)
        for (const each of lost) await assert.rejects(resultAfterFlush(leader, each), { retryable: true })
        ;[leader, follower] = [follower, leader]
        follower.follower = null
      }
      assert.ok(begin(leader) > 0 && begin(follower) > 0, 'both have dropped what was cleaned')
    })
  }
})
