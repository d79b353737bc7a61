/**
 * Says which blocks of a bundle may hold a record id or a trace id: pairs of a hash and the number of a block, in the order of hashes, in pieces.
 *
 *   directory   bits of the hashes u8, pieces varint; each: pairs varint, first hash u32, then as `writePiece`
 *   piece       steps from hash to hash, varints; then the blocks, one byte each, or two when the bundle has more than 256
 *
 * Hashes have ten bits more than the number of pairs needs. So one of a thousand other keys is found, and its block is read in vain.
 *
 * H1  a key that was added is always found
 */
import assert from 'node:assert/strict'
import type { ByteReader } from './byte-reader.ts'
import { ByteWriter } from './byte-writer.ts'
import { asItIs, pieceOf, readPiece, writePiece } from './pieces.ts'
import type { Piece, WrittenPiece } from './pieces.ts'

const PAIRS_PER_PIECE = 2048
const BITS_OVER = 10
/** Numbers of blocks are smaller. */
const BLOCKS = 65_536

/** Hash of a trace id, which clients choose: every bit of it counts. Source: MurmurHash3's finalizer, word by word. */
export function traceHash(w0: number, w1: number, w2: number, w3: number): number {
  return mix(w3 ^ mix(w2 ^ mix(w1 ^ mix(w0 ^ 0x9747b28c))))
}

export function mix(word: number): number {
  let hash = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

const bitsFor = (pairs: number): number => Math.min(32, Math.ceil(Math.log2(pairs + 1)) + BITS_OVER)

/** Pairs of a hash of 32 bits and the number of a block, as one number each, so that sorting needs no comparison function. */
export class HashPairs {
  #keys: Float64Array
  #count = 0

  /** @param expected so many, or some more */
  constructor(expected: number) {
    this.#keys = new Float64Array(Math.max(1024, expected))
  }

  add(hash: number, block: number): void {
    if (this.#count === this.#keys.length) {
      const longer = new Float64Array(2 * this.#count)
      longer.set(this.#keys)
      this.#keys = longer
    }
    this.#keys[this.#count++] = hash * BLOCKS + block
  }

  /** Sorted, with the highest bits of the hashes alone. They are these very numbers, so this is called once. */
  shortened(): { readonly keys: Float64Array; readonly bits: number } {
    const keys = this.#keys.subarray(0, this.#count)
    const bits = bitsFor(keys.length)
    const shift = 32 - bits
    for (let i = 0; i < keys.length; i++) {
      const hash = Math.floor(keys[i]! / BLOCKS)
      keys[i] = (hash >>> shift) * BLOCKS + (keys[i]! % BLOCKS)
    }
    return { keys: keys.sort(), bits }
  }
}

/** @returns the pieces; their directory goes into `directory` */
export function writeHashIndex(directory: ByteWriter, hashes: HashPairs, blockCount: number): WrittenPiece[] {
  const { keys, bits } = hashes.shortened()
  const pairs = keys.length
  directory.byte(bits)
  directory.varint(Math.ceil(pairs / PAIRS_PER_PIECE))
  const pieces: WrittenPiece[] = []
  const into = new ByteWriter()
  for (let from = 0; from < pairs; from += PAIRS_PER_PIECE) {
    const to = Math.min(pairs, from + PAIRS_PER_PIECE)
    const first = Math.floor(keys[from]! / BLOCKS)
    into.reset()
    let before = first
    for (let i = from; i < to; i++) {
      const hash = Math.floor(keys[i]! / BLOCKS)
      into.varint(hash - before)
      before = hash
    }
    for (let i = from; i < to; i++) {
      const block = keys[i]! % BLOCKS
      into.byte(block & 0xff)
      if (blockCount > 256) into.byte(block >>> 8)
    }
    const piece = asItIs(into.written())
    directory.varint(to - from)
    directory.u32(first)
    writePiece(directory, pieceOf(piece))
    pieces.push(piece)
  }
  return pieces
}

/**
 * What of a bundle's directory is for such an index. Its pieces stand in arrays, not in objects: a thread may have a thousand bundles open, with some
 * hundred pieces each.
 */
export class HashIndex {
  readonly #shift: number
  readonly #pairs: Uint32Array
  readonly #firsts: Uint32Array
  readonly #ats: Float64Array
  readonly #bytes: Uint32Array
  readonly #crcs: Uint32Array
  readonly #blockBytes: number
  /** Where the pieces end in the file. */
  readonly end: number

  /** @param at where the pieces begin in the file */
  constructor(directory: ByteReader, at: number, blockCount: number) {
    this.#shift = 32 - directory.byte()
    this.#blockBytes = blockCount > 256 ? 2 : 1
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
      const { bytes, rawBytes, crc } = readPiece(directory, next)
      assert(rawBytes === 0, 'written as it is')
      this.#ats[number] = next
      this.#bytes[number] = bytes
      this.#crcs[number] = crc
      next += bytes
    }
    this.end = next
  }

  /** The blocks that may hold the key of this hash, ascending (H1). @param load reads a piece, or has it */
  blocksOf(hash: number, load: (piece: Piece) => Buffer): number[] {
    const wanted = hash >>> this.#shift
    const firsts = this.#firsts
    const found: number[] = []
    // From the last piece that begins before the hash on: it may begin inside of one piece and go on in the next.
    for (let piece = Math.max(0, lowerBound(firsts, wanted) - 1); piece < firsts.length; piece++) {
      if (firsts[piece]! > wanted) break
      const at = this.#ats[piece]!
      const bytes = load({ at, bytes: this.#bytes[piece]!, rawBytes: 0, crc: this.#crcs[piece]! })
      this.#find(bytes, this.#pairs[piece]!, firsts[piece]!, wanted, found)
    }
    return found
  }

  /** Goes through the steps as they stand: to make arrays of a piece takes many times longer, and look-ups seldom meet one twice. */
  #find(bytes: Buffer, pairs: number, first: number, wanted: number, found: number[]): void {
    const blocksAt = bytes.byteLength - pairs * this.#blockBytes
    let hash = first
    let at = 0
    for (let pair = 0; pair < pairs; pair++) {
      let byte = bytes[at++]!
      let step = byte & 127
      for (let scale = 128; byte >= 128; scale *= 128) {
        byte = bytes[at++]!
        step += (byte & 127) * scale
      }
      hash += step
      if (hash < wanted) continue
      assert(at <= blocksAt)
      if (hash > wanted) return
      const block = this.#blockBytes === 1 ? bytes[blocksAt + pair]! : bytes.readUInt16LE(blocksAt + 2 * pair)
      if (found.at(-1) !== block) found.push(block)
    }
  }
}

/** The first of the values at or above the wanted one. */
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
