/** Which headers a signature must cover. */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'

const SHAPES_THE_REQUEST = /^x-(?:amz|obj)-(?!request-id$)/

/**
 * A header that changes what a request means must not be added by a party that cannot sign: `host`, and all of S3 under either name. A
 * request id may come from a proxy on the way.
 *
 * @throws S3Error AccessDenied that names those which are not covered
 */
export function demandSigned({ headers }: SignedRequest, signedHeaders: readonly string[]): void {
  let missing = isAmong(signedHeaders, 'host') ? '' : ', host'
  for (const name of headers.keys()) {
    if (!name.startsWith('x-') || !SHAPES_THE_REQUEST.test(name)) continue
    if (!isAmong(signedHeaders, name)) missing += `, ${name}`
  }
  if (missing === '') return
  throw refuse('AccessDenied', 'There were headers present in the request which were not signed', {
    fields: { HeadersNotSigned: missing.slice(', '.length) },
  })
}

function isAmong(signedHeaders: readonly string[], name: string): boolean {
  for (const signed of signedHeaders) if (signed === name || signed.toLowerCase() === name) return true
  return false
}
