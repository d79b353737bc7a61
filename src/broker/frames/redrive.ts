/**
 * Payload of REDRIVE, which is three things in one: records put back into the stream that they were dead-lettered from, the mark that their
 * copies are used, and the audit event. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0     32  head          of the records and their stream, as in records-frame.ts
 *       32      4  fromNumber    u32, of the stream of dead letters
 *       36      4  factsBytes    u32
 *       40      8  auditOffset   u64, of the event
 *       48      …  facts         JSON in UTF-8: names and reason, for the event, and the offsets of the copies, in the order of the records
 *        …      …  records       back to back, see record.ts
 *
 * R1  a record is its copy without the headers that the copy got (dead-letter.ts, D1), so that its hops are counted from 0 again
 */
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { isObject } from '../../plain-objects.ts'
import { DEAD_LETTER_HEADERS, deadLetterSourceOf } from './dead-letter.ts'
import { withoutHeaders } from './record.ts'
import { RECORDS_HEAD_BYTES, decodeRecordsHead, writeRecordsHead } from './records-frame.ts'
import type { RecordsHead } from './records-frame.ts'

const FROM_AT = RECORDS_HEAD_BYTES
const FACTS_BYTES_AT = 36
const AUDIT_OFFSET_AT = 40
const FACTS_AT = 48

interface RedriveFacts {
  readonly tenant: string
  readonly principal: string
  /** Stream that gets the records back. */
  readonly stream: string
  readonly dead_letter_stream: string
  readonly reason: string | null
  /** Offsets of the copies. */
  readonly offsets: readonly number[]
}

export interface Redrive extends RecordsHead, RedriveFacts {
  readonly fromNumber: number
  readonly auditOffset: number
  /** The copies without the headers that a dead letter gets (R1). */
  readonly records: readonly Buffer[]
}

export interface DecodedRedrive extends RecordsHead, RedriveFacts {
  readonly fromNumber: number
  readonly auditOffset: number
}

/** R1. Null when the record is no dead letter. */
export function redrivenOf(copy: Buffer): { readonly source: string; readonly record: Buffer } | null {
  const source = deadLetterSourceOf(copy)
  const record = source === null ? null : withoutHeaders(copy, DEAD_LETTER_HEADERS)
  return source === null || record === null ? null : { source, record }
}

/** The payload up to the records. */
function headOf(redrive: Redrive): Buffer {
  const { tenant, principal, stream, dead_letter_stream, reason, offsets } = redrive
  const facts = Buffer.from(JSON.stringify({ tenant, principal, stream, dead_letter_stream, reason, offsets }))
  const head = Buffer.alloc(FACTS_AT + facts.byteLength)
  writeRecordsHead(head, 0, redrive, offsets.length, 0)
  writeU32(head, FROM_AT, redrive.fromNumber)
  writeU32(head, FACTS_BYTES_AT, facts.byteLength)
  writeU64(head, AUDIT_OFFSET_AT, redrive.auditOffset)
  facts.copy(head, FACTS_AT)
  return head
}

export const encodeRedrive = (redrive: Redrive): Buffer => Buffer.concat([headOf(redrive), ...redrive.records])

/** Where the first record begins; -1 when the payload ends before. */
export function redriveRecordsBegin(payload: Uint8Array): number {
  if (payload.byteLength < FACTS_AT || decodeRecordsHead(payload) === null) return -1
  const begin = FACTS_AT + readU32(payload, FACTS_BYTES_AT)
  return begin <= payload.byteLength ? begin : -1
}

/** Decodes everything except the records, which FrameRecords reads. */
export function decodeRedrive(payload: Buffer): DecodedRedrive | null {
  const head = decodeRecordsHead(payload)
  const begin = redriveRecordsBegin(payload)
  if (head === null || begin < 0) return null
  const facts = factsOf(payload.toString('utf8', FACTS_AT, begin))
  if (facts === null || facts.offsets.length !== head.count) return null
  const { streamNumber, firstOffset, ingestTimeMs } = head
  const fromNumber = readU32(payload, FROM_AT)
  return {
    streamNumber,
    firstOffset,
    ingestTimeMs,
    fromNumber,
    auditOffset: readU64(payload, AUDIT_OFFSET_AT),
    ...facts,
  }
}

function factsOf(text: string): RedriveFacts | null {
  try {
    const facts: unknown = JSON.parse(text)
    return isObject(facts) && isFacts(facts) ? facts : null
  } catch {
    return null
  }
}

const isFacts = (facts: Partial<Record<keyof RedriveFacts, unknown>>): facts is RedriveFacts =>
  [facts.tenant, facts.principal, facts.stream, facts.dead_letter_stream].every((name) => typeof name === 'string') &&
  (facts.reason === null || typeof facts.reason === 'string') &&
  Array.isArray(facts.offsets) &&
  facts.offsets.every((offset) => Number.isSafeInteger(offset) && offset >= 0)
