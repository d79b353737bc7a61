/**
 * An endpoint of the broker. It checks caller, path, query, form of the body and body, in this order, and refuses each in the broker's words
 * before the operation sees it.
 */
import type { Static, TSchema } from 'typebox'
import { endpoint } from '../../http/endpoint.ts'
import type { EndpointOptions, EndpointRefusal, EndpointService } from '../../http/endpoint.ts'
import type { RequestHead } from '../../http/exchange.ts'
import type { Endpoint } from '../../http/routes.ts'
import { CONTROL_BODY_BYTES_MAX } from '../limits.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError, RefusalCode } from '../refusals.ts'
import { ErrorReply } from '../wire/answers.ts'
import type { Identity } from './access.ts'
import { answerFailure, answerRefusal } from './answers.ts'
import type { RouteParts } from './parts.ts'
import { noQuery, parseQuery } from './query.ts'
import type { QueryRules } from './query.ts'
import { requireUtf8 } from './request.ts'

interface Admitted<Path, Taken> {
  readonly caller: Identity
  readonly path: Path
  readonly query: Taken
}

type BodyOf<Body extends TSchema | undefined> = Body extends TSchema ? Static<Body> : undefined

interface BrokerEndpointOptions<
  Path,
  Taken,
  Body extends TSchema | undefined,
  Reply extends TSchema,
  Parsed,
> extends Omit<EndpointOptions<Body, Reply, Admitted<Path, Taken>, Parsed>, 'admit' | 'query' | 'errors'> {
  readonly path: (head: RequestHead) => Path
  /** Default: the route takes no parameters. */
  readonly query?: QueryRules<Taken>
  readonly errors: readonly RefusalCode[]
  /** Code that refuses a bad body, and a bad query if the route takes a body. Default invalid_request. */
  readonly invalid?: RefusalCode
  /** Default payload_too_large. */
  readonly tooLarge?: RefusalCode
}

export function brokerEndpoint<
  Path,
  Reply extends TSchema,
  Taken = null,
  Body extends TSchema | undefined = undefined,
  Parsed = BodyOf<Body>,
>(parts: RouteParts, options: BrokerEndpointOptions<Path, Taken, Body, Reply, Parsed>): Endpoint {
  const { path: pathOf, invalid = 'invalid_request', tooLarge = 'payload_too_large' } = options
  const rules = options.query ?? (noQuery as QueryRules<Taken>) // Taken is null without rules
  const takesBody = options.body !== undefined
  const queryCode = takesBody ? invalid : 'invalid_query'
  const bodyLimitBytes = options.bodyLimitBytes ?? Math.min(CONTROL_BODY_BYTES_MAX, parts.maxBodyBytes)
  const query = Object.entries(rules.parameters).map(([name, schema]) => ({ name, schema }))
  const isFixed = tooLarge === 'payload_too_large' && bodyLimitBytes !== parts.maxBodyBytes
  const refuseTooLarge = (message: string): BrokerError => refuse(tooLarge, message, isFixed ? FIXED_LIMIT : {})
  return endpoint<Reply, Admitted<Path, Taken>, Body, Parsed>(serviceOf(parts, invalid, refuseTooLarge), {
    ...options,
    bodyLimitBytes,
    query,
    errors: takesBody ? [...new Set([...options.errors, tooLarge, 'request_timeout'])] : options.errors,
    admit(head, exchange) {
      const caller = parts.admit(head, exchange)
      const path = pathOf(head)
      const query = rules.take(parseQuery(head.query, rules, queryCode))
      if (takesBody) requireUtf8(head)
      return { caller, path, query }
    },
  })
}

/** For limits that no setting raises. */
const FIXED_LIMIT = { action: 'Send less in one request.' }

function serviceOf(
  parts: RouteParts,
  invalid: RefusalCode,
  refuseTooLarge: (message: string) => BrokerError,
): EndpointService {
  const refusals: Readonly<Record<EndpointRefusal['reason'], (message: string) => BrokerError>> = {
    mediaType: (message) => refuse(invalid, message),
    contentEncoding: (message) => refuse('invalid_request', message), // like a wrong charset: neither is about the content of the body
    bodyTooLarge: refuseTooLarge,
    bodyTimedOut: (message) => refuse('request_timeout', message),
    bodyMalformed: (message) => refuse(invalid, message),
    bodyInvalid: (message) => refuse(invalid, message),
  }
  return {
    errorSchema: ErrorReply,
    anyMediaType: true,
    refuse: (exchange, { reason, message }) => answerRefusal(parts, exchange, refusals[reason](message)),
    fail: (exchange, error) => answerFailure(parts, exchange, error),
  }
}
