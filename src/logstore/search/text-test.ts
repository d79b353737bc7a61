/** Whether a text has some words in a row. */
import { ASCII_OF_WORD, isAscii, someWord } from './words.ts'
import { ByteFinder, LOWER } from './byte-finder.ts'
import type { TextCondition } from './expression.ts'

export class TextTest {
  readonly #words: readonly string[]
  readonly #prefix: boolean
  /** By number of words found in a row: how many of the last ones still count when the next word is another one. */
  readonly #fallback: Uint16Array
  /** Finds the longest word in ASCII; null: there is none. */
  readonly #finder: ByteFinder | null
  /** The only word, if it is ASCII; else null. */
  readonly #single: Uint8Array | null

  constructor({ words, prefix }: TextCondition) {
    this.#words = words
    this.#prefix = prefix
    this.#fallback = fallbacks(words)
    const needle = needleOf(words)
    this.#finder = needle === null ? null : new ByteFinder(needle)
    this.#single = words.length === 1 && needle !== null ? Buffer.from(needle, 'latin1') : null
  }

  /** Source: Knuth, Morris, Pratt, "Fast pattern matching in strings" (1977), with words for characters. */
  inText(text: string): boolean {
    const words = this.#words
    const last = words.length - 1
    let found = 0
    return someWord(text, (word) => {
      while (found > 0 && !this.#fits(found, word)) found = this.#fallback[found]!
      if (this.#fits(found, word)) found++
      return found > last
    })
  }

  /** Likewise, for text in UTF-8. @param from the longest word in ASCII does not begin before it */
  inBytes(bytes: Uint8Array, start: number, end: number, from = start): boolean {
    const finder = this.#finder
    if (finder === null) return this.inText(utf8(bytes, start, end))
    if (from >= end) return false
    let at = finder.next(bytes, from > start ? from : start, end)
    if (at < 0) return false
    const single = this.#single
    if (single === null) return this.inText(utf8(bytes, start, end))
    for (; at >= 0; at = finder.next(bytes, at + 1, end)) {
      if (at > start && ASCII_OF_WORD[bytes[at - 1]!] === 1) continue
      const wordEnd: number = at + single.length
      if (wordEnd > end || !isSame(bytes, at, single)) continue
      const before = at > start ? bytes[at - 1]! : 0
      const after = wordEnd < end ? bytes[wordEnd]! : 0
      // A character beyond ASCII beside it may belong to the word or not.
      if (before >= 128 || (after >= 128 && !this.#prefix)) return this.inText(utf8(bytes, start, end))
      if (this.#prefix || ASCII_OF_WORD[after] === 0) return true
    }
    return false
  }

  #fits(at: number, word: string): boolean {
    const wanted = this.#words[at]!
    return this.#prefix && at === this.#words.length - 1 ? word.startsWith(wanted) : word === wanted
  }
}

function fallbacks(words: readonly string[]): Uint16Array {
  const fallback = new Uint16Array(words.length + 1)
  for (let found = 1, border = 0; found < words.length - 1; found++) {
    while (border > 0 && words[found] !== words[border]) border = fallback[border]!
    if (words[found] === words[border]) border++
    fallback[found + 1] = border
  }
  return fallback
}

/** The longest word that is ASCII, which stands in the bytes of every text that has the words; null: none. */
export function needleOf(words: readonly string[]): string | null {
  let longest = ''
  for (const word of words) if (word.length > longest.length && isAscii(word)) longest = word
  return longest === '' ? null : longest
}

function isSame(bytes: Uint8Array, at: number, word: Uint8Array): boolean {
  for (let i = 0; i < word.length; i++) if (LOWER[bytes[at + i]!] !== word[i]) return false
  return true
}

export const utf8 = (bytes: Uint8Array, start: number, end: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString()
