/** Random content of every kind of frame, written and read back. */
import fc from 'fast-check'
import {
  DEAD_LETTER_CAUSES,
  RESOLVE_VERBS,
  FrameRecords,
  deadLetterBytes,
  encodeDeadLetter,
  encodeRecord,
  encodeRecords,
  encodeReplicatedRecords,
  recordBytes,
  recordsBytes,
  replicatedRecordsBytes,
} from '../../../src/broker/frames.ts'
import type { DeadLetter, NewRecord, RecordCursor, ReplicatedRecords } from '../../../src/broker/frames.ts'
import type { Change } from '../../../src/broker/frames/change.ts'
import { bytesOf, encoded, newRecord, plain, text, timeMs } from './support.ts'

const u32 = fc.oneof(fc.constantFrom(0, 0xffff_ffff), fc.nat())
const offset = fc.oneof(fc.constantFrom(0, 2 ** 48 - 1), fc.nat())
export const head = plain({ streamNumber: u32, firstOffset: offset, ingestTimeMs: timeMs })
export const records = fc.array(newRecord, { minLength: 1, maxLength: 6 })

/** A record read back, in the form of `given`. */
export function readBack(payload: Buffer, record: RecordCursor): unknown {
  const headers: [string, string][] = []
  for (let at = record.headersAt; at < record.headersEnd; at = record.headerEnd) {
    record.readHeader(payload, at)
    headers.push([
      payload.toString('utf8', record.nameAt, record.valueAt),
      payload.toString('utf8', record.valueAt, record.headerEnd),
    ])
  }
  return {
    messageId: payload.toString('utf8', record.messageIdAt, record.messageIdEnd),
    payload: payload.toString('hex', record.payloadAt, record.end),
    key: record.hasKey ? payload.toString('hex', record.keyAt, record.keyEnd) : null,
    headers,
    eventTimeMs: record.eventTimeMs,
  }
}

export const given = ({ messageId, payload, key, headers, eventTimeMs }: NewRecord): unknown => ({
  messageId,
  payload: bytesOf(payload).toString('hex'),
  key: key && bytesOf(key).toString('hex'),
  headers: Object.entries(headers),
  eventTimeMs,
})

/** All records of a frame; null when the payload is not such a frame, or a record is not whole. */
export function allRecords(type: number, payload: Buffer): unknown[] | null {
  const frame = new FrameRecords()
  if (!frame.open(type, payload)) return null
  const found: unknown[] = []
  for (let number = 0; number < frame.count; number++) {
    if (!frame.seek(number)) return null
    found.push(readBack(payload, frame.record))
  }
  return found
}

export const encodedRecords = (frame: Parameters<typeof encodeRecords>[2]): Buffer =>
  encoded(recordsBytes(frame.records), (into, at) => encodeRecords(into, at, frame))
export const encodedReplicated = (frame: ReplicatedRecords): Buffer =>
  encoded(replicatedRecordsBytes(frame), (into, at) => encodeReplicatedRecords(into, at, frame))
export const encodedDeadLetter = (deadLetter: DeadLetter): Buffer =>
  encoded(deadLetterBytes(deadLetter), (into, at) => encodeDeadLetter(into, at, deadLetter))
export const rawOf = (record: NewRecord): Buffer =>
  encoded(recordBytes(record), (into, at) => encodeRecord(into, at, record))

export const replicated: fc.Arbitrary<ReplicatedRecords> = fc
  .tuple(
    head,
    plain({ sourceSite: text, targetSite: text, policy: text, firstOriginOffset: offset }),
    fc.array(fc.tuple(newRecord, timeMs), { minLength: 1, maxLength: 5 }),
    fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 5, maxLength: 5 }),
    fc.option(fc.record({ via: fc.array(text), created_at_ms: timeMs }, { noNullPrototype: true })),
  )
  .map(([head, link, list, gaps, source]) => ({
    ...head,
    ...link,
    originOffsets: gaps[0] === 0 ? null : list.map((_, i) => link.firstOriginOffset + i + (gaps[i] ?? 0)),
    source,
    records: list.map(([record, sourceIngestTimeMs]) => ({ ...record, sourceIngestTimeMs })),
  }))

export const deadLetter: fc.Arbitrary<DeadLetter> = plain({
  cause: fc.constantFrom(...DEAD_LETTER_CAUSES),
  groupNumber: u32,
  offset,
  attempt: u32,
  targetNumber: u32,
  targetOffset: offset,
  auditOffset: offset,
  atMs: timeMs,
  ingestTimeMs: timeMs,
  tenant: text,
  principal: text,
  sourceStream: text,
  consumerGroup: text,
  targetStream: text,
  reason: text,
  record: newRecord.map((record) => ({ bytes: rawOf(record) })),
})

export const claim = plain({
  groupNumber: u32,
  claimNumber: offset,
  atMs: timeMs,
  expiresAtMs: timeMs,
  runs: fc.array(plain({ offset, count: u32, attempt: u32 }), { maxLength: 5 }),
})
export const resolutions = fc.array(
  plain({
    groupNumber: u32,
    verb: fc.constantFrom(...RESOLVE_VERBS),
    offset,
    attempt: u32,
    atMs: timeMs,
    valueMs: timeMs,
  }).chain((entry) => fc.option(text, { nil: undefined }).map((reason) => withReason(entry, reason))),
  { maxLength: 5 },
)
function withReason<Entry extends object>(
  entry: Entry,
  reason: string | undefined,
): Entry | (Entry & { reason: string }) {
  return reason === undefined ? entry : { ...entry, reason }
}

const audited = { at_ms: 5, tenant: 'acme', principal: 'ci', audit_offset: 2 }
export const changes: readonly Change[] = [
  { kind: 'init', at_ms: 1, secret: '00ff' },
  {
    kind: 'stream_created',
    ...audited,
    stream_number: 1,
    stream: 'orders',
    default_durability: 'local-disk',
    retention: { max_age_millis: null, max_bytes: 10, min_cursor_name: 'slow' },
    failure_policy: { max_attempts: 3, retry_delay_millis: 0, dead_letter_stream: 'dead', apply_on_expiry: false },
  },
  {
    kind: 'stream_created',
    ...audited,
    audit_offset: null,
    stream_number: 0,
    stream: 'system.audit',
    default_durability: 'local-disk',
    retention: { max_age_millis: null, max_bytes: null, min_cursor_name: null },
    failure_policy: null,
  },
  { kind: 'group_created', at_ms: 1, group_number: 0, stream_number: 1, group: 'workers' },
  { kind: 'cursor_committed', at_ms: 1, group_number: 0, cursor: 'c', offset: 4 },
  {
    kind: 'cursor_rewound',
    ...audited,
    stream: 'orders',
    group: 'workers',
    group_number: 0,
    cursor: 'c',
    offset: 1,
    previous_offset: null,
    reason: 'again',
  },
  {
    kind: 'observation',
    at_ms: 1,
    group_number: 0,
    consumer_id: 'x',
    returned_records: 3,
    next_offset: 3,
    end_of_stream: true,
  },
  { kind: 'retained', at_ms: 1, stream_number: 1, floor: 9, removed_bytes: 100 },
  {
    kind: 'quarantine_acknowledged',
    ...audited,
    stream: 'orders',
    stream_number: 1,
    incident_id: 'q-1',
    acknowledged_by: null,
    note: 'seen \ud83d\ude00',
  },
  {
    kind: 'delivery_stopped',
    ...audited,
    stream: 'orders',
    group: 'workers',
    group_number: 0,
    offset: 7,
    attempt: 3,
    reason: 'r',
  },
  {
    kind: 'audit',
    ...audited,
    event_kind: 'replication_control',
    event_id: 'evt-0000000000ff',
    stream: null,
    detail: { paused: true },
  },
]
