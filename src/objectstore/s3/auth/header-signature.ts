/**
 * The signature of a request in its `authorization` header.
 *
 *   AWS4-HMAC-SHA256 Credential=AKID/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=<64 hex>
 *
 * Checks run in this order: form of the header, region, key, date, headers that had to be signed, signature.
 */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'
import type { Caller } from './request-identity.ts'
import { eitherHeader } from './request-identity.ts'
import { demandSigned, signedHeaderNames } from './signed-headers.ts'
import { ALGORITHM, parseCredential, wrongDay, wrongRegion } from './sigv4.ts'
import type { Credential } from './sigv4.ts'
import { formatExtended, parseTimestamp } from './timestamps.ts'
import { accessKeyOf, SKEW_MS_MAX, verifySignature } from './verify.ts'
import type { SigningRules } from './verify.ts'

interface Authorization {
  readonly credential: Credential
  readonly signedHeaders: readonly string[]
  readonly signature: string
}

/** @throws S3Error */
export function verifyHeaderSignature(
  request: SignedRequest,
  authorization: string,
  rules: SigningRules,
  nowMs: number,
): Caller {
  const { credential, signedHeaders, signature } = parseAuthorization(authorization)
  if (credential.region !== rules.region) {
    throw malformed(wrongRegion(credential.region, rules.region), { Region: rules.region })
  }
  const key = accessKeyOf(rules.credentials, credential.accessKeyId)
  const timestamp = dateOf(request, nowMs)
  if (!timestamp.startsWith(credential.day)) throw malformed(wrongDay(credential.day, timestamp))
  const contentSha256 = eitherHeader(request.headers, 'content-sha256')
  if (contentSha256 === undefined) {
    throw refuse('InvalidRequest', 'Missing required header for this request: x-amz-content-sha256')
  }
  demandSigned(request, signedHeaders)
  const claim = { credential, timestamp, signedHeaders, signature, payloadHash: contentSha256 }
  return { principal: key.principal, contentSha256, chunkSigning: verifySignature(request, claim, key) }
}

function parseAuthorization(header: string): Authorization {
  const at = header.indexOf(' ')
  const scheme = at < 0 ? header : header.slice(0, at)
  if (scheme === 'AWS') throw unsupportedVersion()
  if (at < 0 || scheme !== ALGORITHM) {
    // The value is not repeated: it may be a token of some other scheme.
    throw refuse('InvalidArgument', 'Unsupported Authorization Type', { fields: { ArgumentName: 'Authorization' } })
  }
  const components = new Map<string, string>()
  for (const component of header.slice(at + 1).split(',')) {
    const [, name, value] = /^([A-Za-z]+)=(\S+)$/.exec(component.trim()) ?? []
    if (name !== undefined && value !== undefined) components.set(name, value)
  }
  const [credentialText, signedHeaders, signature] = ['Credential', 'SignedHeaders', 'Signature'].map((name) =>
    components.get(name),
  )
  if (credentialText === undefined || signedHeaders === undefined || signature === undefined) {
    throw malformed('the authorization header requires three components: Credential, SignedHeaders, and Signature.')
  }
  const credential = parseCredential(credentialText)
  if ('problem' in credential) throw malformed(credential.problem)
  const names = signedHeaderNames(signedHeaders)
  if ('problem' in names) throw malformed(names.problem)
  return { credential, signedHeaders: names, signature }
}

/** Time of the request, in the basic form. */
function dateOf({ headers }: SignedRequest, nowMs: number): string {
  const text = eitherHeader(headers, 'date') ?? headers.get('date') ?? ''
  const timestamp = parseTimestamp(text)
  if (timestamp === null) throw refuse('AccessDenied', 'AWS authentication requires a valid Date or x-amz-date header')
  if (Math.abs(timestamp.atMs - nowMs) > SKEW_MS_MAX) {
    throw refuse('RequestTimeTooSkewed', undefined, {
      fields: { RequestTime: text, ServerTime: formatExtended(nowMs), MaxAllowedSkewMilliseconds: SKEW_MS_MAX },
    })
  }
  return timestamp.basic
}

const malformed = (problem: string, fields = {}): Error =>
  refuse('AuthorizationHeaderMalformed', `The authorization header is malformed; ${problem}`, { fields })

/** Signature Version 2. */
const unsupportedVersion = (): Error =>
  refuse(
    'InvalidRequest',
    'The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.',
  )
