/**
 * AWS Signature Version 4: keys, scopes, signatures. Source: Amazon S3 API reference, "Authenticating Requests".
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import { refuse } from '../../refusals.ts'
import type { RefusalFields } from '../../refusals.ts'
import { withoutSecrets } from './canonical-request.ts'

export const ALGORITHM = 'AWS4-HMAC-SHA256'
const SERVICE = 's3'
const TERMINATOR = 'aws4_request'

export const EMPTY_SHA256 = hash('sha256', '')

/** Longer texts are left out of a refusal: an answer to an unknown sender should not be a multiple of its request. */
const SHOWN_CHARACTERS_MAX = 8192

/** A credential: the signer, the day and the region. */
export interface Credential {
  readonly accessKeyId: string
  readonly day: string
  readonly region: string
}

/** What is wrong with a credential, in S3's words, which go on after "the authorization header is malformed; ". */
export interface CredentialProblem {
  readonly problem: string
}

/** @param text `AKID/20130524/us-east-1/s3/aws4_request`; the key id itself may have slashes */
export function parseCredential(text: string): Credential | CredentialProblem {
  const parts = text.split('/')
  const [day, region, service, terminator] = parts.slice(-4)
  const accessKeyId = parts.slice(0, -4).join('/')
  if (accessKeyId === '' || day === undefined || region === undefined) {
    return {
      problem: 'the Credential is mal-formed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request".',
    }
  }
  if (!/^\d{8}$/.test(day)) {
    return {
      problem: `incorrect date format "${day}". This date in the credential must be in the format "yyyyMMdd".`,
    }
  }
  if (service !== SERVICE) {
    return { problem: `incorrect service "${service}". This endpoint belongs to "${SERVICE}".` }
  }
  if (terminator !== TERMINATOR) {
    return { problem: `incorrect terminal "${terminator}". This endpoint uses "${TERMINATOR}".` }
  }
  return { accessKeyId, day, region }
}

export const wrongRegion = (region: string, expected: string): string =>
  `the region '${region}' is wrong; expecting '${expected}'`

export const wrongDay = (day: string, timestamp: string): string =>
  `Invalid credential date "${day}". This date is not the same as X-Amz-Date: "${timestamp.slice(0, 8)}".`

export const scopeOf = ({ day, region }: Credential): string => `${day}/${region}/${SERVICE}/${TERMINATOR}`

export function signingKeyOf(secret: string, { day, region }: Credential): Buffer {
  const dayKey = hmac(`AWS4${secret}`, day)
  return hmac(hmac(hmac(dayKey, region), SERVICE), TERMINATOR)
}

const hmac = (key: string | Uint8Array, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** @param timestamp in the basic form */
export const stringToSign = (timestamp: string, scope: string, canonical: string): string =>
  `${ALGORITHM}\n${timestamp}\n${scope}\n${hash('sha256', canonical)}`

const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

/** HMAC-SHA256 (RFC 2104). Two one-shot hashes cost less than an object of node:crypto for each signature, and leave less garbage. */
export function signatureOf(signingKey: Uint8Array, text: string): string {
  const innerBytes = BLOCK_BYTES + Buffer.byteLength(text)
  const inner = innerBytes <= scratch.byteLength ? scratch.subarray(0, innerBytes) : Buffer.allocUnsafe(innerBytes)
  writePad(inner, signingKey, INNER_PAD)
  inner.write(text, BLOCK_BYTES)
  writePad(outer, signingKey, OUTER_PAD)
  outer.write(hash('sha256', inner), BLOCK_BYTES, 'hex')
  return hash('sha256', outer)
}

/** Memory for one signature, which nothing needs after the call to `hash`. */
const scratch = Buffer.alloc(1024)
const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES)

/** @param key no longer than a block, as every signing key is */
function writePad(into: Buffer, key: Uint8Array, pad: number): void {
  for (let i = 0; i < key.byteLength; i++) into[i] = pad ^ key[i]!
  into.fill(pad, key.byteLength, BLOCK_BYTES)
}

/** Takes the same time wherever the two differ. */
export function sameSignature(expected: string, provided: string): boolean {
  const a = Buffer.from(expected)
  const b = Buffer.from(provided)
  return a.length === b.length && timingSafeEqual(a, b)
}

/** @param canonical of the request; '' when the signature is over something else */
export function signatureDoesNotMatch(
  accessKeyId: string,
  provided: string,
  text: string,
  canonical: string,
): ReturnType<typeof refuse> {
  const fields: RefusalFields = {
    AWSAccessKeyId: accessKeyId,
    ...shown('StringToSign', text),
    SignatureProvided: provided.slice(0, 128),
    ...shown('CanonicalRequest', withoutSecrets(canonical)),
  }
  return refuse('SignatureDoesNotMatch', undefined, { fields })
}

function shown(name: string, text: string): RefusalFields {
  if (text === '' || text.length > SHOWN_CHARACTERS_MAX) return {}
  const bytes = Buffer.from(text)
    .toString('hex')
    .replaceAll(/..(?=.)/g, '$& ')
  return { [name]: text, [`${name}Bytes`]: bytes }
}
