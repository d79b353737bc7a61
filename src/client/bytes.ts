/** Conversions between bytes and text that also work in browsers. On Node its own conversions are used, because they are faster. */

/** What looks like a byte order mark is text like any other. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
/** Undefined in a browser, although the types say otherwise. */
const NodeBuffer = (globalThis as { readonly Buffer?: typeof Buffer }).Buffer

/** Accepts arrays of any realm: frames and contexts have classes of their own. */
export const isBytes = (value: unknown): value is Uint8Array =>
  ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === '[object Uint8Array]'

/** Decodes UTF-8, for example a payload. */
export const textOf = (bytes: Uint8Array): string => decoder.decode(bytes)

export const hexOf: (bytes: Uint8Array) => string = NodeBuffer
  ? ({ buffer, byteOffset, byteLength }) => NodeBuffer.from(buffer, byteOffset, byteLength).toString('hex')
  : portableHexOf

/** @param hex from the broker, so it has an even count of digits */
export const bytesOf: (hex: string) => Uint8Array = NodeBuffer ? (hex) => NodeBuffer.from(hex, 'hex') : portableBytesOf

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

export function portableHexOf(bytes: Uint8Array): string {
  let hex = ''
  for (const byte of bytes) hex += DIGITS[byte]!
  return hex
}

export function portableBytesOf(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2)
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16)
  return bytes
}
