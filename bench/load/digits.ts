/** Decimal numbers of fixed width, written into bytes in place: two or three stores and nothing allocated. */

/** The four decimal digits of each number below 10 000, as the 32-bit word that is stored little-endian. */
const FOUR_DIGITS = wordsOfText(Array.from({ length: 10_000 }, (_, number) => String(number).padStart(4, '0')))

/** Up to four characters of each text, the first one in the lowest byte. */
export function wordsOfText(texts: readonly string[]): Uint32Array {
  return Uint32Array.from(texts, (text) => Buffer.from(text.padEnd(4, '\0'), 'latin1').readUInt32LE())
}

/** @param value integer in [0, 100) */
export function writeTwoDigits(view: DataView, offset: number, value: number): void {
  view.setUint16(offset, FOUR_DIGITS[value]! >>> 16, true) // the last two of four
}

/** @param value integer in [0, 10^4) */
export function writeFourDigits(view: DataView, offset: number, value: number): void {
  view.setUint32(offset, FOUR_DIGITS[value]!, true)
}

/** @param value integer in [0, 10^8) */
export function writeEightDigits(view: DataView, offset: number, value: number): void {
  const top = (value / 1e4) | 0
  view.setUint32(offset, FOUR_DIGITS[top]!, true)
  view.setUint32(offset + 4, FOUR_DIGITS[value - top * 1e4]!, true)
}

/** @param value integer in [0, 10^12) */
export function writeTwelveDigits(view: DataView, offset: number, value: number): void {
  const top = Math.floor(value / 1e8)
  view.setUint32(offset, FOUR_DIGITS[top]!, true)
  writeEightDigits(view, offset + 4, value - top * 1e8)
}
