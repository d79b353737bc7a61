/**
 * What a thread remembers of the frames that searches have read: which runs of four characters of words stand in their bodies. A later search for a
 * text with other runs passes over the frame. It is for what is not compacted yet: compacted blocks have filters of their own.
 *
 *   bits   by the hash of each run of GRAM bytes of words (ASCII_OF_WORD), in lower case
 *
 * G1  a frame never changes, so what was noted of it once holds as long as its segment is there
 * G2  a frame is passed over only if none of the texts stands in it of which every match has one (`SearchMatcher.required`)
 * G3  bounded in bytes: frames that find no room are read each time
 */
import type { RecordBatch } from '../batch-frame.ts'
import { LOWER } from '../search/byte-finder.ts'
import { ASCII_OF_WORD } from '../search/words.ts'

const GRAM = 4
const HASH_FACTOR = 0x9e3779b1
/** A bit for every four bytes: of a batch of logs, a tenth is set. */
const BYTES_PER_BIT = 4
const BITS_MIN = 1 << 8
const BITS_MAX = 1 << 17
/** In lower case; 0 for what is of no word. */
const FOLDED = LOWER.map((lower, byte) => (ASCII_OF_WORD[byte] === 0 ? 0 : lower))

/** The runs of one text; a frame without one of them does not have the text. */
type Grams = readonly number[]

export class FrameGrams {
  readonly #bytesMax: number
  #bytes = 0
  /** By base of the segment, then by offset of the frame. */
  readonly #segments = new Map<number, Map<number, Uint32Array>>()

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** @param required see G2; null: nothing of the kind */
  search(required: readonly string[] | null, base: number): FrameTest {
    let segment = this.#segments.get(base)
    if (segment === undefined) this.#segments.set(base, (segment = new Map()))
    const grams = required?.map(gramsOf) ?? []
    const isKnown = grams.length > 0 && grams.every((each) => each.length > 0)
    return new FrameTest(segment, isKnown ? grams : null, (bytes) => this.#take(bytes))
  }

  /** Forgets the other segments. */
  keepOnly(isKept: (base: number) => boolean): void {
    for (const [base, frames] of this.#segments) {
      if (isKept(base)) continue
      for (const bits of frames.values()) this.#bytes -= bits.byteLength
      this.#segments.delete(base)
    }
  }

  #take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false
    this.#bytes += bytes
    return true
  }
}

/** One search in one segment. */
export class FrameTest {
  readonly #frames: Map<number, Uint32Array>
  readonly #grams: readonly Grams[] | null
  readonly #take: (bytes: number) => boolean

  /** @param take whether there is room for so many bytes, which are taken then */
  constructor(frames: Map<number, Uint32Array>, grams: readonly Grams[] | null, take: (bytes: number) => boolean) {
    this.#frames = frames
    this.#grams = grams
    this.#take = take
  }

  /** False: no record of the frame matches. */
  mayMatch(frameOffset: number): boolean {
    if (this.#grams === null) return true
    const bits = this.#frames.get(frameOffset)
    return bits === undefined || this.#grams.some((grams) => grams.every((gram) => has(bits, gram)))
  }

  /**
   * After the frame was read. That makes the first search of a frame half as long again; searches come in series, and to leave some of it to the next
   * ones has each of them read what is left.
   */
  note(frameOffset: number, batch: RecordBatch): void {
    const { body } = batch
    if (this.#grams === null || this.#frames.has(frameOffset)) return
    if (batch.mayHaveEscapes) return
    let bitCount = BITS_MIN
    while (bitCount < BITS_MAX && bitCount * BYTES_PER_BIT < body.byteLength) bitCount *= 2
    if (this.#take(bitCount / 8)) this.#frames.set(frameOffset, bitsOf(body, bitCount))
  }
}

function bitsOf(body: Uint8Array, bitCount: number): Uint32Array {
  const bits = new Uint32Array(bitCount / 32)
  const shift = Math.clz32(bitCount) + 1
  let run = 0
  let gram = 0
  for (let at = 0; at < body.byteLength; at++) {
    const byte = FOLDED[body[at]!]!
    if (byte === 0) {
      run = 0
      continue
    }
    gram = (gram << 8) | byte
    if (++run < GRAM) continue
    const bit = Math.imul(gram, HASH_FACTOR) >>> shift
    bits[bit >>> 5]! |= 1 << (bit & 31)
  }
  return bits
}

function has(bits: Uint32Array, gram: number): boolean {
  const bit = Math.imul(gram, HASH_FACTOR) >>> (Math.clz32(32 * bits.length) + 1)
  return (bits[bit >>> 5]! & (1 << (bit & 31))) !== 0
}

/** @param text ASCII, in lower case */
function gramsOf(text: string): Grams {
  const grams: number[] = []
  for (const run of text.match(/[a-z0-9_]{4,}/g) ?? []) {
    const bytes = Buffer.from(run, 'latin1')
    for (let at = 0; at + GRAM <= bytes.byteLength; at++) grams.push(bytes.readInt32BE(at))
  }
  return grams
}
