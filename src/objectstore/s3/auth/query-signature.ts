/**
 * The signature of a pre-signed URL, in six parameters of its query. It holds from its date on, for as many seconds as it says.
 *
 * Checks run in this order: presence and form of the parameters, region, key, time, headers that had to be signed, signature.
 */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'
import { SIGNATURE_PARAMETER } from './canonical-request.ts'
import type { Caller } from './request-identity.ts'
import { eitherHeader } from './request-identity.ts'
import { demandSigned, signedHeaderNames } from './signed-headers.ts'
import { ALGORITHM, parseCredential, wrongDay, wrongRegion } from './sigv4.ts'
import { formatExtended, parseBasic } from './timestamps.ts'
import type { VerifiedUrls } from './verified-urls.ts'
import { accessKeyOf, SKEW_MS_MAX, verifySignature } from './verify.ts'
import type { SigningRules } from './verify.ts'

/** Longest expiry, for either version. */
export const EXPIRES_SECONDS_MAX = 604_800
const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD'

const PARAMETERS = [
  'X-Amz-Algorithm',
  'X-Amz-Credential',
  'X-Amz-Date',
  'X-Amz-Expires',
  'X-Amz-SignedHeaders',
  SIGNATURE_PARAMETER,
] as const

const PRESIGNED = /(?:^|&)X-Amz-(?:Algorithm|Credential|Expires|SignedHeaders|Signature)=/
let askedLast = ''
let wasPresigned = false

/** True for a raw query that was pre-signed by version 4. Several parts of the gateway ask about the same query, so the last answer is kept. */
export function isPresigned(query: string): boolean {
  if (query === askedLast) return wasPresigned
  askedLast = query
  return (wasPresigned = PRESIGNED.test(query))
}

/** @throws S3Error */
export function verifyQuerySignature(
  request: SignedRequest,
  rules: SigningRules,
  verified: VerifiedUrls,
  nowMs: number,
): Caller {
  const known = verified.find(request)
  if (known !== null) {
    demandInTime(known.signedAtMs, known.expiresSeconds, nowMs)
    demandSigned(request, known.signedHeaders)
    return known.caller
  }
  const parameters = parametersOf(request.query)
  const [algorithm, credentialText, timestamp, expires, signedHeaders, signature] = PARAMETERS.map((name) =>
    parameters.get(name),
  )
  if (!algorithm || !credentialText || !timestamp || !expires || !signedHeaders || !signature) {
    throw refused(
      'Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, ' +
        'X-Amz-SignedHeaders, and X-Amz-Expires parameters.',
    )
  }
  if (algorithm !== ALGORITHM) throw refused(`X-Amz-Algorithm only supports "${ALGORITHM}"`)
  const credential = parseCredential(credentialText)
  if ('problem' in credential) throw refusedCredential(credential.problem)
  if (credential.region !== rules.region) {
    throw refusedCredential(wrongRegion(credential.region, rules.region), { Region: rules.region })
  }
  const signedAtMs = parseBasic(timestamp)
  if (signedAtMs === null) throw refused(`X-Amz-Date must be in the ISO8601 Long Format "yyyyMMdd'T'HHmmss'Z'"`)
  if (!timestamp.startsWith(credential.day)) throw refused(wrongDay(credential.day, timestamp))
  const expiresSeconds = expiresOf(expires)
  const key = accessKeyOf(rules.credentials, credential.accessKeyId)
  demandInTime(signedAtMs, expiresSeconds, nowMs)

  const names = signedHeaderNames(signedHeaders)
  if ('problem' in names) throw refused(`Error parsing the X-Amz-SignedHeaders parameter; ${names.problem}`)
  demandSigned(request, names)
  const header = eitherHeader(request.headers, 'content-sha256')
  const contentSha256 = parameters.get('X-Amz-Content-Sha256') ?? header ?? UNSIGNED_PAYLOAD
  const claim = { credential, timestamp, signedHeaders: names, signature, payloadHash: contentSha256 }
  const caller = { principal: key.principal, contentSha256, chunkSigning: verifySignature(request, claim, key) }
  verified.add(request, { caller, signedAtMs, expiresSeconds, signedHeaders: names })
  return caller
}

/** The parameters of the signature, decoded; the first of each name counts. */
function parametersOf(query: string): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>()
  for (const parameter of query.split('&')) {
    const at = parameter.indexOf('=')
    const name = parameter.slice(0, at)
    if (!name.startsWith('X-Amz-') || parameters.has(name)) continue
    try {
      const value = parameter.slice(at + 1)
      parameters.set(name, value.includes('%') ? decodeURIComponent(value) : value)
    } catch {
      throw refused(`${name} is not encoded as UTF-8 in percent-encoding`)
    }
  }
  return parameters
}

function expiresOf(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw refused('X-Amz-Expires should be a number')
  const seconds = Number(text)
  if (seconds < 0) throw refused('X-Amz-Expires must be non-negative')
  if (seconds === 0) throw refused('X-Amz-Expires must be at least 1 (in seconds)')
  if (seconds > EXPIRES_SECONDS_MAX) {
    throw refused(
      'X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds',
    )
  }
  return seconds
}

function demandInTime(signedAtMs: number, expiresSeconds: number, nowMs: number): void {
  const expiresAtMs = signedAtMs + expiresSeconds * 1000
  const isEarly = signedAtMs > nowMs + SKEW_MS_MAX
  if (!isEarly && nowMs <= expiresAtMs) return
  const fields = {
    'X-Amz-Expires': expiresSeconds,
    Expires: formatExtended(expiresAtMs),
    ServerTime: formatExtended(nowMs),
  }
  throw refuse('AccessDenied', isEarly ? 'Request is not valid yet' : 'Request has expired', { fields })
}

const refused = (problem: string, fields = {}): Error =>
  refuse('AuthorizationQueryParametersError', problem, { fields })

const refusedCredential = (problem: string, fields = {}): Error =>
  refused(`Error parsing the X-Amz-Credential parameter; ${problem}`, fields)
