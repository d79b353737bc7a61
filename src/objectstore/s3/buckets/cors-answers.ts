/**
 * What a bucket's CORS rules say about a request: headers for its answer.
 *
 * R1  the first rule that allows origin, method and every requested header decides
 * R2  only a preflight is refused: an actual request continues without these headers, and when it fails for another reason, its answer has them
 */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import type { CorsRule } from './cors-document.ts'
import { CORS_REQUESTED_HEADERS_MAX } from '../document-limits.ts'
import { distinct } from '../policy/wildcard.ts'

export interface CorsRequest {
  /** `Origin`. */
  readonly origin: string | null
  /** The request's own, `OPTIONS` for a preflight. */
  readonly method: string
  /** `Access-Control-Request-Method`; wins over the request's own, as in S3. */
  readonly requestedMethod: string | null
  /** `Access-Control-Request-Headers`. */
  readonly requestedHeaders: string | null
}

export type HeaderLines = readonly (readonly [name: string, value: string])[]

type Matches = (text: string) => boolean

interface CompiledRule {
  readonly rule: CorsRule
  readonly origins: readonly { readonly isAny: boolean; readonly matches: Matches }[]
  readonly headers: readonly Matches[]
}

const NOT_ALLOWED =
  "This CORS request is not allowed. This is usually because the evalution of Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec."

/** The rules of one bucket, made ready once for many requests. */
export class CorsRules {
  readonly #rules: readonly CompiledRule[]

  constructor(rules: readonly CorsRule[]) {
    this.#rules = rules.map((rule) => ({
      rule,
      origins: distinct(rule.allowedOrigins).map((origin) => ({ isAny: origin === '*', matches: matching(origin) })),
      headers: distinct(rule.allowedHeaders.map((header) => header.toLowerCase())).map(matching),
    }))
  }

  /** None when the request is not from another origin, or no rule allows it. R1, R2 */
  headersFor(request: CorsRequest): HeaderLines {
    const { origin } = request
    if (origin === null) return []
    const method = methodOf(request)
    const names = headerNames(request.requestedHeaders)
    if (names.length > CORS_REQUESTED_HEADERS_MAX) return []
    for (const { rule, origins, headers } of this.#rules) {
      const allowed = origins.find(({ matches }) => matches(origin))
      if (allowed === undefined || !rule.allowedMethods.includes(method)) continue
      if (!names.every((name) => headers.some((matches) => matches(name)))) continue
      return headersOf(rule, allowed.isAny ? '*' : origin, names)
    }
    return []
  }
}

/**
 * @param rules null: the bucket has none
 * @throws S3Error BadRequest without an origin or a method, AccessDenied when no rule allows it
 */
export function preflightHeaders(rules: CorsRules | null, request: CorsRequest): HeaderLines {
  if (request.origin === null) {
    throw refuse('BadRequest', 'Insufficient information. Origin request header needed.')
  }
  if (!request.requestedMethod) throw refuse('BadRequest', 'Invalid Access-Control-Request-Method: null')
  if (rules === null) throw refusedPreflight('CORS is not enabled for this bucket.', request, 'BUCKET')
  const headers = rules.headersFor(request)
  if (headers.length === 0) throw refusedPreflight(NOT_ALLOWED, request, 'OBJECT')
  return headers
}

/** @param pattern with one `*` at most, for any text; every other character stands for itself */
function matching(pattern: string): Matches {
  const star = pattern.indexOf('*')
  if (star < 0) return (text) => text === pattern
  const [first, last] = [pattern.slice(0, star), pattern.slice(star + 1)]
  return (text) => text.length >= pattern.length - 1 && text.startsWith(first) && text.endsWith(last)
}

const methodOf = ({ method, requestedMethod }: CorsRequest): string => requestedMethod ?? method

/** In lower case. */
const headerNames = (header: string | null): readonly string[] =>
  (header ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '')

function headersOf(rule: CorsRule, origin: string, requestedHeaders: readonly string[]): HeaderLines {
  const headers: [string, string][] = [
    ['Access-Control-Allow-Origin', origin],
    ['Access-Control-Allow-Methods', rule.allowedMethods.join(', ')],
  ]
  if (requestedHeaders.length > 0) headers.push(['Access-Control-Allow-Headers', requestedHeaders.join(', ')])
  if (rule.exposeHeaders.length > 0) headers.push(['Access-Control-Expose-Headers', rule.exposeHeaders.join(', ')])
  if (rule.maxAgeSeconds !== null) headers.push(['Access-Control-Max-Age', String(rule.maxAgeSeconds)])
  if (origin !== '*') headers.push(['Access-Control-Allow-Credentials', 'true'])
  headers.push(['Vary', 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method'])
  return headers
}

const refusedPreflight = (reason: string, request: CorsRequest, resourceType: 'BUCKET' | 'OBJECT'): S3Error =>
  refuse('AccessDenied', `CORSResponse: ${reason}`, {
    fields: { Method: methodOf(request), ResourceType: resourceType },
  })
