/**
 * Headers that the maker of a pre-signed URL put into its query, so that its user need not send them: SDKs do that with
 * `x-amz-meta-…`, `x-amz-tagging`, `x-amz-copy-source` and others. The signature covers them there.
 *
 * Q1  a header that is sent wins over the query, and in the query the first of several wins
 * Q2  parameters of the signature and of the body's checksum are no headers: SDKs put the checksum of an empty body into URLs that
 *     are made before there is a body, and S3 does not look at it
 */
const HEADER = /^x-(?:amz|obj)-/
const NO_HEADER =
  /^x-(?:amz|obj)-(?:algorithm|content-sha256|credential|date|decoded-content-length|expires|security-token|signature|signedheaders|trailer|(?:sdk-)?checksum-.+)$/

/** Parameters of NO_HEADER as they are mostly written. */
const OF_EVERY_URL: ReadonlySet<string> = new Set([
  'X-Amz-Algorithm',
  'X-Amz-Credential',
  'X-Amz-Date',
  'X-Amz-Expires',
  'X-Amz-SignedHeaders',
  'X-Amz-Signature',
])

/** @param query decoded */
export function withHeadersInQuery(
  headers: ReadonlyMap<string, string>,
  query: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  let all: Map<string, string> | null = null
  for (const parameter of query.keys()) {
    if (OF_EVERY_URL.has(parameter)) continue
    const name = parameter.toLowerCase()
    if (!HEADER.test(name) || NO_HEADER.test(name) || (all ?? headers).has(name)) continue // Q1, Q2
    all ??= new Map(headers)
    all.set(name, query.get(parameter)!) // a key of the query
  }
  return all ?? headers
}
