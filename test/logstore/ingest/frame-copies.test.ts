/** What a decode lane does with the frames of a leader, on two logs in a simulated world: the leader's and its own. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import type { Log } from '../../../src/log/log.ts'
import type { LogWriter } from '../../../src/log/log-writer.ts'
import { BATCH_FRAME_TYPE, FORMAT_JSON, SIGNAL_LOG, StoredBatch } from '../../../src/logstore/batch-frame.ts'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { BatchIdentifier } from '../../../src/logstore/index/identify.ts'
import { FrameIndexer } from '../../../src/logstore/index/index-frame.ts'
import { scanBatch } from '../../../src/logstore/index/scan-batch.ts'
import { SegmentIndexes } from '../../../src/logstore/index/segment-indexes.ts'
import { FrameCopies } from '../../../src/logstore/ingest/frame-copies.ts'
import type { DecodeLaneMessage } from '../../../src/logstore/ingest/lane-data.ts'
import { SEGMENT_OPENED, readOutcomeHead } from '../../../src/logstore/ingest/messages.ts'
import { NO_SEGMENT, SeenRecords } from '../../../src/logstore/ingest/seen-records.ts'
import { SpscRing } from '../../../src/pipeline/spsc-ring.ts'
import { World, appended, openWriter, replay } from '../../support/log-harness.ts'
import { logRecordOf, payloadOf } from '../../support/batch-payloads.ts'

const SEGMENT_BYTES = 8192
const CAPACITY = 1024
const BATCHES = 40
const RECORDS = 5
const DATASET = 'cart'

const payloads = Array.from({ length: BATCHES }, (_, n) => {
  const logRecords = Array.from({ length: RECORDS }, (_, i) =>
    logRecordOf({ time: BigInt(1 + n * RECORDS + i), trace: null, text: `batch ${n} record ${i}`, dataset: DATASET }),
  )
  const resource = { attributes: [{ key: 'service.name', value: { stringValue: DATASET } }] }
  const body = Buffer.from(JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] }))
  return payloadOf('acme', body, SIGNAL_LOG, FORMAT_JSON, [DATASET])
})

/** The log of a leader, and its frames as the cluster gives them. */
async function leaderOf(): Promise<{ log: Log; files: World['files']; frames: readonly Buffer[] }> {
  const world = new World({ seed: 1 })
  const log = await world.open({ segmentBytes: SEGMENT_BYTES })
  const writer = openWriter(log)
  for (const payload of payloads) {
    appended(writer, payload, { type: BATCH_FRAME_TYPE })
    world.step()
  }
  assert.ok(log.segments.length > 2)
  const frames = replay(log, world.files).frames.map(({ position, end }) => {
    const { base, recordsPath } = log.segments.findLast((segment) => segment.base < position)!
    const bytes = Buffer.alloc(end - position)
    const file = world.files.open(recordsPath, 'read')
    file.read(bytes, position - base)
    file.close()
    return bytes
  })
  return { log, files: world.files, frames }
}

/** The decode lane of a node that follows. */
class Follower {
  readonly told: DecodeLaneMessage[] = []
  /** Segments that main hears of, with their indexes. */
  readonly opened: (readonly [base: number, number: number])[] = []
  readonly world: World
  readonly seen: SeenRecords
  readonly log: Log
  readonly writer: LogWriter
  isStopping = false
  readonly #outcomes = SpscRing.create(1 << 16)
  readonly #indexes = SegmentIndexes.create(CAPACITY, 16)
  readonly copies: FrameCopies

  static async of(leader: Log): Promise<Follower> {
    const world = new World({ seed: 2 })
    const cluster = { ack: 'cluster', logId: leader.id, keepUpTo: null, nowMs: () => 0, onSetAside: () => {} } as const
    return new Follower(world, await world.open({ segmentBytes: SEGMENT_BYTES, cluster }))
  }

  constructor(world: World, log: Log) {
    this.world = world
    this.log = log
    this.writer = openWriter(log)
    const stopping = (): boolean => this.isStopping
    const number = this.#indexes.take(stopping)
    this.seen = new SeenRecords({ base: NO_SEGMENT, number, index: this.#indexes.at(number) })
    this.copies = new FrameCopies({
      writer: this.writer,
      outcomes: this.#outcomes,
      indexes: this.#indexes,
      seen: this.seen,
      stopping,
      tell: (message) => this.told.push(message),
    })
  }

  /** Takes these frames, and collects what main hears of them. */
  follow(number: number, frames: readonly Uint8Array[]): void {
    this.copies.add({ number, bytes: new Uint8Array(Buffer.concat(frames)) })
    this.copies.run()
    this.world.step()
    for (let at = this.#outcomes.next(); at >= 0; at = this.#outcomes.next()) {
      const { kind, position, collapsed } = readOutcomeHead(this.#outcomes.bytes, at)
      assert.equal(kind, SEGMENT_OPENED)
      this.opened.push([position, collapsed])
    }
    this.#outcomes.release()
  }

  hasBatch(payload: Buffer): boolean {
    const stored = new StoredBatch(payload)
    const batch = new OtlpBatch()
    scanBatch(batch, stored.body, SIGNAL_LOG, FORMAT_JSON)
    const identifier = new BatchIdentifier()
    identifier.identify(batch, stored.body, 'acme', SIGNAL_LOG, [DATASET])
    return this.seen.beginBatch(batch) && this.seen.placeOfBatch(identifier.ids, batch.recordCount) !== null
  }

  index(number: number): ActiveIndex {
    return this.#indexes.at(number)
  }
}

const idsOf = (index: ActiveIndex): readonly number[] => [...index.idWords.subarray(0, 4 * index.count)]

/** The index of a segment as a start makes it. */
function rebuilt(leader: Log, files: World['files'], base: number): readonly number[] {
  const index = ActiveIndex.create(CAPACITY)
  const indexer = new FrameIndexer()
  for (const { position, payload } of replay(leader, files).frames) {
    const segment = leader.segments.findLast((each) => each.base < position)!
    if (segment.base === base) indexer.add(index, position - base, payload)
  }
  return idsOf(index)
}

describe('frames of a leader', () => {
  it('stand in the log byte for byte, and are indexed as a start would', async () => {
    const leader = await leaderOf()
    const follower = await Follower.of(leader.log)
    for (let at = 0; at < BATCHES; at += 7) follower.follow(1 + at, leader.frames.slice(at, at + 7))
    assert.deepEqual(
      follower.told.map((message) => message.kind),
      follower.told.map(() => 'followed'),
    )
    const own = replay(follower.log, follower.world.files).frames
    assert.deepEqual(own, replay(leader.log, leader.files).frames)
    assert.deepEqual(
      follower.opened.map(([base]) => base),
      leader.log.segments.map(({ base }) => base),
    )
    for (const [base, number] of follower.opened) {
      assert.deepEqual(idsOf(follower.index(number)), rebuilt(leader.log, leader.files, base))
    }
  })

  it('are recognised when they are sent again, and no others are', async () => {
    const leader = await leaderOf()
    const follower = await Follower.of(leader.log)
    follower.follow(1, leader.frames.slice(0, 30))
    assert.deepEqual(
      payloads.map((payload) => follower.hasBatch(payload)),
      payloads.map((_, n) => n < 30),
    )
  })

  it('that are in the log already are passed over', async () => {
    const leader = await leaderOf()
    const follower = await Follower.of(leader.log)
    follower.follow(1, leader.frames.slice(0, 20))
    follower.follow(2, leader.frames.slice(5, 25))
    follower.follow(3, leader.frames.slice(0, BATCHES))
    assert.deepEqual(follower.told.at(-1), { kind: 'followed', number: 3 })
    assert.deepEqual(replay(follower.log, follower.world.files), replay(leader.log, leader.files))
    assert.equal(
      follower.opened.reduce((sum, [, number]) => sum + follower.index(number).count, 0),
      BATCHES * RECORDS,
    )
  })

  it('that do not go on with the log are refused, and nothing behind them is taken', async () => {
    const leader = await leaderOf()
    const follower = await Follower.of(leader.log)
    follower.follow(1, leader.frames.slice(0, 3))
    follower.copies.add({ number: 2, bytes: new Uint8Array(leader.frames[5]!) })
    follower.follow(3, [leader.frames[3]!])
    const [, failed, ...rest] = follower.told
    assert.ok(failed?.kind === 'follow-failed')
    assert.match(failed.reason, /does not follow the end of the log/)
    assert.deepEqual(rest, [])
    assert.equal(replay(follower.log, follower.world.files).frames.length, 3)
  })

  it('wait while the log takes nothing, until the lane is to stop', async () => {
    const leader = await leaderOf()
    const follower = await Follower.of(leader.log)
    follower.follow(1, leader.frames.slice(0, 3))
    await follower.log.close()
    let looks = 0
    Object.defineProperty(follower, 'isStopping', { get: () => (looks += 1) > 2 })
    follower.copies.add({ number: 2, bytes: new Uint8Array(leader.frames[3]!) })
    follower.copies.run()
    assert.deepEqual(follower.told, [{ kind: 'followed', number: 1 }])
    assert.ok(looks > 2)
  })
})
