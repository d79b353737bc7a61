/** Random records, what users see of them, and a log of real frames on simulated files. */
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import type { Place } from '../../../src/broker/state/state.ts'
import { FRAME_RECORDS, encodeRecords, recordsBytes } from '../../../src/broker/frames.ts'
import type { Content, NewRecord } from '../../../src/broker/frames.ts'
import type { Readable } from '../../../src/broker/records/frame-source.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'
import { RecordReader } from '../../../src/broker/records/reader.ts'
import type { LogWriter } from '../../../src/log/log-writer.ts'
import type { Log } from '../../../src/log/log.ts'
import { World, openWriter } from '../../support/log-harness.ts'
import { codePoint } from '../../support/code-point.ts'

/** Objects with a prototype, like those of literals: fast-check sometimes makes objects without. */
export const plain = <T>(fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }): fc.Arbitrary<T> =>
  fc.record(fields, { noNullPrototype: true })

/** Short and long texts, with characters that JSON escapes and that take one to four bytes of UTF-8. */
export const text = fc.oneof(
  fc.string(),
  fc.string({ unit: codePoint, maxLength: 80 }),
  fc.string({ unit: fc.constantFrom('a', '"', '\\', '\n', '\u0001', '\u007f', 'é', '€', '😀'), maxLength: 70 }),
)
const hexText = fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes).toString('hex'))
const content: fc.Arbitrary<Content> = fc.oneof(
  fc.uint8Array({ maxLength: 80 }),
  text.map((value) => ({ text: value, encoding: 'utf8' as const })),
  hexText.map((value) => ({ text: value, encoding: 'hex' as const })),
)
export const timeMs = fc.oneof(
  fc.constantFrom(0, 1, 99_999_999, 100_000_000, Number.MAX_SAFE_INTEGER),
  fc.nat(1_000_000),
  fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 }),
)
export const newRecord: fc.Arbitrary<NewRecord> = plain<NewRecord>({
  messageId: text,
  payload: content,
  key: fc.option(content),
  headers: fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true }),
  eventTimeMs: timeMs,
})

/** A simple record that differs from those of other numbers. */
export const plainRecord = (n: number, payloadBytes = 8): NewRecord => ({
  messageId: `m-${n}`,
  payload: new Uint8Array(payloadBytes).fill(n),
  key: null,
  headers: {},
  eventTimeMs: 1000 + n,
})

export function bytesOf(from: Content): Buffer {
  return from instanceof Uint8Array ? Buffer.from(from) : Buffer.from(from.text, from.encoding)
}

/** The record as users see it, in the form of `RecordReply`. */
export const shownRecord = (record: NewRecord, offset: number, ingestTimeMs: number): object => ({
  offset,
  message_id: record.messageId,
  payload_hex: bytesOf(record.payload).toString('hex'),
  key_hex: record.key && bytesOf(record.key).toString('hex'),
  headers: record.headers,
  event_time_ms: record.eventTimeMs,
  ingest_time_ms: ingestTimeMs,
})

/** Encodes a payload into the middle of a buffer, to find writes outside of its place. */
export function encoded(payloadBytes: number, encode: (into: Buffer, at: number) => number): Buffer {
  const around = Buffer.alloc(payloadBytes + 32, 0xa5)
  const end = encode(around, 16)
  if (end !== 16 + payloadBytes) throw new Error(`announced ${payloadBytes} bytes, wrote ${end - 16}`)
  if (around.subarray(0, 16).some((byte) => byte !== 0xa5) || around.subarray(end).some((byte) => byte !== 0xa5)) {
    throw new Error('wrote beyond the payload')
  }
  return around.subarray(16, end)
}

export const INGEST_TIME_MS = 1_800_000_000_000

/** One stream in a log that the test steps. */
export class StoredStream {
  readonly world: World
  readonly log: Log
  readonly index = new RecordIndex()
  nextOffset = 0
  readonly #writer: LogWriter

  static async open(segmentBytes = 1 << 20): Promise<StoredStream> {
    const world = new World({ seed: 1 })
    return new StoredStream(world, await world.open({ segmentBytes, ringBytes: 1 << 21 }))
  }

  constructor(world: World, log: Log) {
    this.world = world
    this.log = log
    this.#writer = openWriter(log)
  }

  get reader(): RecordReader {
    return new RecordReader(this.world.files, { segmentsDirectory: '/data/segments', logId: this.log.id })
  }

  get readable(): Readable {
    return { from: this.log.segments[0]?.base ?? 0, end: this.log.written, generation: this.log.generation }
  }

  /** Stores a frame, or leaves it in the log's ring. @returns its place */
  store(type: number, payload: Buffer, fate: 'written' | 'waiting' = 'written'): Place {
    const writer = this.#writer
    const begun = writer.tryBegin(type, payload.byteLength, -1, 0, 'sync', 'admit')
    if (begun !== 'ok') throw new Error(begun)
    payload.copy(writer.bytes, writer.inlineOffset)
    writer.publish(crc32(payload))
    if (fate === 'written') this.world.step()
    const { segmentBase, segmentOffset: place } = writer
    return { segmentBase, place, frameBytes: frameBytes(payload.byteLength) }
  }

  /** Stores records as one frame, at the next offsets or, like moved records, at given ones. */
  publish(records: readonly NewRecord[], firstOffset = this.nextOffset, ingestTimeMs = INGEST_TIME_MS): void {
    const frame = { streamNumber: 1, firstOffset, ingestTimeMs, records }
    const place = this.store(
      FRAME_RECORDS,
      encoded(recordsBytes(records), (into, at) => encodeRecords(into, at, frame)),
    )
    this.index.append(
      place,
      firstOffset,
      records.length,
      ingestTimeMs,
      (n) => records[n]!.eventTimeMs,
      (n) => bytesOf(records[n]!.payload).byteLength,
    )
    this.nextOffset = Math.max(this.nextOffset, firstOffset + records.length)
  }
}
