/**
 * The tokens of a block, each once, with the number of rows that have it. A token is a word, or an attribute with its value. All of them are in the
 * filter of the block; those that many rows have are listed with their number (token-counts.ts).
 *
 * T1  a number is exact or not listed: two tokens of one hash, a token that is long, and a word beside a character beyond ASCII are not listed
 */
import { LOWER } from '../search/byte-finder.ts'
import { ASCII_OF_WORD } from '../search/words.ts'
import { mix } from './hash-index.ts'
import { HASH_PRIME, HASH_SEED, filterOf } from './token-filter.ts'

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

export class TokenTable {
  #hashes = new Uint32Array(1 << 14)
  /** By slot, where its hash is not 0. */
  #rows = new Uint32Array(1 << 14)
  #lastRow = new Uint32Array(1 << 14)
  #attributes = new Uint16Array(1 << 14)
  #textAt = new Uint32Array(1 << 14)
  /** WITHOUT_TEXT, NOT_LISTED, or so many bytes and one. */
  #textBytes = new Uint8Array(1 << 14)
  #count = 0
  #texts = Buffer.allocUnsafeSlow(1 << 16)
  #textsEnd = 0

  /** A token for the filter alone. */
  add(hash: number): void {
    this.#slotOf(hash)
  }

  /** Every word of a text, for the filter alone. */
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

  /** Every word of a text that searches look at. */
  countWords(bytes: Uint8Array, start: number, end: number, row: number): void {
    let hash = HASH_SEED
    let wordStart = start
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!
      if (ASCII_OF_WORD[byte] === 1) hash = Math.imul(hash ^ LOWER[byte]!, HASH_PRIME)
      else {
        if (at > wordStart) this.#countWord(hash, bytes, start, wordStart, at, row, byte >= 128)
        hash = HASH_SEED
        wordStart = at + 1
      }
    }
    if (end > wordStart) this.#countWord(hash, bytes, start, wordStart, end, row, false)
  }

  #countWord(
    hash: number,
    bytes: Uint8Array,
    start: number,
    from: number,
    to: number,
    row: number,
    goesOn: boolean,
  ): void {
    const slot = this.#slotOf(mix(hash ^ (to - from)))
    if (goesOn || (from > start && bytes[from - 1]! >= 128)) this.#textBytes[slot] = NOT_LISTED // T1
    else this.#count1(slot, 0, bytes, from, to, row)
  }

  /** A token of an attribute: its value stands in [start, end). */
  count(hash: number, attribute: number, bytes: Uint8Array, start: number, end: number, row: number): void {
    this.#count1(this.#slotOf(hash), attribute, bytes, start, end, row)
  }

  #count1(slot: number, attribute: number, bytes: Uint8Array, start: number, end: number, row: number): void {
    const known = this.#textBytes[slot]!
    if (known === NOT_LISTED) return
    const length = end - start
    if (known === WITHOUT_TEXT) {
      if (length > TOKEN_BYTES_MAX) {
        this.#textBytes[slot] = NOT_LISTED
        return
      }
      this.#keepText(slot, attribute, bytes, start, end)
    } else if (!this.#isSame(slot, attribute, bytes, start, length)) {
      this.#textBytes[slot] = NOT_LISTED // T1
      return
    }
    if (this.#lastRow[slot] === row) return
    this.#lastRow[slot] = row
    this.#rows[slot]!++
  }

  #keepText(slot: number, attribute: number, bytes: Uint8Array, start: number, end: number): void {
    const length = end - start
    if (this.#textsEnd + length > this.#texts.byteLength) {
      const larger = Buffer.allocUnsafeSlow(2 * this.#texts.byteLength)
      this.#texts.copy(larger, 0, 0, this.#textsEnd)
      this.#texts = larger
    }
    for (let i = 0; i < length; i++) this.#texts[this.#textsEnd + i] = LOWER[bytes[start + i]!]!
    this.#attributes[slot] = attribute
    this.#textAt[slot] = this.#textsEnd
    this.#textBytes[slot] = length + 1
    this.#textsEnd += length
  }

  #isSame(slot: number, attribute: number, bytes: Uint8Array, start: number, length: number): boolean {
    if (this.#textBytes[slot] !== length + 1 || this.#attributes[slot] !== attribute) return false
    const texts = this.#texts
    const at = this.#textAt[slot]!
    for (let i = 0; i < length; i++) if (texts[at + i] !== LOWER[bytes[start + i]!]) return false
    return true
  }

  /** The bytes of the block's filter. */
  filter(): Buffer {
    return filterOf(this.#hashes, this.#count)
  }

  /** At most `most` tokens: those that the most rows have, and no token of one row. */
  listed(most: number): CountedToken[] {
    const slots: number[] = []
    const isListed = (slot: number): boolean =>
      this.#rows[slot]! > 1 && this.#textBytes[slot] !== NOT_LISTED && this.#textBytes[slot] !== WITHOUT_TEXT
    for (let slot = 0; slot < this.#hashes.length; slot++) {
      if (this.#hashes[slot] !== 0 && isListed(slot)) slots.push(slot)
    }
    if (slots.length > most) slots.sort((a, b) => this.#rows[b]! - this.#rows[a]!).splice(most)
    return slots.map((slot) => {
      const at = this.#textAt[slot]!
      const text = this.#texts.toString('latin1', at, at + this.#textBytes[slot]! - 1)
      return { attribute: this.#attributes[slot]!, text, rows: this.#rows[slot]! }
    })
  }

  clear(): void {
    this.#hashes.fill(0)
    this.#count = 0
    this.#textsEnd = 0
  }

  #slotOf(hash: number): number {
    const hashes = this.#hashes
    const key = hash || 1
    const mask = hashes.length - 1
    let slot = key & mask
    for (let held = hashes[slot]!; held !== 0; held = hashes[slot]!) {
      if (held === key) return slot
      slot = (slot + 1) & mask
    }
    if (2 * (this.#count + 1) > hashes.length) {
      this.#grow()
      return this.#slotOf(hash)
    }
    this.#count++
    hashes[slot] = key
    this.#rows[slot] = 0
    this.#lastRow[slot] = NO_ROW
    this.#textBytes[slot] = WITHOUT_TEXT
    return slot
  }

  #grow(): void {
    const [hashes, rows, lastRow, attributes, textAt, textBytes] = [
      this.#hashes,
      this.#rows,
      this.#lastRow,
      this.#attributes,
      this.#textAt,
      this.#textBytes,
    ]
    const slots = 2 * hashes.length
    this.#hashes = new Uint32Array(slots)
    this.#rows = new Uint32Array(slots)
    this.#lastRow = new Uint32Array(slots)
    this.#attributes = new Uint16Array(slots)
    this.#textAt = new Uint32Array(slots)
    this.#textBytes = new Uint8Array(slots)
    this.#count = 0
    for (let old = 0; old < hashes.length; old++) {
      if (hashes[old] === 0) continue
      const slot = this.#slotOf(hashes[old]!)
      this.#rows[slot] = rows[old]!
      this.#lastRow[slot] = lastRow[old]!
      this.#attributes[slot] = attributes[old]!
      this.#textAt[slot] = textAt[old]!
      this.#textBytes[slot] = textBytes[old]!
    }
  }
}
