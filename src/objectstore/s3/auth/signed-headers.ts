/** Which headers a signature must cover. */
import { refuse } from '../../refusals.ts'
import type { SignedRequest } from './canonical-request.ts'

/** More headers than a request can have. */
const SIGNED_HEADERS_MAX = 200
const SHAPES_THE_REQUEST = /^x-(?:amz|obj)-(?!request-id$)/

/** Names as a signature lists them, in the case they came in; the problem when they are too many, or one is empty. */
export function signedHeaderNames(list: string): readonly string[] | { readonly problem: string } {
  const names = list.split(';', SIGNED_HEADERS_MAX + 1)
  if (names.length > SIGNED_HEADERS_MAX) return { problem: `more than ${SIGNED_HEADERS_MAX} headers are signed.` }
  return names.includes('') ? { problem: 'the name of a signed header is empty.' } : names
}

/**
 * Demands that the signature covers `host` and every header of S3, under either name: a party that cannot sign must not add a header that changes
 * what a request means. Only a request id may come from a proxy on the way.
 *
 * @throws S3Error AccessDenied that names the headers that are not covered
 */
export function demandSigned({ headers }: SignedRequest, signedHeaders: readonly string[]): void {
  let inLowerCase: ReadonlySet<string> | null = null
  const isSigned = (name: string): boolean =>
    signedHeaders.includes(name) || (inLowerCase ??= lowerCaseOf(signedHeaders)).has(name)
  let missing = isSigned('host') ? '' : ', host'
  for (const name of headers.keys()) {
    if (!name.startsWith('x-') || !SHAPES_THE_REQUEST.test(name)) continue
    if (!isSigned(name)) missing += `, ${name}`
  }
  if (missing === '') return
  throw refuse('AccessDenied', 'There were headers present in the request which were not signed', {
    fields: { HeadersNotSigned: missing.slice(', '.length) },
  })
}

const lowerCaseOf = (names: readonly string[]): ReadonlySet<string> => new Set(names.map((name) => name.toLowerCase()))
