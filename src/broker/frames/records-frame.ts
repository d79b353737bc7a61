/**
 * Payloads of RECORDS and RECORDS_REPLICATED: records of one stream at consecutive offsets. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version       RECORDS_VERSION
 *        1      1  flags         bit 0: relocated, the records stood in an older segment before
 *        2      2  unused        0
 *        4      4  streamNumber  u32
 *        8      8  firstOffset   u64, of the first record; the others follow
 *       16      8  ingestTimeMs  u64, of all records
 *       24      4  count         u32, at least 1
 *       28      4  headCrc       u32, CRC-32 of bytes [0, 28): a frame whose payload is damaged can still say which offsets it held
 *       32      …  records       back to back, see record.ts
 *
 * Records that came from another site have something in between:
 *
 *       32      8  firstOriginOffset  u64, at the source, of the first record; the others follow
 *       40      4  linkBytes          u32, of the texts
 *       44      4  originFlags        u32: bit 0, the link has a fourth text; bit 1, there are origin offsets
 *       48      …  link               source site, target site, policy, with bit 0 the source as JSON (see `OriginSource`): u32 bytes and UTF-8 each
 *        …  8·count  origin times     u64, when the source took each record in
 *        …  8·count  origin offsets   u64, with bit 1: ascending, with gaps. Without, the records follow on firstOriginOffset
 *        …      …  records
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { crc32, readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { FRAME_RECORDS, FRAME_RECORDS_REPLICATED } from './frame-types.ts'
import { EVENT_TIME_AT, encodeRecord, hasNoEventTime, recordBytes } from './record.ts'
import type { NewRecord, RecordSource } from './record.ts'
import { TextFields, textFieldBytes, writeTextField } from './text.ts'

const RECORDS_VERSION = 1
const FLAG_RELOCATED = 1
const HEAD_CRC_AT = 28
/** Bytes at the start of a payload that are enough for `decodeRecordsHead`. */
export const RECORDS_HEAD_BYTES = 32
const LINK_AT = 48
const NUMBER_BYTES = 8
const FLAG_SOURCE = 1
const FLAG_OFFSETS = 2

export interface RecordsHead {
  readonly streamNumber: number
  readonly firstOffset: number
  readonly ingestTimeMs: number
}

export interface Records extends RecordsHead {
  readonly relocated?: boolean
  readonly records: readonly RecordSource[]
}

/** From one site to another, under a policy. */
interface Link {
  readonly sourceSite: string
  readonly targetSite: string
  readonly policy: string
}

/** A record as the source had it. */
interface OriginRecord extends NewRecord {
  readonly sourceIngestTimeMs: number
}

/** More about where records came from, as far as the source sent it. */
export interface OriginSource {
  /** Sites that the records passed through before the source site. */
  readonly via?: readonly string[]
  /** When the stream was created at the source: a later one of the same name is another stream. */
  readonly created_at_ms?: number
}

export interface ReplicatedRecords extends RecordsHead, Link {
  readonly firstOriginOffset: number
  /** Null: they follow on the first one. */
  readonly originOffsets: readonly number[] | null
  readonly source: OriginSource | null
  readonly records: readonly OriginRecord[]
}

export function recordsBytes(records: readonly RecordSource[]): number {
  let bytes = RECORDS_HEAD_BYTES
  for (const record of records) bytes += recordBytes(record)
  return bytes
}

/** @returns the end of the payload, `recordsBytes` behind `at` */
export function encodeRecords(into: Buffer, at: number, frame: Records): number {
  writeRecordsHead(into, at, frame, frame.records.length, frame.relocated ? FLAG_RELOCATED : 0)
  let to = at + RECORDS_HEAD_BYTES
  for (const record of frame.records) to = encodeRecord(into, to, record)
  return to
}

/** Records that are encoded already, back to back. One without an event time (`hasNoEventTime`) gets its ingest time. */
export interface EncodedRecords {
  readonly bytes: Uint8Array
  readonly count: number
}

export const encodedRecordsBytes = ({ bytes }: EncodedRecords): number => RECORDS_HEAD_BYTES + bytes.byteLength

/** @returns the end of the payload, `encodedRecordsBytes` behind `at` */
export function encodeEncodedRecords(into: Buffer, at: number, head: RecordsHead, records: EncodedRecords): number {
  writeRecordsHead(into, at, head, records.count, 0)
  const end = copyBytes(records.bytes, into, at + RECORDS_HEAD_BYTES)
  for (let to = at + RECORDS_HEAD_BYTES; to < end; to += readU32(into, to)) {
    if (hasNoEventTime(into, to)) writeU64(into, to + EVENT_TIME_AT, head.ingestTimeMs)
  }
  return end
}

export function replicatedRecordsBytes(frame: ReplicatedRecords): number {
  const { records } = frame
  const numbers = frame.originOffsets === null ? 1 : 2
  return (
    LINK_AT + linkBytes(frame) + numbers * NUMBER_BYTES * records.length + recordsBytes(records) - RECORDS_HEAD_BYTES
  )
}

/** @returns the end of the payload, `replicatedRecordsBytes` behind `at` */
export function encodeReplicatedRecords(into: Buffer, at: number, frame: ReplicatedRecords): number {
  writeRecordsHead(into, at, frame, frame.records.length, 0)
  writeU64(into, at + 32, frame.firstOriginOffset)
  const namesAt = at + LINK_AT
  let to = writeTextField(into, namesAt, frame.sourceSite)
  to = writeTextField(into, to, frame.targetSite)
  to = writeTextField(into, to, frame.policy)
  if (frame.source !== null) to = writeTextField(into, to, JSON.stringify(frame.source))
  writeU32(into, at + 40, to - namesAt)
  writeU32(into, at + 44, (frame.source === null ? 0 : FLAG_SOURCE) | (frame.originOffsets === null ? 0 : FLAG_OFFSETS))
  for (const { sourceIngestTimeMs } of frame.records) {
    writeU64(into, to, sourceIngestTimeMs)
    to += NUMBER_BYTES
  }
  for (const offset of frame.originOffsets ?? []) {
    writeU64(into, to, offset)
    to += NUMBER_BYTES
  }
  for (const record of frame.records) to = encodeRecord(into, to, record)
  return to
}

function linkBytes({ sourceSite, targetSite, policy, source }: ReplicatedRecords): number {
  const names = textFieldBytes(sourceSite) + textFieldBytes(targetSite) + textFieldBytes(policy)
  return names + (source === null ? 0 : textFieldBytes(JSON.stringify(source)))
}

/** Writes the head of RECORDS, and of frames that begin like it. */
export function writeRecordsHead(into: Buffer, at: number, head: RecordsHead, count: number, flags: number): void {
  into[at] = RECORDS_VERSION
  into[at + 1] = flags
  into[at + 2] = 0
  into[at + 3] = 0
  writeU32(into, at + 4, head.streamNumber)
  writeU64(into, at + 8, head.firstOffset)
  writeU64(into, at + 16, head.ingestTimeMs)
  writeU32(into, at + 24, count)
  writeU32(into, at + HEAD_CRC_AT, crc32(into, at, at + HEAD_CRC_AT))
}

/**
 * Decodes the head alone.
 *
 * @param payload of a frame that begins with this head; it may be damaged or cut behind RECORDS_HEAD_BYTES
 */
export function decodeRecordsHead(
  payload: Uint8Array,
): (RecordsHead & { readonly relocated: boolean; readonly count: number }) | null {
  if (payload.byteLength < RECORDS_HEAD_BYTES || payload[0] !== RECORDS_VERSION) return null
  if (readU32(payload, HEAD_CRC_AT) !== crc32(payload, 0, HEAD_CRC_AT)) return null
  return {
    streamNumber: readU32(payload, 4),
    firstOffset: readU64(payload, 8),
    ingestTimeMs: readU64(payload, 16),
    relocated: (payload[1]! & FLAG_RELOCATED) !== 0,
    count: readU32(payload, 24),
  }
}

/** Where the records of a RECORDS_REPLICATED frame came from. */
export interface Origin extends Link {
  readonly firstOriginOffset: number
  readonly originOffsets: readonly number[] | null
  readonly source: OriginSource | null
  /** For each record, the time at which the source took it in. */
  readonly sourceIngestTimesMs: readonly number[]
}

export function decodeOrigin(payload: Buffer): Origin | null {
  const recordsAt = recordsBegin(FRAME_RECORDS_REPLICATED, payload)
  if (recordsAt < 0) return null
  const timesAt = LINK_AT + readU32(payload, 40)
  const fields = new TextFields(payload.subarray(0, timesAt), LINK_AT)
  const link = { sourceSite: fields.next(), targetSite: fields.next(), policy: fields.next() }
  const flags = readU32(payload, 44)
  const source = (flags & FLAG_SOURCE) === 0 ? null : sourceOf(fields.next())
  if (fields.at !== timesAt || source === undefined) return null
  const count = readU32(payload, 24)
  const sourceIngestTimesMs = numbersAt(payload, timesAt, count)
  const originOffsets = (flags & FLAG_OFFSETS) === 0 ? null : numbersAt(payload, timesAt + NUMBER_BYTES * count, count)
  return { ...link, firstOriginOffset: readU64(payload, 32), originOffsets, source, sourceIngestTimesMs }
}

const numbersAt = (payload: Buffer, at: number, count: number): number[] =>
  Array.from({ length: count }, (_, number) => readU64(payload, at + NUMBER_BYTES * number))

/** @returns undefined when the text is not one that we write */
function sourceOf(text: string): OriginSource | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined // the frame's checksum says we wrote it
  } catch {
    return undefined
  }
}

/** Where the first record of a payload begins; -1 when the payload ends before. */
export function recordsBegin(
  type: typeof FRAME_RECORDS | typeof FRAME_RECORDS_REPLICATED,
  payload: Uint8Array,
): number {
  const isPlain = type === FRAME_RECORDS
  if (payload.byteLength < (isPlain ? RECORDS_HEAD_BYTES : LINK_AT) || payload[0] !== RECORDS_VERSION) return -1
  if (isPlain) return RECORDS_HEAD_BYTES
  const numbers = (readU32(payload, 44) & FLAG_OFFSETS) === 0 ? 1 : 2
  const begin = LINK_AT + readU32(payload, 40) + numbers * NUMBER_BYTES * readU32(payload, 24)
  return begin <= payload.byteLength ? begin : -1
}
