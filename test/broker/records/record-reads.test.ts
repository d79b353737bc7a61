import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { NewRecord } from '../../../src/broker/frames.ts'
import { Places } from '../../../src/broker/records/places.ts'
import type { ReadResult, ReadTask } from '../../../src/broker/records/read-protocol.ts'
import { RecordReads } from '../../../src/broker/records/record-reads.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'
import { IntervalSet } from '../../../src/broker/interval-set.ts'
import { StoreError } from '../../../src/errors.ts'
import { INGEST_TIME_MS, StoredStream, bytesOf, plainRecord, shownRecord } from './support.ts'
import { unloggedReadErrors } from '../../support/health.ts'

/** Reads of a stream, done at once and without threads. */
function readsOf(stream: StoredStream): RecordReads {
  const { reader } = stream
  return new RecordReads({
    jobs: { run: async (task) => reader.run(task) },
    threads: 1,
    waitingMax: 100,
    readErrors: unloggedReadErrors(),
    readable: () => stream.readable,
    defer: queueMicrotask,
  })
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n)
const parsed = (bytes: Buffer): { offset: number }[] => JSON.parse(`[${bytes.toString()}]`) as { offset: number }[]

/** Frames of records, with holes of unused offsets between them. */
const frames = fc.array(
  fc.record(
    {
      hole: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(3) }),
      sizes: fc.array(fc.nat(20), { minLength: 1, maxLength: 40, size: 'max' }),
      ingestTimeMs: fc.nat(1000),
    },
    { noNullPrototype: true },
  ),
  { minLength: 1, maxLength: 8 },
)

interface Stored {
  readonly stream: StoredStream
  readonly records: Map<number, { readonly record: NewRecord; readonly ingestTimeMs: number }>
}

async function storedAs(list: typeof frames extends fc.Arbitrary<infer T> ? T : never): Promise<Stored> {
  const stream = await StoredStream.open(4096)
  const records: Stored['records'] = new Map()
  for (const { hole, sizes, ingestTimeMs } of list) {
    const first = stream.nextOffset + hole
    const batch = sizes.map((size, n) => ({ ...plainRecord(n, size), eventTimeMs: (7919 * (first + n)) % 1000 }))
    stream.publish(batch, first, ingestTimeMs)
    for (const [n, record] of batch.entries()) records.set(first + n, { record, ingestTimeMs })
  }
  return { stream, records }
}

describe('reads of a stream', () => {
  it('give every record once, in order, page by page, whatever the limits', async () => {
    const limits = fc.record({ maxRecords: fc.integer({ min: 1, max: 50 }), maxPayloadBytes: fc.option(fc.nat(200)) })
    await fc.assert(
      fc.asyncProperty(frames, limits, async (list, limits) => {
        const { stream, records } = await storedAs(list)
        const reads = readsOf(stream)
        const found: object[] = []
        let start = 0
        for (let more = true; more;) {
          const page = await reads.page(stream.index, start, stream.nextOffset, limits)
          assert.ok(page.returned >= 1 && page.returned <= limits.maxRecords && page.nextOffset > start)
          assert.equal(parsed(page.bytes).length, page.returned)
          found.push(...parsed(page.bytes))
          start = page.nextOffset
          more = page.hasMore
        }
        assert.deepEqual(
          found,
          [...records].map(([offset, { record, ingestTimeMs }]) => shownRecord(record, offset, ingestTimeMs)),
        )
        const behind = await reads.page(stream.index, start, start + 10, limits)
        assert.deepEqual([behind.returned, behind.hasMore, behind.nextOffset], [0, false, start])
      }),
      { numRuns: 40 },
    )
  })

  it('find the first record at or above a time, below an end', async () => {
    await fc.assert(
      fc.asyncProperty(frames, fc.nat(1100), fc.nat(300), async (list, timeMs, end) => {
        const { stream, records } = await storedAs(list)
        for (const by of ['event', 'ingest'] as const) {
          const first = [...records].find(
            ([offset, { record, ingestTimeMs }]) =>
              offset < end && (by === 'event' ? record.eventTimeMs : ingestTimeMs) >= timeMs,
          )
          const found = await readsOf(stream).firstAtOrAbove(stream.index, by, timeMs, end)
          assert.equal(found, first?.[0] ?? end)
        }
      }),
      { numRuns: 40 },
    )
  })

  it('find the oldest record that fits into a size, also after retention', async () => {
    await fc.assert(
      fc.asyncProperty(frames, fc.nat(2000), fc.nat(300), async (list, maxBytes, floor) => {
        const { stream, records } = await storedAs(list)
        stream.index.dropBelow(floor)
        let bytes = 0
        let expected = stream.index.firstOffset
        for (const [offset, { record }] of [...records].reverse()) {
          if (offset < floor) break
          bytes += bytesOf(record.payload).byteLength
          if (bytes <= maxBytes) continue
          expected = offset + 1
          break
        }
        const found = await readsOf(stream).firstWithin(stream.index, maxBytes, stream.nextOffset)
        assert.equal(found, Math.min(expected, stream.nextOffset))
      }),
      { numRuns: 40 },
    )
  })

  it('go on behind damaged records, naming each', async () => {
    const stream = await StoredStream.open()
    for (let n = 0; n < 12; n += 2) stream.publish([plainRecord(n), plainRecord(n + 1)])
    const places = new Places(1)
    stream.index.find(4, places)
    const place = places.place(0)
    stream.world.files.damage(stream.log.segments[0]!.recordsPath, (content) => {
      content[place + 60]! ^= 1
      return content
    })
    const reads = readsOf(stream)
    const page = await reads.page(stream.index, 3, 12, { maxRecords: 4, maxPayloadBytes: null })
    assert.deepEqual(
      parsed(page.bytes).map(({ offset }) => offset),
      [3, 6],
    )
    assert.deepEqual(
      page.unreadable.map(({ offset, place, cause }) => ({ offset, place, cause })),
      [
        { offset: 4, place, cause: 'damaged' },
        { offset: 5, place, cause: 'damaged' },
      ],
    )
    assert.deepEqual([page.returned, page.hasMore, page.nextOffset], [2, true, 7])
    const holes = new IntervalSet()
    holes.add(4, 6)
    const known = await reads.page(stream.index, 3, 12, { maxRecords: 4, maxPayloadBytes: null }, false, holes)
    assert.deepEqual([parsed(known.bytes).map(({ offset }) => offset), known.unreadable], [[3, 6, 7, 8], []])
    assert.deepEqual([known.returned, known.hasMore, known.nextOffset], [4, true, 9])
    const raw = await reads.raw(stream.index, 5)
    assert.ok(raw.kind === 'unreadable' && raw.unreadable.offset === 5 && raw.unreadable.cause === 'damaged')
    assert.equal(await reads.firstAtOrAbove(stream.index, 'event', 1004, 12), 6)
  })

  it('give single records out as deliveries, and what there is none of as nothing', async () => {
    const stream = await StoredStream.open()
    stream.publish([plainRecord(0), plainRecord(1), plainRecord(2)])
    const offsets = [2, 9, 0]
    const { bytes, start, end, unreadable } = await readsOf(stream).deliveries(stream.index, offsets)
    const texts = upTo(3).map((n) => bytes.toString('utf8', start(n), end(n)))
    assert.deepEqual(JSON.parse(texts[0]!), shownRecord(plainRecord(2), 2, INGEST_TIME_MS))
    assert.deepEqual(JSON.parse(texts[2]!), shownRecord(plainRecord(0), 0, INGEST_TIME_MS))
    assert.equal(texts[1], '')
    assert.deepEqual(
      unreadable.map(({ offset, segmentBase, cause }) => ({ offset, segmentBase, cause })),
      [{ offset: 9, segmentBase: -1, cause: 'dropped' }],
    )
    const none = await readsOf(stream).deliveries(stream.index, [])
    assert.equal(none.bytes.byteLength, 0)
  })

  it('give records as they stand, to be written again', async () => {
    const stream = await StoredStream.open()
    const records = upTo(5).map((n) => plainRecord(n, n))
    stream.publish(records)
    const { reader } = stream
    const reads = readsOf(stream)
    const raw = await reads.rawRecords(stream.index, 1, 4, 10)
    assert.deepEqual(
      raw.records.map(({ offset, eventTimeMs, ingestTimeMs, payloadBytes }) => [
        offset,
        eventTimeMs,
        ingestTimeMs,
        payloadBytes,
      ]),
      [1, 2, 3].map((n) => [n, records[n]!.eventTimeMs, INGEST_TIME_MS, n]),
    )
    assert.equal((await reads.rawRecords(stream.index, 1, 5, 2)).records.length, 2)
    const one = await reads.raw(stream.index, 3)
    assert.ok(one.kind === 'record' && one.record.bytes.equals(raw.records[2]!.bytes))
    const none = await reads.raw(stream.index, 5)
    assert.ok(none.kind === 'unreadable' && none.unreadable.reason === 'there is no such record')
    reader.close()
  })
})

describe('requests for the reader threads', () => {
  /** Threads whose jobs the test finishes, and deferred work that the test runs. */
  class Threads {
    readonly jobs: { task: ReadTask; finish: () => void; fail: (error: Error) => void }[] = []
    readonly deferred: (() => void)[] = []
    readonly reads: RecordReads

    constructor(stream: StoredStream, threads: number, waitingMax: number) {
      const { reader } = stream
      this.reads = new RecordReads({
        jobs: {
          run: (task) =>
            new Promise<ReadResult>((resolve, reject) => {
              this.jobs.push({ task, finish: () => resolve(reader.run(task)), fail: reject })
            }),
        },
        threads,
        waitingMax,
        readErrors: unloggedReadErrors(),
        readable: () => stream.readable,
        defer: (run) => void this.deferred.push(run),
      })
    }

    endTurn(): void {
      for (const run of this.deferred.splice(0)) run()
    }
  }

  it('that went together have their text until the last one is done with it, whoever says so twice', async () => {
    const { stream, threads } = await open(1, 100)
    const all = upTo(1000)
    const ask = async () => threads.reads.deliveries(stream.index, all)
    const asked = [ask(), ask()]
    threads.endTurn()
    threads.jobs[0]!.finish()
    const [one, other] = await Promise.all(asked)
    const text = other!.bytes.toString()
    one!.bytesDone()
    one!.bytesDone()
    assert.equal(other!.bytes.toString(), text)
    other!.bytesDone()
    assert.deepEqual([one!.bytes.byteLength, other!.bytes.byteLength], [0, 0])
  })

  const requestsIn = ({ requests }: ReadTask): number => {
    let count = 0
    for (let at = 0; at < requests.length; at += 4 + 3 * requests[at + 3]!) count += 1
    return count
  }

  const open = async (threads: number, waitingMax: number): Promise<{ stream: StoredStream; threads: Threads }> => {
    const stream = await StoredStream.open()
    stream.publish(upTo(1000).map((n) => plainRecord(n)))
    return { stream, threads: new Threads(stream, threads, waitingMax) }
  }

  it('of one turn go together, and those that come meanwhile in the next job', async () => {
    const { stream, threads } = await open(1, 100)
    const ask = async (offset: number) => threads.reads.deliveries(stream.index, [offset])
    const first = [ask(0), ask(1), ask(2)]
    assert.equal(threads.jobs.length, 0)
    threads.endTurn()
    const later = [ask(3), ask(4)]
    threads.endTurn()
    assert.deepEqual(
      threads.jobs.map(({ task }) => requestsIn(task)),
      [3],
    )
    assert.equal(threads.reads.waiting, 2)
    threads.jobs[0]!.finish()
    for (const [n, { bytes }] of (await Promise.all(first)).entries()) assert.equal(parsed(bytes)[0]!.offset, n)
    assert.deepEqual(
      threads.jobs.map(({ task }) => requestsIn(task)),
      [3, 2],
    )
    threads.jobs[1]!.finish()
    for (const [n, { bytes }] of (await Promise.all(later)).entries()) assert.equal(parsed(bytes)[0]!.offset, 3 + n)
  })

  it('are spread over threads when they are many records', async () => {
    const { stream, threads } = await open(2, 100)
    const page = () => threads.reads.page(stream.index, 0, 1000, { maxRecords: 1000, maxPayloadBytes: null })
    const pages = [page(), page(), page(), page(), page()]
    threads.endTurn()
    assert.deepEqual(
      threads.jobs.map(({ task }) => requestsIn(task)),
      [2, 2],
    )
    threads.jobs[1]!.finish()
    await Promise.all(pages.slice(2, 4))
    assert.equal(threads.jobs.length, 3)
    for (const { finish } of threads.jobs) finish()
    for (const { returned } of await Promise.all(pages)) assert.equal(returned, 1000)
  })

  it('are refused as overloaded beyond the bound, and taken again when there is room', async () => {
    const { stream, threads } = await open(1, 2)
    const ask = async () => threads.reads.deliveries(stream.index, [0])
    const first = ask()
    threads.endTurn()
    const waiting = [ask(), ask()]
    await assert.rejects(ask(), (error) => error instanceof StoreError && error.kind === 'overloaded')
    threads.jobs[0]!.finish()
    await first
    const again = ask()
    threads.jobs[1]!.finish()
    await Promise.all(waiting)
    threads.jobs[2]!.finish()
    await again
  })

  it('fail with their job, and only with it', async () => {
    const { stream, threads } = await open(1, 10)
    const ask = async () => threads.reads.deliveries(stream.index, [0])
    const failing = [ask(), ask()]
    threads.endTurn()
    const next = ask()
    const failure = new StoreError('unavailable', 'job_failed', 'the thread died')
    threads.jobs[0]!.fail(failure)
    for (const each of failing) await assert.rejects(each, failure)
    threads.jobs[1]!.finish()
    assert.equal(parsed((await next).bytes)[0]!.offset, 0)
  })

  it('for nothing need no thread', async () => {
    const { threads } = await open(1, 10)
    const page = await threads.reads.page(new RecordIndex(), 5, 9, { maxRecords: 10, maxPayloadBytes: null })
    assert.deepEqual([page.returned, page.nextOffset, page.hasMore], [0, 5, false])
    assert.equal(threads.jobs.length + threads.deferred.length, 0)
  })
})
