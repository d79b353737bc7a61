/**
 * The tokens of a block, each once, with the number of rows that have it. A token is a word, or an attribute with its value. All of them are in the
 * filter of the block; those that many rows have are listed with their number (token-counts.ts).
 *
 * T1  a number is exact or not listed: two tokens with one hash, long tokens, and words beside a character beyond ASCII are not listed
 * T2  a block costs what its tokens cost, whatever blocks before it had: a bundle of many datasets has some ten thousand blocks of a few records, and the
 *     table stays as large as its largest block made it
 */
import { LOWER } from '../search/byte-finder.ts'
import { ASCII_OF_WORD } from '../search/words.ts'
import { mix } from './hash-index.ts'
import { longer } from './byte-table.ts'
import { HASH_PRIME, HASH_SEED, filterOf, wordHash } from './token-filter.ts'

/** Longer tokens are in the filter and not listed. */
const TOKEN_BYTES_MAX = 64
const WITHOUT_TEXT = 0
const NOT_LISTED = 0xff
const NO_ROW = 0xffff_ffff

export interface CountedToken {
  /** 0: a word; else the number of the attribute whose value it is. */
  readonly attribute: number
  /** In lower case, one character a byte. */
  readonly text: string
  readonly rows: number
}

const SLOTS_AT_FIRST = 1 << 14
/** With more slots for each token than this, the slots in use are emptied one by one. */
const SLOTS_PER_TOKEN = 16

export class TokenTable {
  #hashes = new Uint32Array(SLOTS_AT_FIRST)
  /** By slot, where its hash is not 0: the number of the token. */
  #numbers = new Uint32Array(SLOTS_AT_FIRST)
  // By token, in the order in which they came.
  #keys = new Uint32Array(SLOTS_AT_FIRST / 2)
  #rows = new Uint32Array(SLOTS_AT_FIRST / 2)
  #lastRow = new Uint32Array(SLOTS_AT_FIRST / 2)
  #attributes = new Uint16Array(SLOTS_AT_FIRST / 2)
  #textAt = new Uint32Array(SLOTS_AT_FIRST / 2)
  /** WITHOUT_TEXT, NOT_LISTED, or the length of its text + 1. */
  #textBytes = new Uint8Array(SLOTS_AT_FIRST / 2)
  #count = 0
  #texts = Buffer.allocUnsafeSlow(1 << 16)
  #textsEnd = 0
  /** How many words the text has that `countWords` was called for last; their tokens, and where they begin. */
  wordCount = 0
  wordTokens = new Uint32Array(64)
  wordStarts = new Uint32Array(64)

  /** Adds a token for the filter alone. */
  add(hash: number): void {
    this.#tokenOf(hash)
  }

  /** Adds every word of a text, for the filter alone. */
  addWords(bytes: Uint8Array, start: number, end: number): void {
    let hash = HASH_SEED
    let length = 0
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!
      if (ASCII_OF_WORD[byte] === 1) {
        hash = Math.imul(hash ^ LOWER[byte]!, HASH_PRIME)
        length++
      } else if (length > 0) {
        this.add(mix(hash ^ length))
        hash = HASH_SEED
        length = 0
      }
    }
    if (length > 0) this.add(mix(hash ^ length))
  }

  /** Adds a word, for the filter alone. */
  addWord(bytes: Uint8Array, start: number, end: number): void {
    this.add(wordHash(bytes, start, end))
  }

  /** Counts every word of a text that searches look at. */
  countWords(bytes: Uint8Array, start: number, end: number, row: number): void {
    this.wordCount = 0
    let hash = HASH_SEED
    let wordStart = start
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!
      if (ASCII_OF_WORD[byte] === 1) hash = Math.imul(hash ^ LOWER[byte]!, HASH_PRIME)
      else {
        if (at > wordStart) this.#countWordOf(hash, bytes, start, wordStart, at, row, byte >= 128)
        hash = HASH_SEED
        wordStart = at + 1
      }
    }
    if (end > wordStart) this.#countWordOf(hash, bytes, start, wordStart, end, row, false)
  }

  #countWordOf(
    hash: number,
    bytes: Uint8Array,
    start: number,
    from: number,
    to: number,
    row: number,
    goesOn: boolean,
  ): void {
    const token = this.#tokenOf(mix(hash ^ (to - from)))
    if (goesOn || (from > start && bytes[from - 1]! >= 128)) this.#textBytes[token] = NOT_LISTED // T1
    else this.#countToken(token, 0, bytes, from, to, row)
    if (this.wordCount === this.wordTokens.length) {
      this.wordTokens = longer(this.wordTokens)
      this.wordStarts = longer(this.wordStarts)
    }
    this.wordTokens[this.wordCount] = token
    this.wordStarts[this.wordCount++] = from
  }

  /** Counts a word between ASCII characters, in a text that searches look at. */
  countWord(bytes: Uint8Array, start: number, end: number, row: number): void {
    this.#countToken(this.#tokenOf(wordHash(bytes, start, end)), 0, bytes, start, end, row)
  }

  /** Counts a token of an attribute, whose value is bytes [start, end). @returns the number of the token */
  count(hash: number, attribute: number, bytes: Uint8Array, start: number, end: number, row: number): number {
    const token = this.#tokenOf(hash)
    this.#countToken(token, attribute, bytes, start, end, row)
    return token
  }

  /** Counts tokens[from, to), which were counted before in this block, with the same texts. */
  countAgain(tokens: Uint32Array, from: number, to: number, row: number): void {
    const rows = this.#rows
    const lastRow = this.#lastRow
    for (let i = from; i < to; i++) {
      const token = tokens[i]!
      if (lastRow[token] === row) continue
      lastRow[token] = row
      rows[token]!++
    }
  }

  #countToken(token: number, attribute: number, bytes: Uint8Array, start: number, end: number, row: number): void {
    const known = this.#textBytes[token]!
    if (known === NOT_LISTED) return
    const length = end - start
    if (known === WITHOUT_TEXT) {
      if (length > TOKEN_BYTES_MAX) {
        this.#textBytes[token] = NOT_LISTED
        return
      }
      this.#keepText(token, attribute, bytes, start, end)
    } else if (!this.#isSame(token, attribute, bytes, start, length)) {
      this.#textBytes[token] = NOT_LISTED // T1
      return
    }
    if (this.#lastRow[token] === row) return
    this.#lastRow[token] = row
    this.#rows[token]!++
  }

  #keepText(token: number, attribute: number, bytes: Uint8Array, start: number, end: number): void {
    const length = end - start
    if (this.#textsEnd + length > this.#texts.byteLength) {
      const larger = Buffer.allocUnsafeSlow(2 * this.#texts.byteLength)
      this.#texts.copy(larger, 0, 0, this.#textsEnd)
      this.#texts = larger
    }
    const texts = this.#texts
    const at = this.#textsEnd
    for (let i = 0; i < length; i++) texts[at + i] = LOWER[bytes[start + i]!]!
    this.#attributes[token] = attribute
    this.#textAt[token] = at
    this.#textBytes[token] = length + 1
    this.#textsEnd = at + length
  }

  #isSame(token: number, attribute: number, bytes: Uint8Array, start: number, length: number): boolean {
    if (this.#textBytes[token] !== length + 1 || this.#attributes[token] !== attribute) return false
    const texts = this.#texts
    const at = this.#textAt[token]!
    for (let i = 0; i < length; i++) if (texts[at + i] !== LOWER[bytes[start + i]!]) return false
    return true
  }

  /** The bytes of the block's filter. */
  filter(): Buffer {
    return filterOf(this.#keys.subarray(0, this.#count))
  }

  /** At most `most` tokens: those with the most rows. A token of a single row is not listed. */
  listed(most: number): CountedToken[] {
    const tokens: number[] = []
    const isListed = (token: number): boolean =>
      this.#rows[token]! > 1 && this.#textBytes[token] !== NOT_LISTED && this.#textBytes[token] !== WITHOUT_TEXT
    for (let token = 0; token < this.#count; token++) if (isListed(token)) tokens.push(token)
    if (tokens.length > most) tokens.sort((a, b) => this.#rows[b]! - this.#rows[a]!).splice(most)
    return tokens.map((token) => {
      const at = this.#textAt[token]!
      const text = this.#texts.toString('latin1', at, at + this.#textBytes[token]! - 1)
      return { attribute: this.#attributes[token]!, text, rows: this.#rows[token]! }
    })
  }

  /** T2 */
  clear(): void {
    if (this.#count > this.#hashes.length / SLOTS_PER_TOKEN) this.#hashes.fill(0)
    else for (let token = 0; token < this.#count; token++) this.#hashes[this.#slotOf(this.#keys[token]!)] = 0
    this.#count = 0
    this.#textsEnd = 0
  }

  #tokenOf(hash: number): number {
    const hashes = this.#hashes
    const key = hash || 1
    const mask = hashes.length - 1
    let slot = key & mask
    for (let held = hashes[slot]!; held !== 0; held = hashes[slot]!) {
      if (held === key) return this.#numbers[slot]!
      slot = (slot + 1) & mask
    }
    if (2 * (this.#count + 1) > hashes.length) {
      this.#grow()
      return this.#tokenOf(hash)
    }
    const token = this.#count++
    hashes[slot] = key
    this.#keys[token] = key
    this.#numbers[slot] = token
    this.#rows[token] = 0
    this.#lastRow[token] = NO_ROW
    this.#textBytes[token] = WITHOUT_TEXT
    return token
  }

  /** The slot of a hash that is in the table. Slots before it may have been emptied. */
  #slotOf(key: number): number {
    const mask = this.#hashes.length - 1
    let slot = key & mask
    while (this.#hashes[slot] !== key) slot = (slot + 1) & mask
    return slot
  }

  #grow(): void {
    const slots = 2 * this.#hashes.length
    const mask = slots - 1
    this.#hashes = new Uint32Array(slots)
    this.#numbers = new Uint32Array(slots)
    for (let token = 0; token < this.#count; token++) {
      const key = this.#keys[token]!
      let slot = key & mask
      while (this.#hashes[slot] !== 0) slot = (slot + 1) & mask
      this.#hashes[slot] = key
      this.#numbers[slot] = token
    }
    this.#keys = longer(this.#keys)
    this.#rows = longer(this.#rows)
    this.#lastRow = longer(this.#lastRow)
    this.#attributes = longer(this.#attributes)
    this.#textAt = longer(this.#textAt)
    this.#textBytes = longer(this.#textBytes)
  }
}
