/**
 * Rules for names that clients send. They are the specification's, with our own bounds:
 *
 * N1  a name is not blank, has no control characters, is well-formed Unicode, at most NAME_BYTES_MAX bytes
 * N2  a token is a name that can stand in a path: no slash, at most PATH_TOKEN_BYTES_MAX bytes
 * N3  a stream name is a token without white space around it
 * N4  a remark is any well-formed text of at most NAME_BYTES_MAX bytes
 * N5  a record has at most HEADERS_MAX headers, whose names and values have at most HEADERS_BYTES_MAX bytes together
 *
 * Browsers load this file with the client library: it needs nothing of Node.
 */
import { HEADERS_BYTES_MAX, HEADERS_MAX, NAME_BYTES_MAX, PATH_TOKEN_BYTES_MAX } from './limits.ts'

/** Most bytes of UTF-8 for one UTF-16 code unit. */
const BYTES_PER_UNIT_MAX = 3

export const NAME_RULE = `must not be blank, have control characters or exceed ${NAME_BYTES_MAX} bytes`
export const TOKEN_RULE = `must not be blank, have slashes or control characters or exceed ${PATH_TOKEN_BYTES_MAX} bytes`
export const STREAM_NAME_RULE = `must not be blank, have slashes, control characters or white space around it or exceed ${PATH_TOKEN_BYTES_MAX} bytes`
export const REMARK_RULE = `must be well-formed text of at most ${NAME_BYTES_MAX} bytes`
export const REASON_RULE = `must be well-formed text of 1 to ${NAME_BYTES_MAX} bytes`

export const HEADERS_RULE = 'must be an object of strings'
export const HEADERS_SIZE_RULE = `must not be more than ${HEADERS_MAX}, or have more than ${HEADERS_BYTES_MAX} bytes together`

const CONTROL_CHARACTER = /\p{Cc}/u

/** N1 */
export const isName = (text: string): boolean =>
  !CONTROL_CHARACTER.test(text) && text.trim() !== '' && isText(text) && fits(text, NAME_BYTES_MAX)

/** N2 */
export const isToken = (text: string): boolean =>
  isName(text) && !text.includes('/') && fits(text, PATH_TOKEN_BYTES_MAX)

let streamName = ''

/** N3. Remembers the last good name: each request asks more than once, and most requests name the same stream as the one before. */
export function isStreamName(text: string): boolean {
  if (text !== streamName) {
    if (!isToken(text) || text.trim() !== text) return false
    streamName = text
  }
  return text !== ''
}

/** N4 */
export const isRemark = (text: string): boolean => isText(text) && fits(text, NAME_BYTES_MAX)

/** N5 */
export function fitHeaders(
  headers: Readonly<Record<string, string>>,
  countMax = HEADERS_MAX,
  bytesMax = HEADERS_BYTES_MAX,
): boolean {
  let count = 0
  let units = 0
  for (const name in headers) {
    count += 1
    units += name.length + headers[name]!.length
  }
  if (count > countMax || units > bytesMax) return false
  if (units * BYTES_PER_UNIT_MAX <= bytesMax) return true
  let bytes = 0
  for (const name in headers) bytes += bytesOf(name) + bytesOf(headers[name]!)
  return bytes <= bytesMax
}

/** No lone surrogates: these have no form in UTF-8. */
export const isText = (text: string): boolean => text.isWellFormed()

const fits = (text: string, bytesMax: number): boolean =>
  text.length * BYTES_PER_UNIT_MAX <= bytesMax || bytesOf(text) <= bytesMax

const utf8 = new TextEncoder()
/** It allocates a buffer, so it is called only for text that may be too long. */
const bytesOf = (text: string): number => utf8.encode(text).byteLength

const NOT_HEX = /[^0-9a-fA-F]/
export const isHex = (text: string): boolean => text.length % 2 === 0 && !NOT_HEX.test(text)
