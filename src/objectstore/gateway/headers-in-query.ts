/**
 * Headers that whoever made a pre-signed URL put into its query, so that whoever uses it need not send them: SDKs do that with
 * `x-amz-meta-…`, `x-amz-tagging`, `x-amz-copy-source` and others. The signature covers them there.
 *
 * Q1  a header that is sent goes before the one in the query, and there the first of several
 * Q2  what the query says of the signature and of the body's checksum is no header: SDKs put the checksum of no body at all into URLs that
 *     are made before there is one, and S3 does not look at it
 */
const HEADER = /^x-(?:amz|obj)-/
const NO_HEADER =
  /^x-(?:amz|obj)-(?:algorithm|content-sha256|credential|date|decoded-content-length|expires|security-token|signature|signedheaders|trailer|(?:sdk-)?checksum-.+)$/

/** @param query decoded */
export function withHeadersInQuery(
  headers: ReadonlyMap<string, string>,
  query: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const all = new Map(headers)
  for (const [parameter, value] of query) {
    const name = parameter.toLowerCase()
    if (HEADER.test(name) && !NO_HEADER.test(name) && !all.has(name)) all.set(name, value) // Q1, Q2
  }
  return all
}
