/** JSON endpoints built from schemas, with the log store's kinds of refusals in its envelope. */
import { StoreError } from '../errors.ts'
import type { EndpointRefusal, EndpointService } from '../http/endpoint.ts'
import type { Logger } from '../observability/logger.ts'
import { RejectionReply, answerRefusal } from './replies.ts'
import { REFUSALS, refusal } from './refusals.ts'
import type { RefusalKind } from './refusals.ts'

const KINDS: Readonly<Record<EndpointRefusal['reason'], RefusalKind>> = {
  mediaType: 'unsupported_content_type',
  contentEncoding: 'unsupported_content_encoding',
  bodyTooLarge: 'payload_too_large',
  bodyTimedOut: 'request_timeout',
  bodyMalformed: 'malformed_batch',
  bodyInvalid: 'malformed_batch',
}

export const endpointService = (logger: Logger): EndpointService => ({
  errorSchema: RejectionReply,
  refuse: (exchange, { reason, message }) => answerRefusal(exchange, refusal(KINDS[reason], message), 'json'),
  fail: (exchange, error) => {
    if (error instanceof StoreError && isKind(error.code)) {
      return answerRefusal(exchange, refusal(error.code, error.message), 'json')
    }
    logger.error({ request_id: exchange.id, reason: String(error) }, 'a request failed')
    answerRefusal(
      exchange,
      refusal('internal_error', 'the service failed to handle the request; its log says more'),
      'json',
    )
  },
})

const isKind = (code: string): code is RefusalKind => code in REFUSALS
