/**
 * Counts the tokens of one column of texts of a block. It keeps the words of each distinct text, and of each form the words that are no variables. So most
 * texts are counted without reading their bytes.
 */
import { pairHash } from './token-filter.ts'
import type { TextColumnWriter } from './text-column-writer.ts'
import { TokenLists } from './token-lists.ts'
import type { TokenTable } from './token-table.ts'

/** The key of an attribute. */
export interface Key {
  readonly number: number
  readonly text: string
  readonly hash: number
}

export class ColumnTokens {
  readonly #tokens: TokenTable
  readonly #isSearched: boolean
  readonly #keyOf: (() => Key | null) | null
  /** Undefined: `#keyOf` was not called in this block yet. */
  #key: Key | null | undefined
  readonly #tokensOfValues = new TokenLists()
  readonly #tokensOfForms = new TokenLists()
  isUsed = false

  /** @param keyOf gives the key of the attribute whose values the texts are, or null if its pairs are not counted; null: there is no attribute */
  constructor(tokens: TokenTable, isSearched: boolean, keyOf: (() => Key | null) | null) {
    this.#tokens = tokens
    this.#isSearched = isSearched
    this.#keyOf = keyOf
  }

  /** Forgets the texts of the block. */
  clear(): void {
    this.isUsed = false
    this.#key = undefined
    this.#tokensOfValues.clear()
    this.#tokensOfForms.clear()
  }

  /** Counts the text that was added to the column last. */
  add(column: TextColumnWriter, source: Uint8Array, start: number, end: number, row: number): void {
    this.isUsed = true
    const list = column.number
    if (!column.hasForm) {
      const lists = this.#tokensOfValues
      if (lists.has(list)) return this.#tokens.countAgain(lists.tokens, lists.from(list), lists.to(list), row)
      lists.begin(list)
      this.#countWords(source, start, end, row)
      if (this.#isSearched)
        for (let i = 0; i < this.#tokens.wordCount; i++) lists.push(list, this.#tokens.wordTokens[i]!)
      const pair = this.#countPair(source, start, end, row)
      if (pair >= 0) lists.push(list, pair)
      return
    }
    if (column.isWhole) this.#countWords(source, start, end, row)
    else if (this.#tokensOfForms.has(list)) this.#countVariables(column, source, row)
    else {
      this.#countWords(source, start, end, row)
      this.#noteConstants(column)
    }
    this.#countPair(source, start, end, row)
  }

  #countWords(source: Uint8Array, start: number, end: number, row: number): void {
    if (this.#isSearched) this.#tokens.countWords(source, start, end, row)
    else this.#tokens.addWords(source, start, end)
  }

  /** Keeps the words of the text that was counted last, without the variables. */
  #noteConstants({ number, variables }: TextColumnWriter): void {
    const lists = this.#tokensOfForms
    lists.begin(number)
    if (!this.#isSearched) return
    const { wordCount, wordTokens, wordStarts } = this.#tokens
    for (let i = 0, variable = 0; i < wordCount; i++) {
      if (variable < variables.count && wordStarts[i] === variables.starts[variable]) variable++
      else lists.push(number, wordTokens[i]!)
    }
  }

  #countVariables({ number, variables }: TextColumnWriter, source: Uint8Array, row: number): void {
    const tokens = this.#tokens
    const lists = this.#tokensOfForms
    tokens.countAgain(lists.tokens, lists.from(number), lists.to(number), row)
    const { count, starts, ends } = variables
    for (let i = 0; i < count; i++) {
      if (this.#isSearched) tokens.countWord(source, starts[i]!, ends[i]!, row)
      else tokens.addWord(source, starts[i]!, ends[i]!)
    }
  }

  /** Counts the pair of key and text. @returns the number of its token; -1: the pair is not counted */
  #countPair(source: Uint8Array, start: number, end: number, row: number): number {
    if (this.#keyOf === null) return -1
    if (this.#key === undefined) this.#key = this.#keyOf()
    if (this.#key === null || !isAsciiIn(source, start, end)) return -1
    const { number, hash } = this.#key
    return this.#tokens.count(pairHash(hash, source, start, end), number, source, start, end, row)
  }
}

function isAsciiIn(bytes: Uint8Array, start: number, end: number): boolean {
  let bits = 0
  for (let at = start; at < end; at++) bits |= bytes[at]!
  return bits < 128
}
