/** Answers with refusals of the broker. */
import { LEADER_HEADER } from '../../http/cluster.ts'
import type { Exchange } from '../../http/exchange.ts'
import { serializer } from '../../http/serializer.ts'
import { answerLine } from '../../http/text-answer.ts'
import { isFailure, refusalOf } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import { ErrorReply } from '../wire/answers.ts'
import type { BrokerHttpParts } from './parts.ts'

type Headers = readonly (readonly [name: string, value: string])[]

const stringifyError = serializer(ErrorReply)

const ASKS_FOR_KEY: Headers = [['www-authenticate', 'Bearer']]
const NONE: Headers = []

export function answerRefusal(
  { counters }: Pick<BrokerHttpParts, 'counters'>,
  exchange: Exchange,
  refused: BrokerError,
  headers: Headers = [],
): void {
  const { code, status, detail, retryable, retryAfterSeconds } = refused
  counters.refused(code)
  const saysWhen = retryable && (status === 429 || status === 503)
  const more: Headers = saysWhen ? [['retry-after', String(retryAfterSeconds)]] : status === 401 ? ASKS_FOR_KEY : NONE
  const next = refused.nextExpectedOffset
  const ofGap: Headers = next === null ? NONE : [['x-mq-next-expected-offset', String(next)]]
  const ofCluster: Headers = refused.leader === null ? NONE : [[LEADER_HEADER, refused.leader]]
  const allHeaders: Headers = [...headers, ...more, ...ofGap, ...ofCluster]
  answerLine(exchange, status, stringifyError({ api_version: 'v1', error: detail }), allHeaders)
}

/** A failure goes into the log under the id of the request. */
export function answerFailure(
  parts: Pick<BrokerHttpParts, 'counters' | 'logger'>,
  exchange: Exchange,
  error: unknown,
): void {
  if (isFailure(error)) parts.logger.error({ request_id: exchange.id, err: error }, 'request failed')
  answerRefusal(parts, exchange, refusalOf(error))
}
