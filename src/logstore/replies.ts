/** The bodies of the log store's answers. */
import { Type } from '../schema.ts'
import type { TString } from 'typebox'
import { TIME_OUT_MESSAGES } from '../http/exchange.ts'
import type { Exchange, RequestHead, TimeOut } from '../http/exchange.ts'
import { serializer } from '../http/serializer.ts'
import { JSON_TYPE, answerLine } from '../http/text-answer.ts'
import { REFUSALS, refusal } from './refusals.ts'
import type { Refusal } from './refusals.ts'
import { encodeRpcStatus } from './rpc-status.ts'
import { loadProtobuf } from './protobuf.ts'

export const PROTOBUF_TYPE = 'application/x-protobuf'

const ingestReplyOf = (recordId: TString) =>
  Type.Object({
    status: Type.Literal('accepted'),
    signal: Type.Union([Type.Literal('log'), Type.Literal('trace')]),
    accepted_records: Type.Integer({ description: 'records of the batch' }),
    duplicate_records: Type.Integer({ description: 'of these, records that were stored before and are kept once' }),
    record_ids: Type.Array(recordId, { description: 'one id per record, in batch order' }),
    rejected_records: Type.Optional(
      Type.Integer({
        description: 'malformed records that were dropped, if partial_success is on in the policy of the tenant',
      }),
    ),
    error_message: Type.Optional(Type.String({ description: 'what was wrong with the first rejected record' })),
  })

export const IngestReply = ingestReplyOf(Type.String({ pattern: '^logstore_[0-9a-f]{32}$' }))
export const RejectionReply = Type.Object({
  status: Type.Literal('rejected'),
  retryable: Type.Boolean(),
  error: Type.Object({ kind: Type.String(), message: Type.String() }),
})

/** Ids are hex behind a fixed prefix, so nothing in them needs escaping. Saying so lets the serializer take its fast path. */
const UnescapedId = Type.String({ format: 'unsafe' })
const stringifyIngest = serializer(ingestReplyOf(UnescapedId), ['unsafe'])
const stringifyRejection = serializer(RejectionReply)

/** What became of a batch that was accepted. */
interface AcceptedBatch {
  /** Records that were stored before. */
  readonly collapsed: number
  /** 16 bytes a record, in batch order. */
  readonly ids: Buffer
  readonly rejected: number
  readonly rejectedBecause: string
}

export function ingestReply(
  signal: 'log' | 'trace',
  { collapsed, ids, rejected, rejectedBecause }: AcceptedBatch,
): string {
  const hex = ids.toString('hex')
  const recordIds = Array.from({ length: ids.byteLength / 16 }, (_, i) => `logstore_${hex.slice(32 * i, 32 * i + 32)}`)
  return stringifyIngest({
    status: 'accepted',
    signal,
    accepted_records: recordIds.length,
    duplicate_records: collapsed,
    record_ids: recordIds,
    ...(rejected > 0 && { rejected_records: rejected, error_message: rejectedBecause }),
  })
}

/** Full success is told by leaving `partial_success` out. */
const EMPTY_EXPORT_RESPONSE = Buffer.alloc(0)

/** ExportLogsServiceResponse and ExportTraceServiceResponse are the same on the wire. */
export function exportResponse({
  rejected,
  rejectedBecause,
}: Pick<AcceptedBatch, 'rejected' | 'rejectedBecause'>): Buffer {
  if (rejected === 0) return EMPTY_EXPORT_RESPONSE
  const writer = loadProtobuf().Writer.create()
  // partial_success = 1, in it rejected_log_records or rejected_spans = 1 and error_message = 2
  writer.uint32(0x0a).fork().uint32(0x08).uint32(rejected).uint32(0x12).string(rejectedBecause).ldelim()
  return Buffer.from(writer.finish())
}

/** A body that was given up for another request is refused as `concurrency_exceeded`: nothing is wrong with it, and OTLP clients repeat it. */
export const bodyTimedOut = (why: TimeOut): Refusal =>
  refusal(why === 'stalled' ? 'request_timeout' : 'concurrency_exceeded', TIME_OUT_MESSAGES[why])

/** The form in which the client of a route reads a refusal. */
export type RefusalShape = 'json' | 'protobuf'

export function answerRefusal(
  exchange: Exchange,
  refused: Refusal,
  shape: RefusalShape,
  moreHeaders: readonly (readonly [string, string])[] = [],
): void {
  const { kind, message, retryable, retryAfterSeconds } = refused
  const { status } = REFUSALS[kind]
  const throttles = retryable && (status === 429 || status === 503)
  const headers = throttles
    ? ([...moreHeaders, ['retry-after', String(Math.max(1, retryAfterSeconds))]] as const)
    : moreHeaders
  if (shape === 'protobuf') exchange.answer(status, PROTOBUF_TYPE, encodeRpcStatus(refused), headers)
  else
    answerLine(
      exchange,
      status,
      stringifyRejection({ status: 'rejected', retryable, error: { kind, message } }),
      headers,
    )
}

/** JSON routes speak JSON; protobuf routes too, to a client that accepts JSON and not protobuf. */
export function refusalShape(head: RequestHead, isProtobuf: boolean): RefusalShape {
  if (!isProtobuf) return 'json'
  const accept = head.header('accept').toLowerCase()
  return accept.includes(JSON_TYPE) && !accept.includes(PROTOBUF_TYPE) ? 'json' : 'protobuf'
}
