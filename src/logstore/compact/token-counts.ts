/**
 * For the frequent tokens of a bundle: which blocks have them, in how many rows. A search for one such token is counted without reading the blocks.
 *
 *   directory   pieces varint; each: its first token with its length, then as `writePiece`
 *   piece       tokens in the order of their bytes; each: its length varint, its bytes, bytes of its list varint, list: steps from block to block and
 *               rows, varints
 *
 * A token is a word, or `PAIR key NUL value` of an attribute whose value is a text; both are ASCII, in lower case but for the key.
 *
 * K1  a listed number is exact: as many rows of the block match the search for that one token by the matcher of records
 * K2  tokens that are not listed may stand in the block; the filter says whether
 */
import assert from 'node:assert/strict'
import { isAscii } from '../search/words.ts'
import type { ByteReader } from './byte-reader.ts'
import { ByteReader as Reader } from './byte-reader.ts'
import { ByteWriter } from './byte-writer.ts'
import { compressed, pieceOf, readPiece, writePiece } from './pieces.ts'
import type { Piece, WrittenPiece } from './pieces.ts'

/** What was counted in a block: its words, its pairs of key and value, its severities. */
export const WORDS = 1
export const PAIRS = 2
export const SEVERITIES = 4

const PIECE_BYTES = 16 * 1024
const PAIR = '\u0001'
const BETWEEN = '\0'

export const isPairKey = (key: string): boolean => isAscii(key) && !key.includes(BETWEEN)
export const pairToken = (key: string, value: string): string => `${PAIR}${key}${BETWEEN}${value}`

/** A listing: block and rows of a token, and where the previous listing of the token is. */
const LISTING_WORDS = 2
/** Bits of the number of rows in a listing; the number of the block has the other 16. */
const ROWS_BITS = 16
const NONE = 0

/** Listings of 8 bytes each: a merged bundle has a million of them, and most of its tokens are in nearly every block. */
export class ListedTokens {
  /** By token: where its last listing is. */
  readonly #last = new Map<string, number>()
  /** They begin at LISTING_WORDS, so that 0 can stand for NONE. */
  #listings = new Uint32Array(1024)
  #end = LISTING_WORDS

  get count(): number {
    return this.#end / LISTING_WORDS - 1
  }

  /** @param block ascending for each token */
  add(token: string, block: number, rows: number): void {
    assert(rows < 2 ** ROWS_BITS)
    if (this.#end === this.#listings.length) {
      const longer = new Uint32Array(2 * this.#end)
      longer.set(this.#listings)
      this.#listings = longer
    }
    const at = this.#end
    this.#listings[at] = block * 2 ** ROWS_BITS + rows
    this.#listings[at + 1] = this.#last.get(token) ?? NONE
    this.#last.set(token, at)
    this.#end += LISTING_WORDS
  }

  tokens(): string[] {
    return [...this.#last.keys()]
  }

  /** The listings of a token: block and rows in turn, by ascending block. */
  of(token: string): number[] {
    const listed: number[] = []
    for (let at = this.#last.get(token) ?? NONE; at !== NONE; at = this.#listings[at + 1]!) {
      const listing = this.#listings[at]!
      listed.push(listing % 2 ** ROWS_BITS, Math.floor(listing / 2 ** ROWS_BITS))
    }
    return listed.reverse()
  }
}

/** @returns the pieces; `directory` receives what describes them */
export function writeTokenCounts(directory: ByteWriter, counts: ListedTokens): WrittenPiece[] {
  const pieces: WrittenPiece[] = []
  const firsts: Buffer[] = []
  const into = new ByteWriter(2 * PIECE_BYTES)
  const list = new ByteWriter(1024)
  const end = (): void => {
    if (into.at > 0) pieces.push(compressed(into.written()))
    into.reset()
  }
  for (const token of counts.tokens().sort()) {
    if (into.at >= PIECE_BYTES) end()
    const bytes = Buffer.from(token, 'latin1')
    if (into.at === 0) firsts.push(bytes)
    list.reset()
    const blocks = counts.of(token)
    let before = 0
    for (let i = 0; i < blocks.length; i += 2) {
      list.varint(blocks[i]! - before)
      list.varint(blocks[i + 1]!)
      before = blocks[i]!
    }
    into.lengthAndBytes(bytes)
    into.lengthAndBytes(list.written())
  }
  end()
  directory.varint(pieces.length)
  for (const [number, piece] of pieces.entries()) {
    directory.lengthAndBytes(firsts[number]!)
    writePiece(directory, pieceOf(piece))
  }
  return pieces
}

interface CountsPiece extends Piece {
  readonly first: Buffer
}

export class TokenCounts {
  readonly #pieces: readonly CountsPiece[]
  readonly #blockCount: number

  /** @param place gives a piece its place in the file */
  constructor(directory: ByteReader, blockCount: number, place: (piece: Piece) => Piece) {
    this.#pieces = Array.from({ length: directory.varint() }, () => {
      const first = directory.lengthAndBytes()
      return { first, ...place(readPiece(directory, 0)) }
    })
    this.#blockCount = blockCount
  }

  /** By block: how many of its rows have the token; 0 where it is not listed. Null: it is listed nowhere. @param load reads a piece, or takes it from a cache */
  of(token: string, load: (piece: Piece) => Buffer): Uint32Array | null {
    const wanted = Buffer.from(token, 'latin1')
    let low = 0
    let high = this.#pieces.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (Buffer.compare(this.#pieces[middle]!.first, wanted) <= 0) low = middle + 1
      else high = middle
    }
    if (low === 0) return null
    const from = new Reader(load(this.#pieces[low - 1]!))
    while (from.at < from.bytes.byteLength) {
      const isWanted = from.lengthAndBytes().equals(wanted)
      const list = from.lengthAndBytes()
      if (isWanted) return this.#read(new Reader(list))
    }
    return null
  }

  #read(from: ByteReader): Uint32Array {
    const rows = new Uint32Array(this.#blockCount)
    for (let block = 0; from.at < from.bytes.byteLength;) {
      block += from.varint()
      rows[block] = from.varint()
    }
    return rows
  }
}
