/** Strings in a frame, in UTF-8. A text field begins with a u32, its length in bytes. */
import { readU32, writeU32 } from '../../../native-free-codecs/frame.ts'

/** Up to this length a loop is faster than a call out of JavaScript. */
const BY_HAND_MAX = 48
const LENGTH_BYTES = 4

/** Bytes of a text in UTF-8. Half a surrogate pair counts as the U+FFFD it is stored as. */
export function textBytes(text: string): number {
  const { length } = text
  if (length > BY_HAND_MAX) return Buffer.byteLength(text)
  for (let i = 0; i < length; i++) if (text.charCodeAt(i) > 0x7f) return Buffer.byteLength(text)
  return length
}

/** @returns the end of the text */
export function writeText(into: Buffer, at: number, text: string): number {
  const { length } = text
  if (length > BY_HAND_MAX) return at + into.write(text, at)
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x7f) return at + into.write(text, at)
    into[at + i] = code
  }
  return at + length
}

export const textFieldBytes = (text: string): number => LENGTH_BYTES + textBytes(text)

/** @returns the end of the text */
export function writeTextField(into: Buffer, at: number, text: string): number {
  const end = writeText(into, at + LENGTH_BYTES, text)
  writeU32(into, at, end - at - LENGTH_BYTES)
  return end
}

/** Reads text fields one after the other. */
export class TextFields {
  /** Where the field read last ends; -1 after one that reached beyond the bytes. */
  at: number
  readonly #bytes: Buffer

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes
    this.at = at
  }

  next(): string {
    const textAt = this.at + LENGTH_BYTES
    if (this.at < 0 || textAt > this.#bytes.byteLength) return this.#fail()
    const end = textAt + readU32(this.#bytes, this.at)
    if (end > this.#bytes.byteLength) return this.#fail()
    this.at = end
    return this.#bytes.toString('utf8', textAt, end)
  }

  #fail(): string {
    this.at = -1
    return ''
  }
}
