/**
 * Text as it stands in XML answers.
 *
 * The text is always well-formed XML 1.0: a character that XML cannot carry becomes U+FFFD. Keys that may have such characters are listed exactly
 * with `encoding-type=url`.
 *
 * T2  a carriage return is written as a reference: parsers turn a plain one into a line feed
 */
import { ByteEscapes } from './byte-escapes.ts'

export const XML_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/'

/** An answer in S3's namespace. @param content elements or escaped text */
export const s3Document = (root: string, content: string): string => `${s3DocumentBegin(root)}${content}</${root}>`

export const s3DocumentBegin = (root: string): string => `${XML_DECLARATION}<${root} xmlns="${NAMESPACE}">`

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const ESCAPED = /[&<>"\u0000-\u0008\u000b-\u001f\ud800-\udfff\ufffe\uffff]/
const NO_CHARACTERS = /[\ufffe\uffff]/g
const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\r': '&#13;', // T2
  '\t': '\t',
  '\n': '\n',
}
const xmlEscapes = new ByteEscapes((byte) => ESCAPES[String.fromCharCode(byte)] ?? (byte < 0x20 ? '\ufffd' : null))

/** For text between tags. */
export const escapeXml = (text: string): string =>
  ESCAPED.test(text) ? xmlEscapes.escape(text.replace(NO_CHARACTERS, '\ufffd')) : text

/** An element with text, or nothing. */
export const textElement = (name: string, text: string | null): string =>
  text === null ? '' : `<${name}>${escapeXml(text)}</${name}>`

const URL_SAFE = /[A-Za-z0-9\-._~!'()*/]/
const NOT_URL_SAFE = /[^A-Za-z0-9\-._~!'()*/]/
const urlEscapes = new ByteEscapes((byte) =>
  byte < 0x80 && URL_SAFE.test(String.fromCharCode(byte))
    ? null
    : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`,
)

/** As `encoding-type=url` asks: bytes of UTF-8 as `%XX`, but letters, digits, slashes and a few signs as they are. */
export const urlEncode = (text: string): string => (NOT_URL_SAFE.test(text) ? urlEscapes.escape(text) : text)

const DAY_MS = 86_400_000
let day = -1
let dayText = ''
const TWO_DIGITS = Array.from({ length: 60 }, (_, n) => String(n).padStart(2, '0'))

/**
 * `2026-11-20T09:30:05.123Z`. S3 has whole seconds, but then a file that is sent within the second that it was written in looks newer than
 * its object, and a client that compares times, as `aws s3 sync` does, sends it again. Times of one listing are often of one day, so the day is kept.
 */
export function isoTime(timeMs: number): string {
  const timeDay = Math.floor(timeMs / DAY_MS)
  if (timeDay !== day) {
    dayText = new Date(timeDay * DAY_MS).toISOString().slice(0, -13)
    day = timeDay
  }
  const ofDay = timeMs - timeDay * DAY_MS
  const seconds = Math.floor(ofDay / 1000)
  const hour = TWO_DIGITS[Math.floor(seconds / 3600)]!
  const minute = TWO_DIGITS[Math.floor(seconds / 60) % 60]!
  const milliseconds = String(ofDay % 1000).padStart(3, '0')
  return `${dayText}${hour}:${minute}:${TWO_DIGITS[seconds % 60]!}.${milliseconds}Z`
}
