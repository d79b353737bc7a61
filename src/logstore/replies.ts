/** The bodies of the log store's answers. */
import { Type } from 'typebox'
import type { TString } from 'typebox'
import { TIME_OUT_MESSAGES } from '../http/exchange.ts'
import type { Exchange, TimeOut } from '../http/exchange.ts'
import { serializer } from '../http/serializer.ts'
import { answerLine } from '../http/text-answer.ts'
import { REFUSALS, refusal } from './refusals.ts'
import type { Refusal } from './refusals.ts'
import { encodeRpcStatus } from './rpc-status.ts'

export const PROTOBUF_TYPE = 'application/x-protobuf'

const ingestReplyOf = (recordId: TString) =>
  Type.Object({
    status: Type.Literal('accepted'),
    signal: Type.Union([Type.Literal('log'), Type.Literal('trace')]),
    accepted_records: Type.Integer({ description: 'records of the batch' }),
    duplicate_records: Type.Integer({ description: 'of these, records that were stored before and are kept once' }),
    record_ids: Type.Array(recordId, { description: 'one id per record, in batch order' }),
  })

export const IngestReply = ingestReplyOf(Type.String({ pattern: '^logstore_[0-9a-f]{32}$' }))
export const RejectionReply = Type.Object({
  status: Type.Literal('rejected'),
  retryable: Type.Boolean(),
  error: Type.Object({ kind: Type.String(), message: Type.String() }),
})

/** Ids are hex behind a fixed prefix: nothing in them needs escaping, and saying so makes this the fast path it should be. */
const UnescapedId = Type.String({ format: 'unsafe' })
const stringifyIngest = serializer(ingestReplyOf(UnescapedId), ['unsafe'])
const stringifyRejection = serializer(RejectionReply)

/**
 * @param ids  16 bytes a record, in batch order
 */
export function ingestReply(signal: 'log' | 'trace', duplicates: number, ids: Buffer): string {
  const hex = ids.toString('hex')
  const recordIds = Array.from({ length: ids.byteLength / 16 }, (_, i) => `logstore_${hex.slice(32 * i, 32 * i + 32)}`)
  return stringifyIngest({
    status: 'accepted',
    signal,
    accepted_records: recordIds.length,
    duplicate_records: duplicates,
    record_ids: recordIds,
  })
}

/** OTLP clients repeat what was refused as `concurrency_exceeded`, and nothing else is wrong with a body that was given up for another one. */
export const bodyTimedOut = (why: TimeOut): Refusal =>
  refusal(why === 'stalled' ? 'request_timeout' : 'concurrency_exceeded', TIME_OUT_MESSAGES[why])

/** How a client of a route reads a refusal. */
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
