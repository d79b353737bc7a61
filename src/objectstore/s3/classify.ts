/**
 * Which operation a request asks for.
 *
 * Checks run in this order: size of target and headers, number of parameters, authority, target, key, operation. A request for none of the profile's
 * operations is NotImplemented, whatever it is.
 */
import { refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import { invalidUri, percentDecoded } from './addressing.ts'
import type { Address, AddressedRequest, Addressing } from './addressing.ts'
import { eitherHeader, hasOwnHeaders } from './auth/request-identity.ts'
import type { SignedRequest } from './auth/canonical-request.ts'
import { HEADERS_BYTES_MAX, QUERY_PARAMETERS_MAX, TARGET_BYTES_MAX } from './limits.ts'
import { isSignedInQuery } from './auth/query-signature-v2.ts'
import { withHeadersInQuery } from './headers-in-query.ts'
import { ONLY_VERSION, OPERATIONS, SELECTING_PARAMETERS, VERSION } from './operations-table.ts'
import type { Extension, Operation } from './operations-table.ts'

export interface Classified {
  readonly operation: Operation
  readonly address: Address
  /** Decoded; the first of a repeated one, '' for one without a value. */
  readonly query: ReadonlyMap<string, string>
  /** By lower-case name; for a pre-signed URL with those in its query. */
  readonly headers: ReadonlyMap<string, string>
}

/** Most bytes of UTF-8 for one UTF-16 code unit: short texts need not be measured. */
const BYTES_PER_UNIT_MAX = 3

/** @throws S3Error InvalidURI, RequestHeaderSectionTooLarge, BadRequest, KeyTooLongError, NotImplemented */
export function classify(
  request: SignedRequest & AddressedRequest,
  addressing: Addressing,
  extensions: ReadonlySet<Extension>,
): Classified {
  checkSizes(request)
  const query = parseQuery(request.query)
  const headers = isSignedInQuery(request.query) ? withHeadersInQuery(request.headers, query) : request.headers
  const address = addressing.addressOf(request)
  const target = address.bucket === null ? 'service' : address.key === null ? 'bucket' : 'object'
  const asked = rows.get(request.method)?.[target]
  const saysMore = query.size > 0 || hasOwnHeaders(headers)
  const operation = saysMore ? asked?.all.find((row) => isMeant(row, query, headers)) : asked?.plain
  if (operation === undefined) throw outsideProfile('This operation')
  const { extension, name, parameters } = operation
  if (parameters !== null) {
    for (const parameter of query.keys()) {
      if (asksForElse(operation, parameter, query)) throw outsideProfile(`The parameter ${parameter} of this operation`)
    }
  }
  if (extension !== null && !extensions.has(extension))
    throw outsideProfile(`${name} needs the extension ${extension}, and`)
  return { operation, address, query, headers }
}

function checkSizes({ path, query, headers }: SignedRequest): void {
  if (
    BYTES_PER_UNIT_MAX * (path.length + query.length) + 1 > TARGET_BYTES_MAX &&
    targetBytes(path, query) > TARGET_BYTES_MAX
  ) {
    throw invalidUri(`The target of a request must not exceed ${TARGET_BYTES_MAX} bytes.`)
  }
  let units = 0
  headers.forEach((value, name) => (units += name.length + value.length))
  if (BYTES_PER_UNIT_MAX * units > HEADERS_BYTES_MAX && headerBytes(headers) > HEADERS_BYTES_MAX) {
    throw refuse('RequestHeaderSectionTooLarge', undefined, { fields: { MaxSizeAllowed: HEADERS_BYTES_MAX } })
  }
}

const targetBytes = (path: string, query: string): number =>
  Buffer.byteLength(path) + (query === '' ? 0 : 1 + Buffer.byteLength(query))

function headerBytes(headers: ReadonlyMap<string, string>): number {
  let bytes = 0
  for (const [name, value] of headers) bytes += name.length + Buffer.byteLength(value)
  return bytes
}

const NO_PARAMETERS: ReadonlyMap<string, string> = new Map()
/** The query of a usual pre-signed URL that has nothing else: no operation asks for these parameters, and the authenticator reads them itself. */
const ONLY_SIGNATURE =
  /^X-Amz-Algorithm=[\w-]+&X-Amz-Credential=(?:[\w-]|%2F)+&X-Amz-Date=\w+&X-Amz-Expires=\d+&X-Amz-SignedHeaders=[\w-]+&X-Amz-Signature=\w+$/

/** @param raw without the question mark. Plus signs are spaces, as browsers write them. */
function parseQuery(raw: string): ReadonlyMap<string, string> {
  if (raw === '' || ONLY_SIGNATURE.test(raw)) return NO_PARAMETERS
  const query = new Map<string, string>()
  let parameters = 0
  let end = -1
  while (end < raw.length) {
    const begin = end + 1
    const ampersandAt = raw.indexOf('&', begin)
    end = ampersandAt < 0 ? raw.length : ampersandAt
    if (end === begin) continue
    parameters += 1
    if (parameters > QUERY_PARAMETERS_MAX) {
      throw invalidUri(`A request must not have more than ${QUERY_PARAMETERS_MAX} query parameters.`)
    }
    const equalsAt = raw.indexOf('=', begin)
    const nameEnd = equalsAt < 0 || equalsAt > end ? end : equalsAt
    const name = decoded(raw.slice(begin, nameEnd))
    const value = decoded(raw.slice(nameEnd + 1, end))
    if (!query.has(name)) query.set(name, value)
  }
  return query
}

const decoded = (text: string): string => percentDecoded(text.includes('+') ? text.replaceAll('+', ' ') : text)

type Target = 'service' | 'bucket' | 'object'

interface Rows {
  readonly all: Operation[]
  /** The operation of a request that names its target and nothing else, as most do; undefined: there is none. */
  plain: Operation | undefined
}

const noRows = (): Rows => ({ all: [], plain: undefined })
const rows = new Map<string, Readonly<Record<Target, Rows>>>()
for (const operation of OPERATIONS) {
  const { method, target } = operation
  const ofMethod = rows.get(method) ?? { service: noRows(), bucket: noRows(), object: noRows() }
  rows.set(method, ofMethod)
  for (const each of target === 'bucket or object' ? (['bucket', 'object'] as const) : [target]) {
    ofMethod[each].all.push(operation)
    if (operation.header === null && operation.selectors.length === 0) ofMethod[each].plain ??= operation
  }
}

/** O1 of operations-table.ts. */
function isMeant(
  { selectors, header }: Operation,
  query: ReadonlyMap<string, string>,
  headers: ReadonlyMap<string, string>,
): boolean {
  if (header !== null && eitherHeader(headers, header) === undefined) return false
  return selectors.every(({ name, value }) => (value === null ? query.has(name) : query.get(name) === value))
}

/** O2 and O3 of operations-table.ts. */
function asksForElse({ selectors, parameters }: Operation, name: string, query: ReadonlyMap<string, string>): boolean {
  if (!SELECTING_PARAMETERS.has(name) || parameters === null) return false
  if (parameters.includes(name)) return name === VERSION && query.get(name) !== ONLY_VERSION
  return !selectors.some((selector) => selector.name === name)
}

const outsideProfile = (what: string): S3Error =>
  refuse('NotImplemented', `${what} is outside the profile objapi-core-v1.`)
