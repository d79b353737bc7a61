/** The engine in a cluster: a leader whose frames a follower applies, with the lane of the cluster moved by hand. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RingFrames } from '../../../src/cluster/lane/ring-frames.ts'
import type { ClusterOptions } from '../../../src/log/cluster-part.ts'
import { LogShared } from '../../../src/log/log-shared.ts'
import { finished } from '../../../src/objectstore/finished.ts'
import { notLeading } from '../../../src/objectstore/refusals.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { StoreClient, settled } from './client.ts'
import { EXTENT_BYTES, SEGMENT_BYTES, StoreWorld } from './world.ts'

const BODY = payloadOf(1, 3 * EXTENT_BYTES + 300)
const CLUSTER: ClusterOptions = { ack: 'cluster', logId: 77, keepUpTo: null, nowMs: () => 0, onSetAside: () => {} }

/** A node whose lane confirms everything at once. */
class Node extends StoreWorld {
  follower: Node | null = null
  /** The anchor follows what is synced. */
  isAnchoring = true

  static override async open(): Promise<Node> {
    const node = new Node()
    await node.open({ cluster: CLUSTER })
    return node
  }

  lead(epoch: number): void {
    this.#shared.publishLease(1000)
    this.log.cluster!.lead(epoch)
  }

  get #shared(): LogShared {
    return LogShared.attach(this.log.cluster!.handle.shared)
  }

  override async step(): Promise<void> {
    const { ring } = this.log.cluster!
    for (const { bytes, end } of new RingFrames(ring, this.arena.bytes).take(this.log.generation, Infinity)) {
      if (this.follower !== null) await this.follower.take(Buffer.from(bytes))
      this.#shared.publishLaneTaken(end.position)
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
    this.#shared.publishConfirmed(this.core.appender.tail)
    if (this.isAnchoring) this.#shared.publishAnchored(this.#shared.syncedHere())
    this.log.noteProgress()
  }
}

async function cluster(): Promise<{ leader: Node; follower: Node; client: StoreClient }> {
  const [leader, follower] = await Promise.all([Node.open(), Node.open()])
  leader.follower = follower
  leader.lead(1)
  return { leader, follower, client: await StoreClient.open(leader) }
}

const clean = (node: Node): Promise<void> => settled(node, node.engine.cleaner.enforce())
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
    await clean(leader) // the anchor has the word of the last segment
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
    await litter(leader, client) // behind which checkpoints stand
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
    await leader.step() // the lane of digests has answered, and the frames stand in the ring
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
    await assert.rejects(finished(body), refused)
    await leader.flush()
    assert.equal(leader.arena.usedBytes, 0)
    assert.equal(leader.store.bodies.oldestExtent, Infinity)
    await assert.rejects(settled(leader, finished(client.large('other'))), { code: 'SlowDown' })
    assert.throws(() => leader.store.demandTerm(), { code: 'SlowDown' })
  })
})
