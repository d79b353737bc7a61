/**
 * Says at which places of a bundle a key may be: pairs of a hash and a place, in the order of hashes, in pieces. A place is a number that the caller gives
 * a meaning: a run of rows for record ids, a block for trace ids.
 *
 *   directory   bits of the hashes u8, low bits u8, bits of the places u8, pieces varint; each: pairs varint, first hash u32, then as `writePiece`
 *   piece       high bits, then fields; each begins with a byte of its own, and numbers begin with the lowest bit
 *   high bits   by pair: a 0 for each step of `hash >>> low bits` since the pair before, or since the first hash of the piece, then a 1
 *   field       place, then the low bits of the hash; of all pairs one behind the other
 *
 * So a pair takes two bits beside its field (Elias and Fano), and a look-up skips most other pairs. Hashes have `BITS_OVER` bits more than the number of
 * pairs needs: for one of 2000 to 4000 absent keys a place is found, which is read in vain.
 *
 * H1  a key that was added is always found
 */
import assert from 'node:assert/strict'
import type { ByteReader } from './byte-reader.ts'
import { ByteWriter } from './byte-writer.ts'
import { pieceOf, readPiece, uncompressed, writePiece } from './pieces.ts'
import type { Piece } from './pieces.ts'
import type { ByteList, NumberList, Scratch } from './scratch.ts'

const PAIRS_PER_PIECE = 1024
const BITS_OVER = 11
/** Places are below this; a pair of a hash and a place is a whole number below 2^53. */
const PLACES = 2 ** 20
const HASHES = 2 ** 32

/** Hash of a trace id, which clients choose: every bit of it counts. Source: MurmurHash3's finalizer, word by word. */
export function traceHash(w0: number, w1: number, w2: number, w3: number): number {
  return mix(w3 ^ mix(w2 ^ mix(w1 ^ mix(w0 ^ 0x9747b28c))))
}

export function mix(word: number): number {
  let hash = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

const bitsOf = (value: number): number => 32 - Math.clz32(value)

/** Pairs of a hash of 32 bits and a place, as one number each, so that sorting needs no comparison function. */
export class HashPairs {
  readonly #numbers: NumberList
  #greatestPlace = 0

  /** @param expected about how many pairs */
  constructor(scratch: Scratch, expected: number) {
    this.#numbers = scratch.numbers(HASHES * PLACES, expected)
  }

  add(hash: number, place: number): void {
    assert(place < PLACES)
    if (place > this.#greatestPlace) this.#greatestPlace = place
    this.#numbers.add(hash * PLACES + place)
  }

  get bits(): { readonly bits: number; readonly lowBits: number; readonly placeBits: number } {
    const bitsOfCount = bitsOf(Math.max(this.#numbers.count - 1, 0))
    const bits = Math.min(32, bitsOfCount + BITS_OVER)
    return { bits, lowBits: bits - bitsOfCount, placeBits: bitsOf(this.#greatestPlace) }
  }

  /** The pairs in sorted order, each once, PAIRS_PER_PIECE at a time; hashes are cut to their highest bits. An array is valid until the next one. Called once. */
  *pieces(): Iterable<Float64Array> {
    const scale = 2 ** (32 - this.bits.bits) * PLACES
    const piece = new Float64Array(PAIRS_PER_PIECE)
    let count = 0
    let before = -1
    for (const keys of this.#numbers.ranges()) {
      for (let i = 0; i < keys.length; i++) keys[i] = Math.floor(keys[i]! / scale) * PLACES + (keys[i]! % PLACES)
      keys.sort()
      for (let i = 0; i < keys.length; i++) {
        const key = keys[i]!
        if (key === before) continue
        before = key
        piece[count++] = key
        if (count < PAIRS_PER_PIECE) continue
        yield piece
        count = 0
      }
    }
    if (count > 0) yield piece.subarray(0, count)
  }
}

/** @param pieces receives the pieces; `directory` receives what describes them */
export function writeHashIndex(directory: ByteWriter, hashes: HashPairs, pieces: ByteList): void {
  const { bits, lowBits, placeBits } = hashes.bits
  directory.byte(bits)
  directory.byte(lowBits)
  directory.byte(placeBits)
  const described = new ByteWriter()
  const into = new ByteWriter()
  let count = 0
  for (const keys of hashes.pieces()) {
    into.reset()
    writeHighBits(into, keys, lowBits)
    writeFields(into, keys, lowBits, placeBits)
    const piece = uncompressed(into.written())
    described.varint(keys.length)
    described.u32(Math.floor(keys[0]! / PLACES))
    writePiece(described, pieceOf(piece))
    pieces.add(piece.bytes)
    count++
  }
  directory.varint(count)
  directory.copy(described.written())
}

function writeHighBits(into: ByteWriter, keys: Float64Array, lowBits: number): void {
  const scale = 2 ** lowBits * PLACES
  const first = Math.floor(keys[0]! / scale)
  const bytes = Math.ceil((Math.floor(keys.at(-1)! / scale) - first + keys.length) / 8)
  into.reserve(bytes)
  into.bytes.fill(0, into.at, into.at + bytes)
  for (let pair = 0; pair < keys.length; pair++) {
    const bit = Math.floor(keys[pair]! / scale) - first + pair
    into.bytes[into.at + (bit >>> 3)]! |= 1 << (bit & 7)
  }
  into.at += bytes
}

function writeFields(into: ByteWriter, keys: Float64Array, lowBits: number, placeBits: number): void {
  const fieldBits = lowBits + placeBits
  const lows = 2 ** lowBits
  const places = 2 ** placeBits
  let left = 0
  let leftBits = 0
  for (const key of keys) {
    const field = (Math.floor(key / PLACES) % lows) * places + (key % PLACES)
    left += field * 2 ** leftBits
    for (leftBits += fieldBits; leftBits >= 8; leftBits -= 8) {
      into.byte(left % 256)
      left = Math.floor(left / 256)
    }
  }
  if (leftBits > 0) into.byte(left)
}

/** Reads a piece, or takes it from a cache; the bytes are valid until the next call. */
export type LoadPiece = (piece: Piece) => Buffer

/**
 * The pieces of an index of hashes, as the bundle's directory lists them. They are in arrays and not in objects: a thread may have a thousand bundles open,
 * with some hundred pieces each.
 */
export class PiecesByHash {
  readonly #pairs: Uint32Array
  readonly #firsts: Uint32Array
  readonly #ats: Float64Array
  readonly #bytes: Uint32Array
  readonly #crcs: Uint32Array
  /** Where the pieces end in the file. */
  readonly end: number

  /** @param at where the pieces begin in the file */
  constructor(directory: ByteReader, at: number) {
    const pieces = directory.varint()
    this.#pairs = new Uint32Array(pieces)
    this.#firsts = new Uint32Array(pieces)
    this.#ats = new Float64Array(pieces)
    this.#bytes = new Uint32Array(pieces)
    this.#crcs = new Uint32Array(pieces)
    let next = at
    for (let number = 0; number < pieces; number++) {
      this.#pairs[number] = directory.varint()
      this.#firsts[number] = directory.u32()
      const { bytes, crc } = readPiece(directory, next)
      this.#ats[number] = next
      this.#bytes[number] = bytes
      this.#crcs[number] = crc
      next += bytes
    }
    this.end = next
  }

  /** Calls `find` with the pieces that may have a hash: its pairs may begin in the last piece with a lower first hash, and go on in the next ones. */
  forEachCandidate(hash: number, load: LoadPiece, find: (bytes: Buffer, pairs: number, first: number) => void): void {
    const firsts = this.#firsts
    for (let piece = Math.max(0, lowerBound(firsts, hash) - 1); piece < firsts.length; piece++) {
      if (firsts[piece]! > hash) break
      const place = { at: this.#ats[piece]!, bytes: this.#bytes[piece]!, rawBytes: 0, crc: this.#crcs[piece]! }
      find(load(place), this.#pairs[piece]!, firsts[piece]!)
    }
  }
}

export class HashIndex {
  readonly #shift: number
  readonly #lowBits: number
  readonly #placeBits: number
  readonly #pieces: PiecesByHash
  /** Where its pieces end in the file. */
  readonly end: number

  /** @param at where the pieces begin in the file */
  constructor(directory: ByteReader, at: number) {
    this.#shift = 32 - directory.byte()
    this.#lowBits = directory.byte()
    this.#placeBits = directory.byte()
    this.#pieces = new PiecesByHash(directory, at)
    this.end = this.#pieces.end
  }

  /** The places where the key of this hash may be, ascending (H1). */
  placesOf(hash: number, load: LoadPiece): number[] {
    const wanted = hash >>> this.#shift
    const found: number[] = []
    this.#pieces.forEachCandidate(wanted, load, (bytes, pairs, first) => this.#find(bytes, pairs, first, wanted, found))
    return found
  }

  #find(bytes: Buffer, pairs: number, first: number, wanted: number, found: number[]): void {
    const lowBits = this.#lowBits
    const fieldBits = lowBits + this.#placeBits
    const places = 2 ** this.#placeBits
    const low = wanted % 2 ** lowBits
    const highBytes = bytes.byteLength - Math.ceil((pairs * fieldBits) / 8)
    const steps = Math.floor(wanted / 2 ** lowBits) - Math.floor(first / 2 ** lowBits)
    // The pairs with the wanted high bits are the ones behind `steps` zeros.
    let bit = behindZeros(bytes, highBytes, steps)
    for (let pair = bit - steps; bit < 8 * highBytes && ((bytes[bit >>> 3]! >>> (bit & 7)) & 1) === 1; pair++, bit++) {
      const field = fieldAt(bytes, 8 * highBytes + pair * fieldBits, fieldBits)
      const itsLow = Math.floor(field / places)
      if (itsLow > low) return
      if (itsLow === low) found.push(field % places)
    }
  }
}

const ZEROS_OF_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => {
  let zeros = 8
  for (let left = byte; left > 0; left &= left - 1) zeros--
  return zeros
})

/** The number of the bit behind the given zeros; at least 8 * byteCount, if there are fewer. */
function behindZeros(bytes: Buffer, byteCount: number, zeros: number): number {
  let left = zeros
  let at = 0
  while (at < byteCount && ZEROS_OF_BYTE[bytes[at]!]! < left) left -= ZEROS_OF_BYTE[bytes[at++]!]!
  let bit = 8 * at
  for (; left > 0 && bit < 8 * byteCount; bit++) if (((bytes[bit >>> 3]! >>> (bit & 7)) & 1) === 0) left--
  return bit
}

/** @param count at most 45 */
function fieldAt(bytes: Buffer, firstBit: number, count: number): number {
  const at = Math.floor(firstBit / 8)
  const skipped = firstBit % 8
  let value = 0
  for (let byte = Math.ceil((skipped + count) / 8) - 1; byte >= 0; byte--) value = value * 256 + bytes[at + byte]!
  return Math.floor(value / 2 ** skipped) % 2 ** count
}

/** The index of the first value at or above the wanted one. */
function lowerBound(values: Uint32Array, wanted: number): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (values[middle]! < wanted) low = middle + 1
    else high = middle
  }
  return low
}
