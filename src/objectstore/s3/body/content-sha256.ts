/** What `x-amz-content-sha256` says of a body. Source: Amazon S3 API reference, "Authenticating Requests". */
import { EMPTY_SHA256 } from '../auth/sigv4.ts'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'

export type ContentSha256 =
  | { readonly kind: 'digest'; /** 64 lower-case digits. */ readonly hex: string }
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'chunked'; readonly isSigned: boolean; readonly hasTrailer: boolean }

const VALUES: ReadonlyMap<string, ContentSha256> = new Map([
  ['UNSIGNED-PAYLOAD', { kind: 'unsigned' }],
  ['STREAMING-UNSIGNED-PAYLOAD-TRAILER', { kind: 'chunked', isSigned: false, hasTrailer: true }],
  ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD', { kind: 'chunked', isSigned: true, hasTrailer: false }],
  ['STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER', { kind: 'chunked', isSigned: true, hasTrailer: true }],
] as const)

const DIGEST = /^[0-9A-Fa-f]{64}$/

/** @throws S3Error NotImplemented for signatures with elliptic curves, InvalidArgument for what S3 does not know */
export function parseContentSha256(value: string): ContentSha256 {
  const known = VALUES.get(value)
  if (known !== undefined) return known
  if (DIGEST.test(value)) return { kind: 'digest', hex: value.toLowerCase() }
  if (/^STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD(-TRAILER)?$/.test(value)) {
    throw refuse('NotImplemented', undefined, { fields: { Header: 'x-amz-content-sha256', additionalMessage: value } })
  }
  throw refuse(
    'InvalidArgument',
    'x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, ' +
      'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, ' +
      'STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value.',
    { fields: { ArgumentName: 'x-amz-content-sha256', ArgumentValue: value.slice(0, 128) } },
  )
}

/**
 * For an operation that takes no body, when none came. Words in place of a digest are ignored: there is no body that they could describe.
 *
 * @throws S3Error XAmzContentSHA256Mismatch
 */
export function demandEmptyContent(value: string | null): void {
  if (value === null || !DIGEST.test(value) || value.toLowerCase() === EMPTY_SHA256) return
  throw contentDiffers(value.toLowerCase(), EMPTY_SHA256)
}

/** @param claimed, computed digests in lower-case digits */
export const contentDiffers = (claimed: string, computed: string): S3Error =>
  refuse('XAmzContentSHA256Mismatch', undefined, {
    fields: { ClientComputedContentSHA256: claimed, S3ComputedContentSHA256: computed },
  })
