import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { STREAM_BEGIN } from '../../../src/cluster/history.ts'
import { ClusterLane } from '../../../src/cluster/lane/cluster-lane.ts'
import { LaneMeasures } from '../../../src/cluster/lane/measures.ts'
import { OtherNodes } from '../../../src/cluster/lane/other-nodes.ts'
import type { FromLane } from '../../../src/cluster/lane/protocol.ts'
import type { Published } from '../../../src/cluster/nats/nats-stream.ts'
import { World, appended, openWriter } from '../../support/log-harness.ts'
import { eventually, keepProcessAlive } from '../../support/waiting.ts'
import { TestClock } from '../../support/cluster-clock.ts'

const PAYLOAD = Buffer.alloc(100, 7)
/** Bytes of the part that long frames have in the arena. */
const EXTERNAL_BYTES = 4096
const ARENA = new SharedArrayBuffer(EXTERNAL_BYTES)
const LEASE_MS = 2000
const LOG_ID = 7

/** The lane of a leader, after its first frame. The test acts as the main thread and the stream. Time stands still. */
async function leading(before: (lane: ClusterLane) => void = () => {}) {
  const clock = new TestClock()
  const world = new World({ seed: 1 })
  const cluster = { ack: 'cluster', logId: LOG_ID, keepUpTo: null, nowMs: clock.nowMs, onSetAside: () => {} } as const
  const log = await world.open({ cluster })
  const published: { readonly frames: number; readonly confirm: () => void }[] = []
  const told: FromLane[] = []
  let sequence = 0
  let resignations = 0
  const lane = new ClusterLane(
    {
      data: {
        node: 'a',
        leaseMs: LEASE_MS,
        url: null,
        peerUrl: null,
        directory: log.directory,
        arena: ARENA,
        measures: LaneMeasures.create().shared,
        settings: { keepBytes: 1 << 30 },
      },
      nodes: new OtherNodes({ writer: 'a/1', nowMs: clock.nowMs }),
      files: world.files,
      clock,
      random: () => 0,
      tell: (message) => told.push(message),
      stream: {
        logId: LOG_ID,
        bodyBytesMax: 1 << 20,
        publish: (_expectedLast, { kind, body }) => {
          sequence += 1
          if (kind === 'resign') resignations += 1
          const { promise, resolve } = Promise.withResolvers<Published>()
          const stored = { kind: 'stored', sequence } as const
          if (body === null) resolve(stored)
          else published.push({ frames: countIn(body), confirm: () => resolve(stored) })
          return promise
        },
        lookUp: async () => null,
        ends: async () => ({ first: 1, last: 0 }),
        follow: async () => () => {},
        sendToNodes: () => {},
      },
    },
    { kind: 'join', log: log.cluster!.handle, anchor: STREAM_BEGIN },
  )
  before(lane)
  clock.passes(2 * LEASE_MS) // no other node leads
  await eventually(() => told.some(({ kind }) => kind === 'lead'))
  log.cluster!.lead(1)
  lane.receive({ kind: 'begun', epoch: 1, generation: log.generation })
  const running = lane.run()
  const writer = openWriter(log)
  const append = (): void => void appended(writer, PAYLOAD)
  const appendLong = (): void => {
    assert.equal(writer.tryBegin(1, 0, 0, EXTERNAL_BYTES, 'sync', 'admit'), 'ok')
    writer.publish(crc32(Buffer.from(ARENA)))
  }
  append()
  await eventually(() => published.length === 1)
  published[0]!.confirm()
  await turns()
  return { lane, running, append, appendLong, published, resigned: () => resignations }
}

/** Waits until the lane has done its work. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** Number of frames in a body, which all have the same length. */
const countIn = (body: Uint8Array): number => body.byteLength / frameBytes(PAYLOAD.byteLength)

describe('the lane of a leader', () => {
  after(keepProcessAlive())

  it('sends together what comes while a message is on its way', async () => {
    const { lane, running, append, published } = await leading()
    append()
    await eventually(() => published.length === 2)
    for (let frame = 0; frame < 8; frame += 1) {
      append()
      await turns()
    }
    assert.equal(published.length, 2)
    published[1]!.confirm()
    await eventually(() => published.length === 3)
    assert.deepEqual(
      published.map(({ frames }) => frames),
      [1, 1, 8],
    )
    lane.close()
    await running
  })

  it('waits for clients that were answered, and sends together with them what came meanwhile', async () => {
    const { lane, running, append, published } = await leading()
    for (let frame = 0; frame < 8; frame += 1) append()
    await eventually(() => published.length === 2)
    for (let frame = 0; frame < 4; frame += 1) append()
    published[1]!.confirm()
    await turns()
    assert.equal(published.length, 2)
    for (let frame = 0; frame < 8; frame += 1) append()
    await eventually(() => published.length === 3)
    assert.deepEqual(
      published.map(({ frames }) => frames),
      [1, 8, 12],
    )
    lane.close()
    await running
  })

  it('knows that they are back when what they send is long', async () => {
    const { lane, running, appendLong, published } = await leading()
    for (let frame = 0; frame < 8; frame += 1) appendLong()
    await eventually(() => published.length === 2)
    published[1]!.confirm()
    await turns()
    for (let frame = 0; frame < 5; frame += 1) appendLong()
    await turns()
    assert.equal(published.length, 2)
    appendLong()
    await eventually(() => published.length === 3)
    lane.close()
    await running
  })

  it('hands over what it gathers before it resigns', async () => {
    const { lane, running, append, published, resigned } = await leading()
    append()
    await eventually(() => published.length === 2)
    append()
    append()
    await turns()
    lane.receive({ kind: 'hand over', successor: 'b' })
    await turns()
    assert.deepEqual([published.length, resigned()], [2, 0])
    published[1]!.confirm()
    await eventually(() => published.length === 3)
    assert.deepEqual([published[2]!.frames, resigned()], [2, 0])
    published[2]!.confirm()
    await eventually(() => resigned() === 1)
    lane.close()
    await running
  })

  it('does not give away a lead for what was asked of it while it followed', async () => {
    const asked = { kind: 'hand over', successor: null } as const
    const { lane, running, append, published, resigned } = await leading((follower) => follower.receive(asked))
    append()
    await eventually(() => published.length === 2)
    assert.equal(resigned(), 0)
    lane.close()
    await running
  })
})
