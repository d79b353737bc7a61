/** How the broker says no. */
import fastJsonStringify from 'fast-json-stringify'
import { StoreError } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { BrokerError, refuse } from '../refusals.ts'
import { ErrorReply } from '../wire.ts'
import type { BrokerHttpParts } from './parts.ts'

export const JSON_TYPE = 'application/json'

type Headers = readonly (readonly [name: string, value: string])[]

const stringifyError = fastJsonStringify({ ...ErrorReply })

export function answerRefusal(
  { counters }: Pick<BrokerHttpParts, 'counters'>,
  exchange: Exchange,
  refused: BrokerError,
  headers: Headers = [],
): void {
  const { code, status, detail, retryable, retryAfterSeconds } = refused
  counters.refused(code)
  const saysWhen = retryable && (status === 429 || status === 503)
  const allHeaders: Headers = saysWhen ? [...headers, ['retry-after', String(retryAfterSeconds)]] : headers
  exchange.answer(status, JSON_TYPE, stringifyError({ api_version: 'v1', error: detail }), allHeaders)
}

/** What is not a refusal goes into the log under the id of the request; when it is not a thread or a disk that failed, it is our own bug. */
export function answerFailure(
  parts: Pick<BrokerHttpParts, 'counters' | 'logger'>,
  exchange: Exchange,
  error: unknown,
): void {
  if (error instanceof BrokerError) return answerRefusal(parts, exchange, error)
  if (error instanceof StoreError && error.kind === 'overloaded') return answerRefusal(parts, exchange, notNow())
  parts.logger.error({ request_id: exchange.id, err: error }, 'request failed')
  const passes = error instanceof StoreError && error.kind === 'unavailable' // a thread that died is replaced
  answerRefusal(parts, exchange, passes ? notNow() : internalError())
}

export const internalError = (): BrokerError =>
  refuse('internal_error', 'the broker failed to handle the request; its log says more')

const notNow = (): BrokerError =>
  refuse('internal_error', 'the broker cannot serve this now: repeat the request', { retryable: true })
