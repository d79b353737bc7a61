/**
 * The JSON of a request's body, within bounds and without holding the main thread.
 *
 * A body longer than SHORT_BODY_BYTES is read in slices, one in each turn of the event loop.
 *
 * B1  JSON.parse reads a body up to SHORT_BODY_BYTES at once: with any content it is too short to take long
 */
import { JsonReader, checkParsed } from '../../native-free-codecs/json-reader.ts'
import type { JsonBounds, LongStringOf } from '../../native-free-codecs/json-reader.ts'
import { nextTurn } from './turns.ts'

/** B1 */
export const SHORT_BODY_BYTES = 64 << 10
const SLICE_BYTES = 1 << 20

/**
 * A body of 1000 records, each with all headers it may have, fits. Objects may have more members than any rule allows, so that the rule
 * can refuse them in its own words.
 */
const JSON_BODY_BOUNDS: JsonBounds = { depth: 64, members: 1024, values: 200_000, stringBytes: 128 << 10 }

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * @param bytes valid only during the call, unless `isOwn`
 * @param isOwn whether they belong to the reader, which may write into them; otherwise a long body is copied
 * @param isGone whether the caller no longer waits for the result
 * @returns null if the caller is gone; a promise for a long body
 * @throws SyntaxError when it is no JSON in UTF-8, JsonBoundError when it exceeds a bound or has a name twice
 */
export function readJsonBody(
  bytes: Buffer,
  isOwn: boolean,
  longStringOf: LongStringOf,
  isGone: () => boolean,
): { readonly value: unknown } | Promise<{ readonly value: unknown } | null> {
  if (bytes.byteLength > SHORT_BODY_BYTES) return readLong(isOwn ? bytes : Buffer.from(bytes), longStringOf, isGone)
  if (isEmptyObject(bytes)) return { value: {} } // the body of most acknowledgements
  const text = decode(bytes)
  const value: unknown = JSON.parse(text)
  checkParsed(text, value, JSON_BODY_BOUNDS.depth)
  return { value }
}

async function readLong(
  bytes: Buffer,
  longStringOf: LongStringOf,
  isGone: () => boolean,
): Promise<{ readonly value: unknown } | null> {
  const reader = new JsonReader(bytes, JSON_BODY_BOUNDS, longStringOf)
  while (!reader.step(SLICE_BYTES)) {
    await nextTurn()
    if (isGone()) return null
  }
  return { value: reader.value }
}

const isEmptyObject = (bytes: Buffer): boolean => bytes.byteLength === 2 && bytes[0] === 0x7b && bytes[1] === 0x7d

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new SyntaxError('the text is not UTF-8')
  }
}
