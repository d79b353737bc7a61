import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  FRAME_CHANGE,
  FRAME_CLAIM,
  FRAME_RECORDS_REPLICATED,
  claimBytes,
  encodeClaim,
  encodeRecord,
  encodeReplicatedRecords,
  recordBytes,
  replicatedRecordsBytes,
} from '../../../src/broker/frames.ts'
import type { NewRecord } from '../../../src/broker/frames.ts'
import { Places } from '../../../src/broker/records/places.ts'
import {
  PAGE_BEGIN,
  PAGE_CAPPED,
  PAGE_CONSIDERED,
  PAGE_END,
  PAGE_FIRST_EXCEEDS,
  PAGE_PAYLOAD_BYTES,
  PAGE_RETURNED,
  READ_DELIVERIES,
  READ_EVENTS,
  READ_ORIGINS,
  READ_PAGE,
  READ_RAW,
  READ_TIMES,
} from '../../../src/broker/records/read-protocol.ts'
import type { ReadKind, ReadResult } from '../../../src/broker/records/read-protocol.ts'
import { ANSWER_PAYLOAD_BYTES_MAX } from '../../../src/broker/records/unread-answers.ts'
import { World } from '../../support/log-harness.ts'
import { INGEST_TIME_MS, StoredStream, bytesOf, encoded, newRecord, plainRecord } from './support.ts'
import { taskOf, placesOf, upTo, textOf, delivered, read, shown } from './reading.ts'
import type { Ask } from './reading.ts'

describe('the reader', () => {
  it('gives out any records in any order, from frames of one and of many, over segments', async () => {
    const batches = fc.array(fc.array(newRecord, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(batches, fc.array(fc.nat(), { maxLength: 20 }), async (batches, picks) => {
        const stream = await StoredStream.open(2048)
        for (const batch of batches) stream.publish(batch)
        const records = batches.flat()
        const offsets = picks.map((pick) => pick % records.length)
        const all = shown(records)
        assert.deepEqual(
          read(stream, offsets),
          offsets.map((offset) => all[offset]),
        )
      }),
    )
  })

  it('reads frames of any length wherever they lie', async () => {
    const lengths = fc.array(fc.oneof(fc.nat(300), fc.integer({ min: 30_000, max: 70_000 })), {
      minLength: 1,
      maxLength: 8,
    })
    await fc.assert(
      fc.asyncProperty(lengths, fc.array(fc.nat(), { maxLength: 12 }), async (lengths, picks) => {
        const stream = await StoredStream.open()
        const records = lengths.map((length, n) => plainRecord(n, length))
        for (const record of records) stream.publish([record])
        const { reader } = stream
        const all = shown(records)
        assert.deepEqual(read(stream, upTo(records.length), reader), all)
        const offsets = picks.map((pick) => pick % records.length)
        assert.deepEqual(
          read(stream, offsets, reader),
          offsets.map((offset) => all[offset]),
        )
      }),
      { numRuns: 30 },
    )
  })

  it('finds what was appended since it read last, and calls nothing damaged that is not written yet', async () => {
    const stream = await StoredStream.open()
    const { reader } = stream
    const records: NewRecord[] = []
    for (let n = 0; n < 20; n++) {
      const before = stream.readable
      records.push(plainRecord(n))
      stream.publish([records[n]!])
      const early = { ...taskOf(stream, [{ kind: READ_DELIVERIES, places: placesOf(stream, [n]) }]), readable: before }
      assert.deepEqual(
        reader.run(early).unreadable.map(({ cause }) => cause),
        ['unavailable'],
      )
      assert.deepEqual(read(stream, upTo(n + 1), reader), shown(records))
    }
  })

  it('reads neighbouring small frames with one call, and only what was added since', async () => {
    const stream = await StoredStream.open()
    const { reader } = stream
    const reads: number[] = []
    stream.world.files.faults = { read: (_path, _at, bytes) => void reads.push(bytes.byteLength) }
    for (const count of [100, 200, 201]) {
      while (stream.nextOffset < count) stream.publish([plainRecord(stream.nextOffset)])
      assert.equal(read(stream, upTo(count), reader).length, count)
    }
    assert.equal(reads.length, 3)
    assert.equal(
      reads.reduce((sum, bytes) => sum + bytes, 0),
      stream.log.written,
    )
  })

  it('keeps nothing of a generation of the log that is over', async () => {
    const stream = await StoredStream.open()
    const { reader } = stream
    stream.publish([plainRecord(0)])
    let reads = 0
    stream.world.files.faults = { read: () => void (reads += 1) }
    const task = taskOf(stream, [{ kind: READ_DELIVERIES, places: placesOf(stream, [0]) }])
    reader.run(task)
    reader.run(task)
    assert.equal(reads, 1)
    reader.run({ ...task, readable: { ...task.readable, generation: task.readable.generation + 1 } })
    assert.equal(reads, 2)
  })

  it('answers many requests in one job, each as if it were alone', async () => {
    const stream = await StoredStream.open()
    for (let n = 0; n < 30; n += 3) stream.publish([plainRecord(n), plainRecord(n + 1), plainRecord(n + 2)])
    const kinds = fc.constantFrom(READ_DELIVERIES, READ_PAGE, READ_TIMES, READ_RAW)
    const asks = fc.array(
      fc.tuple(kinds, fc.array(fc.nat(29), { minLength: 1, maxLength: 8 })).map(([kind, offsets]) => ({
        kind,
        argument: Infinity,
        places: placesOf(stream, offsets),
      })),
      { maxLength: 6 },
    )
    const { reader } = stream
    fc.assert(
      fc.property(asks, (asks) => {
        const together = reader.run(taskOf(stream, asks))
        const alone = asks.map((ask) => stream.reader.run(taskOf(stream, [ask])))
        assert.equal(
          Buffer.from(together.text).toString(),
          alone.map((each) => Buffer.from(each.text).toString()).join(''),
        )
        assert.equal(
          together.numbers.length,
          alone.reduce((sum, { numbers }) => sum + numbers.length, 0),
        )
      }),
    )
  })

  it('gives times, sizes and the bytes of records as they stand', async () => {
    const stream = await StoredStream.open()
    const records = fc.sample(newRecord, { seed: 4, numRuns: 12 })
    stream.publish(records.slice(0, 5))
    stream.publish(records.slice(5), undefined, 77)
    const places = placesOf(stream, upTo(12))
    const ingestTimes = upTo(12).map((n) => (n < 5 ? INGEST_TIME_MS : 77))
    const times = stream.reader.run(taskOf(stream, [{ kind: READ_TIMES, places }]))
    assert.deepEqual(
      [...times.numbers],
      [
        ...records.map(({ eventTimeMs }) => eventTimeMs),
        ...ingestTimes,
        ...records.map(({ payload }) => bytesOf(payload).byteLength),
      ],
    )
    const raw = stream.reader.run(taskOf(stream, [{ kind: READ_RAW, places }]))
    for (const [n, record] of records.entries()) {
      const bytes = Buffer.from(raw.text.subarray(raw.numbers[n], raw.numbers[n + 1]))
      assert.ok(bytes.equals(encoded(recordBytes(record), (into, at) => encodeRecord(into, at, record))))
    }
    assert.deepEqual([...raw.numbers.subarray(13)], ingestTimes)
  })

  it('shows records from another site with the time they came here', async () => {
    const stream = await StoredStream.open()
    const records = [plainRecord(0), plainRecord(1)]
    const frame = {
      streamNumber: 1,
      firstOffset: 0,
      ingestTimeMs: INGEST_TIME_MS,
      sourceSite: 'a',
      targetSite: 'b',
      policy: 'dr',
      firstOriginOffset: 40,
      originOffsets: null,
      source: null,
      records: records.map((record) => ({ ...record, sourceIngestTimeMs: 5 })),
    }
    const payload = encoded(replicatedRecordsBytes(frame), (into, at) => encodeReplicatedRecords(into, at, frame))
    const place = stream.store(FRAME_RECORDS_REPLICATED, payload)
    stream.index.append(
      place,
      0,
      2,
      INGEST_TIME_MS,
      () => 0,
      () => 8,
    )
    assert.deepEqual(read(stream, [0, 1]), shown(records))
  })
})

describe('a page', () => {
  const page = (stream: StoredStream, offsets: readonly number[], argument: number) => {
    const result = stream.reader.run(taskOf(stream, [{ kind: READ_PAGE, argument, places: placesOf(stream, offsets) }]))
    const { numbers } = result
    return {
      records: JSON.parse(`[${textOf(result, numbers[PAGE_BEGIN]!, numbers[PAGE_END]!)}]`) as unknown[],
      returned: numbers[PAGE_RETURNED]!,
      considered: numbers[PAGE_CONSIDERED]!,
      payloadBytes: numbers[PAGE_PAYLOAD_BYTES]!,
      capped: numbers[PAGE_CAPPED] === 1,
      firstExceeds: numbers[PAGE_FIRST_EXCEEDS] === 1,
    }
  }

  it('ends before the record that would exceed the cap, and always has the first', async () => {
    const stream = await StoredStream.open()
    const sizes = [5, 0, 7, 3, 9, 1]
    const records = sizes.map((size, n) => plainRecord(n, size))
    stream.publish(records.slice(0, 4))
    stream.publish(records.slice(4))
    for (let cap = 1; cap <= 30; cap++) {
      for (let from = 0; from < sizes.length; from++) {
        let count = 1
        let bytes = sizes[from]!
        while (from + count < sizes.length && bytes + sizes[from + count]! <= cap) bytes += sizes[from + count++]!
        assert.deepEqual(page(stream, upTo(sizes.length).slice(from), cap), {
          records: shown(records).slice(from, from + count),
          returned: count,
          considered: count,
          payloadBytes: bytes,
          capped: from + count < sizes.length,
          firstExceeds: sizes[from]! > cap,
        })
      }
    }
  })

  it('has all that was asked for when there is no cap', async () => {
    const stream = await StoredStream.open()
    const records = upTo(1000).map((n) => plainRecord(n, n % 50))
    stream.publish(records)
    const { records: found, capped, considered } = page(stream, upTo(1000), Infinity)
    assert.deepEqual(found, shown(records))
    assert.ok(!capped && considered === 1000)
  })

  it('and deliveries stay below a bound, whatever was asked', async () => {
    const world = new World({ seed: 1 })
    const stream = new StoredStream(world, await world.open({ segmentBytes: 1 << 27, ringBytes: 1 << 26 }))
    const third = Math.floor(ANSWER_PAYLOAD_BYTES_MAX / 3)
    for (let n = 0; n < 4; n++) stream.publish([plainRecord(n, third)])
    const places = placesOf(stream, upTo(4))
    const asks = [READ_PAGE, READ_DELIVERIES, READ_RAW].map((kind) => ({ kind, argument: Infinity, places }) as Ask)
    const { numbers, unreadable } = stream.reader.run(taskOf(stream, asks))
    assert.deepEqual([numbers[PAGE_RETURNED], numbers[PAGE_CAPPED]], [3, 0])
    assert.deepEqual(
      unreadable.map(({ request, number, cause }) => [request, number, cause]),
      [
        [1, 3, 'withheld'],
        [2, 2, 'withheld'], // with the rest of their frames, three are too large
        [2, 3, 'withheld'],
      ],
    )
  })
})

it('a page and deliveries give no record while too much waits for clients (D2), all else does', async () => {
  const stream = await StoredStream.open()
  stream.publish(upTo(3).map((n) => plainRecord(n, 10)))
  const places = placesOf(stream, upTo(3))
  const asks = [READ_PAGE, READ_DELIVERIES, READ_ORIGINS, READ_RAW].map(
    (kind) => ({ kind, argument: Infinity, places }) as Ask,
  )
  const withheldOf = (heldBytes: number): unknown[] =>
    stream.reader
      .run({ ...taskOf(stream, asks), heldBytes })
      .unreadable.map(({ request, number, cause }) => [request, number, cause])
  const full = 256 << 20
  assert.deepEqual(withheldOf(full), [
    [0, 0, 'withheld'],
    [1, 0, 'withheld'],
    [1, 1, 'withheld'],
    [1, 2, 'withheld'],
  ])
  assert.deepEqual(withheldOf(full - 10_000), [])
})

describe('what cannot be read', () => {
  it('is named and left out, and everything else is answered, whichever bit is flipped', async () => {
    const stream = await StoredStream.open(2048)
    const records = upTo(60).map((n) => plainRecord(n, 40))
    for (let n = 0; n < 60; n += 4) stream.publish(records.slice(n, n + 4))
    const paths = stream.world.files.paths().filter((path) => path.endsWith('records.log'))
    assert.ok(paths.length > 2)
    const all = shown(records)
    const task = taskOf(stream, [{ kind: READ_DELIVERIES, places: placesOf(stream, upTo(60)) }])
    const whole = stream.world.files
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.nat(), (path, pick) => {
        stream.world.files = whole.clone(1)
        let damagedAt = 0
        stream.world.files.damage(path, (content) => {
          damagedAt = (pick >> 3) % content.byteLength
          content[damagedAt]! ^= 1 << (pick & 7)
          return content
        })
        const result = stream.reader.run(task)
        const lost = new Set(result.unreadable.map(({ number }) => number))
        assert.deepEqual(
          delivered(result, 60),
          all.map((record, n) => (lost.has(n) ? null : record)),
        )
        const base = Number.parseInt(path.split('/').at(-2)!, 16)
        for (const { number, cause, frameBytes } of result.unreadable) {
          assert.equal(cause, 'damaged')
          const place = placesOf(stream, [number])
          assert.equal(place.segmentBase(0), base)
          assert.ok(damagedAt >= place.place(0))
          if (frameBytes > 48) assert.ok(damagedAt < place.place(0) + frameBytes)
        }
        assert.ok(lost.size === 0 || lost.size === 4, 'the records of one frame')
      }),
      { numRuns: 200 },
    )
    stream.world.files = whole
  })

  it('is read again before it is called damaged', async () => {
    const stream = await StoredStream.open()
    const records = [plainRecord(0), plainRecord(1)]
    stream.publish(records)
    for (let bad = 1; bad <= 2; bad++) {
      let reads = 0
      stream.world.files.faults = {
        read: (_path, _at, bytes) => {
          if (reads++ < bad) bytes[bytes.byteLength - 40]! ^= 1
        },
      }
      assert.deepEqual(read(stream, [0, 1]), shown(records))
      assert.ok(reads > bad)
    }
  })

  it('is read from the file that stands there now before it is called damaged', async () => {
    const stream = await StoredStream.open()
    const { reader } = stream
    const records = [plainRecord(0), plainRecord(1)]
    stream.publish([records[0]!])
    read(stream, [0], reader)
    stream.publish([records[1]!])
    const { files } = stream.world
    const [{ recordsPath: path }] = stream.log.segments as unknown as [{ recordsPath: string }]
    const good = Buffer.from(files.contentOf(path))
    files.damage(path, (content) => content.fill(0, placesOf(stream, [1]).place(0)))
    files.removeFile(path)
    files.create(path).writev([good], 0)
    assert.deepEqual(read(stream, [0, 1], reader), shown(records))
  })

  it('because it is not written yet is unavailable', async () => {
    const stream = await StoredStream.open()
    stream.publish([plainRecord(0)])
    const { segmentBase, place } = stream.store(FRAME_CHANGE, Buffer.from('{}'), 'waiting')
    const places = new Places(1)
    places.add(1, segmentBase, place)
    const { unreadable } = stream.reader.run(taskOf(stream, [{ kind: READ_DELIVERIES, places }]))
    assert.deepEqual(
      unreadable.map(({ cause }) => cause),
      ['unavailable'],
    )
  })

  it('because the disk fails is unavailable, and there again when the disk is', async () => {
    const stream = await StoredStream.open()
    const { reader } = stream
    stream.publish([plainRecord(0)])
    const task = taskOf(stream, [{ kind: READ_DELIVERIES, places: placesOf(stream, [0]) }])
    stream.world.files.faults = {
      read: () => {
        throw Object.assign(new Error('EIO'), { code: 'EIO' })
      },
    }
    const failed = reader.run(task)
    assert.deepEqual(
      failed.unreadable.map(({ cause, reason }) => [cause, reason]),
      [['unavailable', 'segment 0000000000000000 cannot be read: EIO']],
    )
    stream.world.files.faults = {}
    assert.deepEqual(read(stream, [0], reader), shown([plainRecord(0)]))
  })

  it('because its segment is gone is dropped, whether main says so or the file is missing', async () => {
    const stream = await StoredStream.open(1024)
    for (let n = 0; n < 40; n++) stream.publish([plainRecord(n)])
    const places = placesOf(stream, upTo(40))
    const [first, second] = stream.log.segments
    const { reader } = stream
    read(stream, upTo(40), reader)
    stream.world.files.removeFile(first!.recordsPath)
    const causes = (result: ReadResult): unknown[] => result.unreadable.map(({ number, cause }) => [number, cause])
    const isIn = (n: number, ...bases: readonly number[]): boolean => bases.includes(places.segmentBase(n))
    const task = taskOf(stream, [{ kind: READ_DELIVERIES, places }])
    const missing = upTo(40).filter((n) => isIn(n, first!.base))
    assert.ok(missing.length > 0)
    assert.deepEqual(
      causes(stream.reader.run(task)),
      missing.map((n) => [n, 'dropped']),
    )
    const behind = { ...task, readable: { ...task.readable, from: second!.end + 64 } }
    assert.deepEqual(
      causes(reader.run(behind)),
      upTo(40)
        .filter((n) => isIn(n, first!.base, second!.base))
        .map((n) => [n, 'dropped']),
    )
  })

  it('is a record that its frame does not hold', async () => {
    const stream = await StoredStream.open()
    stream.publish([plainRecord(0)])
    const claim = { groupNumber: 0, claimNumber: 0, atMs: 0, expiresAtMs: 1, runs: [] }
    const other = stream.store(
      FRAME_CLAIM,
      encoded(claimBytes(claim), (into, at) => encodeClaim(into, at, claim)),
    )
    const places = placesOf(stream, [0])
    places.numbers[0] = 1
    const wrong = new Places(1)
    wrong.add(0, other.segmentBase, other.place)
    const kinds: readonly ReadKind[] = [READ_DELIVERIES, READ_EVENTS]
    const asks = kinds.flatMap((kind) => [places, wrong].map((places) => ({ kind, places })))
    const { unreadable } = stream.reader.run(taskOf(stream, asks))
    assert.deepEqual(
      unreadable.map(({ cause }) => cause),
      ['damaged', 'damaged', 'damaged', 'damaged'],
    )
  })
})
