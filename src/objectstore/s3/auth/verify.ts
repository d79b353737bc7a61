/** The check that signatures in the header and in the query share, once they are read. */
import { refuse } from '../../refusals.ts'
import { canonicalRequest } from './canonical-request.ts'
import type { SignedRequest } from './canonical-request.ts'
import type { ChunkSigning } from './chunk-signatures.ts'
import type { AccessKey, Credentials } from './credentials.ts'
import { sameSignature, scopeOf, signatureDoesNotMatch, signatureOf, stringToSign } from './sigv4.ts'
import type { Credential } from './sigv4.ts'

export const SKEW_MS_MAX = 15 * 60 * 1000

/** What a server accepts. */
export interface SigningRules {
  readonly credentials: Credentials
  readonly region: string
}

/** What a request says of its signature. */
export interface SignatureClaim {
  readonly credential: Credential
  /** In the basic form. */
  readonly timestamp: string
  readonly signedHeaders: readonly string[]
  readonly signature: string
  readonly payloadHash: string
}

/** @throws S3Error InvalidAccessKeyId */
export function accessKeyOf(credentials: Credentials, accessKeyId: string): AccessKey {
  const key = credentials.get(accessKeyId)
  if (key !== undefined) return key
  throw refuse('InvalidAccessKeyId', undefined, { fields: { AWSAccessKeyId: accessKeyId } })
}

/**
 * @returns what chunks of the body are signed with
 * @throws S3Error SignatureDoesNotMatch
 */
export function verifySignature(request: SignedRequest, claim: SignatureClaim, key: AccessKey): ChunkSigning {
  const { credential, timestamp, signedHeaders, signature, payloadHash } = claim
  const scope = scopeOf(credential)
  const signingKey = key.signingKey(credential)
  let canonical = ''
  let text = ''
  for (const form of ['as-sent', 'normalised'] as const) {
    canonical = canonicalRequest(request, signedHeaders, payloadHash, form)
    text = stringToSign(timestamp, scope, canonical)
    if (sameSignature(signatureOf(signingKey, text), signature)) {
      key.remember(credential, signingKey)
      return { accessKeyId: key.id, signingKey, timestamp, scope, seedSignature: signature }
    }
  }
  throw signatureDoesNotMatch(key.id, signature, text, canonical)
}
