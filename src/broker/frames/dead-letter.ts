/**
 * Payload of DEAD_LETTER, which is three things in one: the copy of a record in a dead-letter stream, the end of the delivery that it was
 * copied for, and the audit event. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version       DEAD_LETTER_VERSION
 *        1      1  cause         index in DEAD_LETTER_CAUSES + 1
 *        2      1  flags         bit 0: the event happened at ingestTimeMs; 0, in older frames: at atMs
 *        3      1  unused        0
 *        4      4  groupNumber   u32, of the delivery
 *        8      8  offset        u64, of the delivery, in the group's stream
 *       16      4  attempt       u32, of the delivery
 *       20      4  targetNumber  u32, of the copy's stream
 *       24      8  targetOffset  u64, of the copy
 *       32      8  auditOffset   u64, of the event
 *       40      8  atMs          u64, of the end of the delivery, in broker time
 *       48      8  ingestTimeMs  u64, of the copy and of the event, by the wall clock
 *       56      4  recordAt      u32, where the copy begins
 *       60      4  headCrc       u32, CRC-32 of bytes [0, 60): see records-frame.ts
 *       64      …  names         tenant, principal, source stream, consumer group, target stream, reason: u32 bytes and UTF-8 each; they
 *                                make the event, which is read where no stream or group is known by its number
 *        …      …  copy          the record with headers that say where it is from, see record.ts
 *
 * D1  the headers `-source-…` and `-reason` of a copy are about this hop, `-origin-…` about the first one, and `-count` is the number of
 *     hops, whose limit ends a cycle of dead-letter streams. They come on top of the headers that a publisher may send
 */
import assert from 'node:assert/strict'
import { crc32, readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { encodeRecord, headersOf, withHeaders } from './record.ts'
import { TextFields, textFieldBytes, writeTextField } from './text.ts'

const DEAD_LETTER_VERSION = 1
const FLAGS_AT = 2
const FLAG_EVENT_AT_INGEST = 1
const HEAD_CRC_AT = 60
/** Bytes at the start of a payload that are enough for `decodeDeadLetterHead`. */
export const DEAD_LETTER_HEAD_BYTES = 64

/** Why a record is dead-lettered: a request, the failure policy after a nack, or the failure policy after a lease expired. */
export const DEAD_LETTER_CAUSES = ['explicit', 'policy', 'expiry'] as const
export type DeadLetterCause = (typeof DEAD_LETTER_CAUSES)[number]

interface DeadLetterHead {
  readonly cause: DeadLetterCause
  readonly groupNumber: number
  readonly offset: number
  readonly attempt: number
  readonly targetNumber: number
  readonly targetOffset: number
  readonly auditOffset: number
  readonly atMs: number
  readonly ingestTimeMs: number
}

interface DeadLetterNames {
  readonly tenant: string
  readonly principal: string
  readonly sourceStream: string
  readonly consumerGroup: string
  readonly targetStream: string
  readonly reason: string
}

export interface DeadLetter extends DeadLetterHead, DeadLetterNames {
  /** The original, as it stands in its frame. */
  readonly record: { readonly bytes: Buffer }
}

interface DecodedDeadLetterHead extends DeadLetterHead {
  /** When the event happened, by the wall clock; in older frames, in broker time. */
  readonly eventAtMs: number
}

export interface DecodedDeadLetter extends DecodedDeadLetterHead, DeadLetterNames {}

export const deadLetterBytes = (deadLetter: DeadLetter): number =>
  namesOf(deadLetter).reduce((sum, name) => sum + textFieldBytes(name), DEAD_LETTER_HEAD_BYTES) +
  copyOf(deadLetter).byteLength

/** @returns the end of the payload, `deadLetterBytes` behind `at` */
export function encodeDeadLetter(into: Buffer, at: number, deadLetter: DeadLetter): number {
  let to = at + DEAD_LETTER_HEAD_BYTES
  for (const name of namesOf(deadLetter)) to = writeTextField(into, to, name)
  into[at] = DEAD_LETTER_VERSION
  into[at + 1] = DEAD_LETTER_CAUSES.indexOf(deadLetter.cause) + 1
  into[at + FLAGS_AT] = FLAG_EVENT_AT_INGEST
  into[at + 3] = 0
  writeU32(into, at + 4, deadLetter.groupNumber)
  writeU64(into, at + 8, deadLetter.offset)
  writeU32(into, at + 16, deadLetter.attempt)
  writeU32(into, at + 20, deadLetter.targetNumber)
  writeU64(into, at + 24, deadLetter.targetOffset)
  writeU64(into, at + 32, deadLetter.auditOffset)
  writeU64(into, at + 40, deadLetter.atMs)
  writeU64(into, at + 48, deadLetter.ingestTimeMs)
  writeU32(into, at + 56, to - at)
  writeU32(into, at + HEAD_CRC_AT, crc32(into, at, at + HEAD_CRC_AT))
  return encodeRecord(into, to, copyOf(deadLetter))
}

const namesOf = (deadLetter: DeadLetterNames): readonly string[] => [
  deadLetter.tenant,
  deadLetter.principal,
  deadLetter.sourceStream,
  deadLetter.consumerGroup,
  deadLetter.targetStream,
  deadLetter.reason,
]

/** Where a record was first dead-lettered, and how often it was (D1); null when it never was. */
export interface DeadLetterOrigin {
  readonly stream: string
  readonly offset: string
  readonly count: number
}

/** @param raw one whole record */
export function deadLetterOriginOf(raw: Buffer): DeadLetterOrigin | null {
  const headers = headersOf(raw)
  const stream = headers?.get(ORIGIN_STREAM) ?? headers?.get(SOURCE_STREAM) // copies of older versions have no origin
  const offset = headers?.get(ORIGIN_OFFSET) ?? headers?.get(SOURCE_OFFSET)
  if (stream === undefined || offset === undefined) return null
  const count = headers?.get(COUNT) ?? '1'
  return { stream, offset, count: /^[1-9][0-9]{0,8}$/.test(count) ? Number(count) : 1 }
}

const SOURCE_STREAM = 'x-dead-letter-source-stream'
const SOURCE_OFFSET = 'x-dead-letter-source-offset'
const REASON = 'x-dead-letter-reason'
const ORIGIN_STREAM = 'x-dead-letter-origin-stream'
const ORIGIN_OFFSET = 'x-dead-letter-origin-offset'
const COUNT = 'x-dead-letter-count'

/** All headers that a copy gets. */
export const DEAD_LETTER_HEADERS: ReadonlySet<string> = new Set([
  SOURCE_STREAM,
  SOURCE_OFFSET,
  REASON,
  ORIGIN_STREAM,
  ORIGIN_OFFSET,
  COUNT,
])

/** The stream that a copy is from; null when the record is no copy. @param raw one whole record */
export const deadLetterSourceOf = (raw: Buffer): string | null => headersOf(raw)?.get(SOURCE_STREAM) ?? null

/** D1 */
function copyOf({ record, sourceStream, offset, reason }: DeadLetter): Buffer {
  const origin = deadLetterOriginOf(record.bytes)
  const copy = withHeaders(record.bytes, {
    [SOURCE_STREAM]: sourceStream,
    [SOURCE_OFFSET]: String(offset),
    [REASON]: reason,
    [ORIGIN_STREAM]: origin?.stream ?? sourceStream,
    [ORIGIN_OFFSET]: origin?.offset ?? String(offset),
    [COUNT]: String((origin?.count ?? 0) + 1),
  })
  assert(copy !== null, 'the reader gives out whole records only')
  return copy
}

/**
 * Decodes the head alone.
 *
 * @param payload may be damaged or cut behind DEAD_LETTER_HEAD_BYTES
 */
export function decodeDeadLetterHead(
  payload: Uint8Array,
): (DecodedDeadLetterHead & { readonly recordAt: number }) | null {
  if (payload.byteLength < DEAD_LETTER_HEAD_BYTES || payload[0] !== DEAD_LETTER_VERSION) return null
  if (readU32(payload, HEAD_CRC_AT) !== crc32(payload, 0, HEAD_CRC_AT)) return null
  const cause = DEAD_LETTER_CAUSES[payload[1]! - 1]
  if (cause === undefined) return null
  const hasEventAtIngest = (payload[FLAGS_AT]! & FLAG_EVENT_AT_INGEST) !== 0
  return {
    cause,
    groupNumber: readU32(payload, 4),
    offset: readU64(payload, 8),
    attempt: readU32(payload, 16),
    targetNumber: readU32(payload, 20),
    targetOffset: readU64(payload, 24),
    auditOffset: readU64(payload, 32),
    atMs: readU64(payload, 40),
    ingestTimeMs: readU64(payload, 48),
    eventAtMs: readU64(payload, hasEventAtIngest ? 48 : 40),
    recordAt: readU32(payload, 56),
  }
}

/** Decodes everything except the copy, which FrameRecords reads. */
export function decodeDeadLetter(payload: Buffer): DecodedDeadLetter | null {
  const head = decodeDeadLetterHead(payload)
  if (head === null || head.recordAt > payload.byteLength) return null
  const { recordAt, ...facts } = head
  const fields = new TextFields(payload.subarray(0, recordAt), DEAD_LETTER_HEAD_BYTES)
  const names = {
    tenant: fields.next(),
    principal: fields.next(),
    sourceStream: fields.next(),
    consumerGroup: fields.next(),
    targetStream: fields.next(),
    reason: fields.next(),
  }
  return fields.at === recordAt ? { ...facts, ...names } : null
}
