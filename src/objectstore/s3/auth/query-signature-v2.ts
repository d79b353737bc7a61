/**
 * The signature of a URL that was pre-signed by version 2, as boto3, the AWS command line and s3cmd still make them unless they are told
 * otherwise: `AWSAccessKeyId`, `Expires` (seconds since the Unix epoch) and `Signature`, an HMAC-SHA1 in Base64 over
 *
 *   text     = method LF content-md5 LF content-type LF expires LF header* resource
 *   header   = name ":" value LF                                of x-amz-… (R2), by name
 *   resource = ["/" bucket in the host] path ["?" subresources]  path as sent, subresources by name, decoded
 *
 * R1  the host is not signed, so the bucket that it names is: a URL for one bucket does not work for another one
 * R2  `x-obj-…` headers count as `x-amz-…` ones do, and both in the query too: nothing that means something to the gateway can be added.
 *     If a parameter is there twice, the gateway takes the first, and so does the text
 * R3  nothing says when a URL was made: one that expires later than a week from now was made to hold for longer, and is refused
 *
 * Source: Amazon S3 developer guide, "Signing and Authenticating REST Requests", query string authentication.
 */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'
import { EXPIRES_SECONDS_MAX, isPresigned } from './query-signature.ts'
import type { Caller } from './request-identity.ts'
import { eitherHeader } from './request-identity.ts'
import { sameSignature, signatureDoesNotMatch } from './sigv4.ts'
import { formatExtended } from './timestamps.ts'
import { accessKeyOf, SKEW_MS_MAX } from './verify.ts'
import type { SigningRules } from './verify.ts'

/** True for a raw query that was pre-signed by version 2. */
export const isPresignedByV2 = (query: string): boolean =>
  query.includes('AWSAccessKeyId=') && /(?:^|&)AWSAccessKeyId=/.test(query) && /(?:^|&)Signature=/.test(query)

/** True for a raw query that was pre-signed by either version. */
export const isSignedInQuery = (query: string): boolean => isPresigned(query) || isPresignedByV2(query)

/** Only those that the gateway knows: requests with others are refused before the signature is checked. */
const SUBRESOURCE =
  /^(?:cors|delete|location|partNumber|policy|tagging|uploadId|uploads|response-(?:cache-control|content-(?:disposition|encoding|language|type)|expires))$/
const COUNTING_HEADER = /^x-(?:amz|obj)-/

/** @throws S3Error */
export function verifyQuerySignatureV2(request: SignedRequest, rules: SigningRules, nowMs: number): Caller {
  const parameters = decodedParameters(request.query)
  const first = new Map(parameters.toReversed())
  const [accessKeyId, expires, signature] = ['AWSAccessKeyId', 'Expires', 'Signature'].map((name) => first.get(name))
  if (!accessKeyId || !expires || !signature) {
    throw refuse(
      'AccessDenied',
      'Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters',
    )
  }
  if (!/^\d{1,12}$/.test(expires)) throw refuse('AccessDenied', 'Invalid date (should be seconds since epoch)')
  const expiresAtMs = Number(expires) * 1000
  const latestMs = nowMs + EXPIRES_SECONDS_MAX * 1000 + SKEW_MS_MAX // R3
  if (expiresAtMs > latestMs) {
    throw refuse(
      'AuthorizationQueryParametersError',
      `Expires must be less than a week away (in seconds since the epoch); that is, at most ${EXPIRES_SECONDS_MAX} seconds from now`,
    )
  }
  const key = accessKeyOf(rules.credentials, accessKeyId)
  if (nowMs > expiresAtMs) {
    const fields = { Expires: formatExtended(expiresAtMs), ServerTime: formatExtended(nowMs) }
    throw refuse('AccessDenied', 'Request has expired', { fields })
  }
  const text = textToSign(request, parameters, expires)
  if (!sameSignature(key.hmacSha1(text), signature)) throw signatureDoesNotMatch(key.id, signature, '', '')
  const contentSha256 = eitherHeader(request.headers, 'content-sha256') ?? null
  return { principal: key.principal, contentSha256, chunkSigning: null }
}

type Parameter = readonly [name: string, value: string | null]

/** In their order. @throws S3Error InvalidURI */
function decodedParameters(query: string): readonly Parameter[] {
  try {
    return query
      .split('&')
      .filter((parameter) => parameter !== '')
      .map((parameter) => {
        const at = parameter.indexOf('=')
        if (at < 0) return [decoded(parameter), null]
        return [decoded(parameter.slice(0, at)), decoded(parameter.slice(at + 1))]
      })
  } catch {
    throw refuse('InvalidURI')
  }
}

const decoded = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '))

function textToSign(request: SignedRequest, parameters: readonly Parameter[], expires: string): string {
  const { method, headers } = request
  const inQuery = new Map(parameters.toReversed().map(([name, value]) => [name.toLowerCase(), value ?? '']))
  const valueOf = (name: string): string => headers.get(name) ?? inQuery.get(name) ?? ''
  const names = new Set([...headers.keys(), ...inQuery.keys()].filter((name) => COUNTING_HEADER.test(name)))
  const counting = [...names].sort().map((name) => `${name}:${valueOf(name).trim()}\n`)
  const head = [method, valueOf('content-md5'), valueOf('content-type'), expires]
  return `${head.join('\n')}\n${counting.join('')}${resourceOf(request, parameters)}`
}

/** R1 */
function resourceOf({ path, bucketInHost = null }: SignedRequest, parameters: readonly Parameter[]): string {
  const subresources = parameters
    .filter(([name]) => SUBRESOURCE.test(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => (value === null ? name : `${name}=${value}`))
  const named = bucketInHost === null ? path : `/${bucketInHost}${path}`
  return subresources.length === 0 ? named : `${named}?${subresources.join('&')}`
}
