/**
 * What does a record cost the broker: writing it into a frame, finding it, reading it back as JSON? `--smoke` runs each case once on little
 * data, so that CI catches rot.
 *
 * Records of 200 bytes with an id of 20, published one by one (a frame each) and in batches of 1000 (one frame), in temporary files. Pages
 * are of 1000 neighbours, in the page cache of the system; claims of 1000 records at a time come from 40 requests for 25 each.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { FRAME_HEADER_BYTES, emptyFrameHeader, encodeFrameHeader, frameBytes } from '../native-free-codecs/frame.ts'
import { encodeRecords, recordsBytes } from '../src/broker/frames.ts'
import type { NewRecord } from '../src/broker/frames.ts'
import { PLACE_NUMBERS, Places } from '../src/broker/records/places.ts'
import { READ_DELIVERIES, READ_PAGE, REQUEST_NUMBERS } from '../src/broker/records/read-protocol.ts'
import { RecordReader } from '../src/broker/records/reader.ts'
import { RecordIndex } from '../src/broker/records/record-index.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { RECORDS_NAME, SEGMENT_HEADER_BYTES, segmentName } from '../src/log/segment-format.ts'
import { Random } from './load/random.ts'

const smoke = process.argv.includes('--smoke')
const RECORDS = smoke ? 2000 : 100_000
const BATCH = 1000
const INDEX_RECORDS = smoke ? 100_000 : 10_000_000
const FIRST_TIME_MS = 1_700_000_000_000
const LOG_ID = 7
const random = new Random(1)
const directory = mkdtempSync(join(tmpdir(), 'trilog-bench-'))
process.on('exit', () => rmSync(directory, { recursive: true }))
let checksum = 0 // same bytes, same number

const payload = Array.from({ length: 200 }, () => String.fromCharCode(random.between(0x20, 0x7e))).join('')
const recordOf = (n: number, encoding: 'utf8' | 'hex' = 'utf8'): NewRecord => ({
  messageId: `message-${String(n).padStart(12, '0')}`,
  payload: { text: encoding === 'utf8' ? payload : Buffer.from(payload).toString('hex'), encoding },
  key: null,
  headers: {},
  eventTimeMs: FIRST_TIME_MS + n,
})

/** A segment of records in frames of `batch`; where each record is. */
function writeSegment(base: number, batch: number): RecordIndex {
  const index = new RecordIndex()
  const parts: Buffer[] = [Buffer.alloc(SEGMENT_HEADER_BYTES)]
  let place = SEGMENT_HEADER_BYTES
  for (let offset = 0; offset < RECORDS; offset += batch) {
    const records = Array.from({ length: batch }, (_, i) => recordOf(offset + i))
    const payloadBytes = recordsBytes(records)
    const frame = Buffer.alloc(frameBytes(payloadBytes))
    const ingestTimeMs = FIRST_TIME_MS + offset
    encodeRecords(frame, FRAME_HEADER_BYTES, { streamNumber: 1, firstOffset: offset, ingestTimeMs, records })
    const payloadCrc = crc32(frame.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + payloadBytes))
    const header = { ...emptyFrameHeader(), position: base + place, payloadBytes, type: 1, payloadCrc, logId: LOG_ID }
    encodeFrameHeader(header, frame, 0)
    index.append(
      { segmentBase: base, place, frameBytes: frame.byteLength },
      offset,
      batch,
      ingestTimeMs,
      (i) => records[i]!.eventTimeMs,
      () => payload.length,
    )
    parts.push(frame)
    place += frame.byteLength
    checksum = crc32(frame, checksum)
  }
  mkdirSync(join(directory, segmentName(base)))
  const file = nodeFiles.create(join(directory, segmentName(base), RECORDS_NAME))
  file.writev(parts, 0)
  file.close()
  return index
}

const ONE_BY_ONE = 0
const BATCHED = 2 ** 31
const singles = writeSegment(ONE_BY_ONE, 1)
const batches = writeSegment(BATCHED, BATCH)
const reader = new RecordReader(nodeFiles, { segmentsDirectory: directory, logId: LOG_ID })
const readable = { from: 0, end: Number.MAX_SAFE_INTEGER, generation: 0 }

function task(
  index: RecordIndex,
  kind: number,
  from: number,
  count: number,
  requests: number,
): Float64Array<ArrayBuffer> {
  const places = new Places(count * requests)
  index.collect(from, RECORDS, count * requests, places)
  const one = REQUEST_NUMBERS + PLACE_NUMBERS * count
  const numbers = new Float64Array(requests * one)
  for (let i = 0; i < requests; i++) {
    numbers.set([kind, 0, Infinity, count], i * one)
    numbers.set(
      places.numbers.subarray(PLACE_NUMBERS * count * i, PLACE_NUMBERS * count * (i + 1)),
      i * one + REQUEST_NUMBERS,
    )
  }
  return numbers
}

let turn = 0
const nextPage = (): number => (turn++ * 1000) % RECORDS
const read = (index: RecordIndex, kind: number, requests: number) => () => {
  const { text } = reader.run({ readable, requests: task(index, kind, nextPage(), 1000 / requests, requests) })
  return text.byteLength
}

const large = new RecordIndex()
for (let offset = 0; offset < INDEX_RECORDS; offset++) {
  const place = {
    segmentBase: 2 ** 26 * Math.floor(offset / 250_000),
    place: 64 + (offset % 250_000) * 264,
    frameBytes: 264,
  }
  const eventTimeMs = FIRST_TIME_MS + offset + random.between(0, 100)
  large.append(
    place,
    offset,
    1,
    FIRST_TIME_MS + offset,
    () => eventTimeMs,
    () => 200,
  )
}
const found = new Places(1000)

const records = Array.from({ length: BATCH }, (_, i) => recordOf(i))
const hexRecords = Array.from({ length: BATCH }, (_, i) => recordOf(i, 'hex'))
const target = Buffer.alloc(2 * recordsBytes(records))
const encode = (from: readonly NewRecord[]) => () => {
  recordsBytes(from)
  encodeRecords(target, 0, { streamNumber: 1, firstOffset: 0, ingestTimeMs: FIRST_TIME_MS, records: from })
}

const bench = new Bench({ name: 'records', ...(smoke && { time: 0, iterations: 1, warmup: false }) })
bench.add('encode 1000 records of text in one frame', encode(records))
bench.add('encode 1000 records of hex in one frame', encode(hexRecords))
bench.add('encode 1 record', encode(records.slice(0, 1)))
bench.add('page of 1000, a frame each', read(singles, READ_PAGE, 1))
bench.add('page of 1000 from one frame', read(batches, READ_PAGE, 1))
bench.add('40 claims of 25, a frame each', read(singles, READ_DELIVERIES, 40))
bench.add('40 claims of 25 from one frame', read(batches, READ_DELIVERIES, 40))
bench.add(`plan a page of 1000 in ${INDEX_RECORDS} records`, () => {
  found.count = 0
  large.collect(random.between(0, INDEX_RECORDS - 1000), INDEX_RECORDS, 1000, found)
})
bench.add(`find the first record by time in ${INDEX_RECORDS} records`, () => {
  large.candidates('event', FIRST_TIME_MS + random.between(0, INDEX_RECORDS))
})
await bench.run()
console.table(bench.table())
console.log({ node: process.version, checksum })
reader.close()
