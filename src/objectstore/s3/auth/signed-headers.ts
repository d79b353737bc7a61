/** Which headers a signature must cover. */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'

const SHAPES_THE_REQUEST = /^x-(?:amz|obj)-(?!request-id$)/

/**
 * A header that changes what a request means must not be added by who cannot sign: `host`, and all of S3 under either name. A
 * request id may come from a proxy on the way.
 *
 * @throws S3Error AccessDenied that names those which are not covered
 */
export function demandSigned({ headers }: SignedRequest, signedHeaders: readonly string[]): void {
  const signed = new Set(signedHeaders.map((name) => name.toLowerCase()))
  const missing = new Set<string>()
  if (!signed.has('host')) missing.add('host')
  for (const name of headers.keys()) {
    if (name.startsWith('x-') && SHAPES_THE_REQUEST.test(name) && !signed.has(name)) missing.add(name)
  }
  if (missing.size === 0) return
  throw refuse('AccessDenied', 'There were headers present in the request which were not signed', {
    fields: { HeadersNotSigned: [...missing].join(', ') },
  })
}
