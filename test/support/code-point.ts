/** A letter of a random text. */
import fc from 'fast-check'

const SURROGATES_FROM = 0xd800
const SURROGATES = 0x800
const CODE_POINTS = 0x110000

/** Any code point, distributed as in fast-check's unit `binary`. That unit makes a table of all code points, which takes each process 0.75 s. */
export const codePoint: fc.Arbitrary<string> = fc
  .nat({ max: CODE_POINTS - SURROGATES - 1 })
  .map((nth) => String.fromCodePoint(nth < SURROGATES_FROM ? nth : nth + SURROGATES), nthOf)

/** The inverse of the mapping. With it fast-check can begin with texts that often break programs. */
function nthOf(text: unknown): number {
  const point = typeof text === 'string' ? text.codePointAt(0) : undefined
  if (point === undefined || text !== String.fromCodePoint(point)) throw new Error('it is not one code point')
  const isSurrogate = point >= SURROGATES_FROM && point < SURROGATES_FROM + SURROGATES
  if (isSurrogate) throw new Error('half of a code point is none')
  return point < SURROGATES_FROM ? point : point - SURROGATES
}
