/**
 * The text of a request that a signature covers: sender and receiver make the same text.
 *
 * Target and headers are those on the wire. Nothing is decoded, and no segment of the path is dropped or merged, so two requests that name different
 * keys never have the same text. `normalised` and `as-sent` name the same key and differ only in the writing (RFC 3986, 6.2.2.1 and 6.2.2.2): in the
 * first, what should be encoded is, and slashes of the path are not. S3 expects the first of a signer, and some signers send the second. Headers
 * count under the name that the client used: `x-obj-…` is not rewritten to `x-amz-…`.
 *
 * Source: Amazon S3 API reference, "Signature Calculations for the Authorization Header".
 */

/** A request as it is on the wire. */
export interface SignedRequest {
  readonly method: string
  /** Raw, as sent. */
  readonly path: string
  /** Raw, without the question mark. */
  readonly query: string
  /** By lower-case name; the values of a repeated one joined by commas, in their order. */
  readonly headers: ReadonlyMap<string, string>
  /** Bucket of virtual-host addressing: version 2 signs it, and not the host. */
  readonly bucketInHost?: string | null
}

export type TargetForm = 'as-sent' | 'normalised'

export const SIGNATURE_PARAMETER = 'X-Amz-Signature'

/** @param signedHeaders as the client listed them */
export function canonicalRequest(
  request: SignedRequest,
  signedHeaders: readonly string[],
  payloadHash: string,
  form: TargetForm,
): string {
  return [
    request.method,
    canonicalPath(request.path, form),
    canonicalQuery(request.query, form),
    ...signedHeaders.map((name) => `${name}:${canonicalValue(request.headers.get(name.toLowerCase()) ?? '')}`),
    '',
    signedHeaders.join(';'),
    payloadHash,
  ].join('\n')
}

const SECRET_HEADER = /^((?:authorization|cookie|[^:\n]*(?:customer-key|security-token)):).+$/gm

/** The text as the sender of the request may see it: without the values of secret headers. */
export const withoutSecrets = (canonical: string): string => canonical.replaceAll(SECRET_HEADER, '$1(not shown)')

const canonicalPath = (path: string, form: TargetForm): string =>
  form === 'as-sent' ? path || '/' : path.split('/').map(normalised).join('/').replaceAll('%2F', '/') || '/'

function canonicalQuery(query: string, form: TargetForm): string {
  return (form === 'as-sent' ? inOrder(query) : null) ?? ordered(query, form)
}

/** The query without its signature, if the parameters come in the order in which they are signed, as from most signers. Null: they do not. */
function inOrder(query: string): string | null {
  let signatureAt = -1
  let signatureEnd = 0
  let nameBefore = ''
  let valueBefore = ''
  for (let at = 0; at < query.length;) {
    const ampersandAt = query.indexOf('&', at)
    const end = ampersandAt < 0 ? query.length : ampersandAt
    const equalsAt = query.indexOf('=', at)
    if (equalsAt < 0 || equalsAt > end || end === query.length - 1) return null
    const name = query.slice(at, equalsAt)
    if (name === SIGNATURE_PARAMETER) {
      if (signatureAt >= 0) return null
      signatureAt = at
      signatureEnd = end
    } else {
      const value = query.slice(equalsAt + 1, end)
      if (name < nameBefore || (name === nameBefore && value < valueBefore)) return null
      nameBefore = name
      valueBefore = value
    }
    at = end + 1
  }
  if (signatureAt < 0) return query
  if (signatureEnd === query.length) return query.slice(0, Math.max(0, signatureAt - 1))
  return query.slice(0, signatureAt) + query.slice(signatureEnd + 1)
}

function ordered(query: string, form: TargetForm): string {
  const parameters: [name: string, value: string][] = []
  for (const parameter of query.split('&')) {
    if (parameter === '') continue
    const at = parameter.indexOf('=')
    const name = at < 0 ? parameter : parameter.slice(0, at)
    const value = at < 0 ? '' : parameter.slice(at + 1)
    if (name === SIGNATURE_PARAMETER) continue
    parameters.push(
      form === 'as-sent'
        ? [name, value]
        : [normalised(name.replaceAll('+', '%20')), normalised(value.replaceAll('+', '%20'))],
    )
  }
  return parameters
    .sort(([nameA, valueA], [nameB, valueB]) => compare(nameA, nameB) || compare(valueA, valueB))
    .map(([name, value]) => `${name}=${value}`)
    .join('&')
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Encodes what is neither unreserved nor encoded, decodes what is unreserved, and writes the digits in upper case. */
const normalised = (text: string): string =>
  text.replaceAll(/%[0-9A-Fa-f]{2}|[^\w.~-]/gu, (part) => {
    if (part.length === 3 && part.startsWith('%')) {
      const character = String.fromCharCode(Number.parseInt(part.slice(1), 16))
      return /[\w.~-]/.test(character) ? character : part.toUpperCase()
    }
    return Array.from(Buffer.from(part), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
  })

const canonicalValue = (value: string): string => value.trim().replaceAll(/[ \t]+/g, ' ')
