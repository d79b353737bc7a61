/**
 * The search text that people write, read into a tree of conditions.
 *
 *   search   any of:  all of OR all of …
 *   all of   conditions one after the other; AND between them says the same
 *   one      -one or NOT one · ( search ) · word · wor* · "several words" · * · key:value
 *   value    word · wor* · * (there is one) · "whole value" · >1 >=1 <1 <=1
 *
 * A key is a word that begins with a letter or underscore, or a text in quotes. Inside quotes \" and \\ stand for " and \.
 */
import {
  SEARCH_CONDITIONS_MAX,
  SEARCH_DEPTH_MAX,
  SEARCH_LENGTH_MAX,
  SEARCH_PHRASE_WORDS_MAX,
  SearchError,
} from './expression.ts'
import type { Search, TextCondition } from './expression.ts'
import { comparedCondition, namedCondition } from './names.ts'
import { wordsOf } from './words.ts'

/** @throws SearchError */
export function parseSearch(text: string): Search {
  if (text.length > SEARCH_LENGTH_MAX) throw new SearchError(`a search has at most ${SEARCH_LENGTH_MAX} characters`)
  return new Parser(text).whole()
}

const ENDS_WORD = /[\s()"]/
const KEY = /^[\p{L}_][^\s()":]*$/u
const COMPARISON = /^(>=|<=|>|<)/

class Parser {
  readonly #text: string
  #at = 0
  #conditions = 0

  constructor(text: string) {
    this.#text = text
  }

  whole(): Search {
    this.#skipSpace()
    if (this.#at === this.#text.length) return { kind: 'all' }
    const search = this.#anyOf(0)
    if (this.#at < this.#text.length) this.#fail('a ) without its (')
    return search
  }

  #anyOf(depth: number): Search {
    const of = [this.#allOf(depth)]
    while (this.#takeWord('OR')) of.push(this.#allOf(depth))
    return of.length === 1 ? of[0]! : { kind: 'or', of }
  }

  #allOf(depth: number): Search {
    const of: Search[] = [this.#one(depth)]
    for (;;) {
      const and = this.#takeWord('AND')
      if (!and && (this.#at === this.#text.length || this.#text[this.#at] === ')' || this.#isNext('OR'))) break
      of.push(this.#one(depth))
    }
    return of.length === 1 ? of[0]! : { kind: 'and', of }
  }

  #one(depth: number): Search {
    const start = this.#at
    let isNot = false
    for (;;) {
      if (this.#takeWord('NOT')) isNot = !isNot
      else if (this.#text[this.#at] === '-' && !/[\s)]/.test(this.#text[this.#at + 1] ?? ' ')) {
        this.#at++
        isNot = !isNot
      } else break
    }
    if (this.#at === this.#text.length || this.#text[this.#at] === ')' || this.#isNext('OR') || this.#isNext('AND')) {
      this.#fail('something to look for is expected here')
    }
    if (++this.#conditions > SEARCH_CONDITIONS_MAX) {
      this.#fail(`a search has at most ${SEARCH_CONDITIONS_MAX} conditions`, start)
    }
    const search = this.#text[this.#at] === '(' ? this.#group(depth) : this.#condition()
    this.#skipSpace()
    return isNot ? { kind: 'not', of: search } : search
  }

  #group(depth: number): Search {
    const start = this.#at
    if (depth === SEARCH_DEPTH_MAX) this.#fail(`parentheses are nested at most ${SEARCH_DEPTH_MAX} deep`)
    this.#at++
    this.#skipSpace()
    const search = this.#anyOf(depth + 1)
    if (this.#text[this.#at] !== ')') this.#fail('this ( is not closed', start)
    this.#at++
    return search
  }

  #condition(): Search {
    const start = this.#at
    if (this.#text[start] === '"') {
      const text = this.#quoted()
      if (this.#text[this.#at] === ':') return this.#named(text, start)
      return this.#textCondition(text, false, start)
    }
    const word = this.#word()
    const colon = word.indexOf(':')
    if (colon > 0 && KEY.test(word.slice(0, colon)) && !word.startsWith('//', colon + 1)) {
      this.#at = start + colon
      return this.#named(word.slice(0, colon), start)
    }
    if (word === '*') return { kind: 'all' }
    return this.#textCondition(...this.#beginning(word, start), start)
  }

  /** Reads the value of a name; the parser is at the colon. */
  #named(name: string, start: number): Search {
    this.#at++
    const valueAt = this.#at
    if (this.#text[valueAt] === '"') {
      const text = this.#quoted()
      return this.#checked(() => namedCondition(name, { kind: 'equals', text }), start)
    }
    const word = this.#word()
    if (word === '') this.#fail('a value is expected after the colon', valueAt)
    if (word === '*') return this.#checked(() => namedCondition(name, { kind: 'exists' }), start)
    const by = COMPARISON.exec(word)?.[0] as '<' | '<=' | '>' | '>=' | undefined // the pattern's alternatives
    if (by !== undefined) {
      const value = word.slice(by.length)
      return this.#checked(() => comparedCondition(name, by, value), valueAt)
    }
    const [text, prefix] = this.#beginning(word, valueAt)
    return this.#checked(() => namedCondition(name, { kind: prefix ? 'begins' : 'equals', text }), start)
  }

  /** The word without a * at its end. @returns `prefix`: whether it has one */
  #beginning(word: string, start: number): [text: string, prefix: boolean] {
    const star = word.indexOf('*')
    if (star >= 0 && star < word.length - 1) this.#fail('a * stands only at the end of a word', start + star)
    return star < 0 ? [word, false] : [word.slice(0, star), true]
  }

  #textCondition(text: string, prefix: boolean, start: number): TextCondition {
    const words = wordsOf(text)
    if (words.length === 0) this.#fail('there is no word in this to look for', start)
    if (words.length > SEARCH_PHRASE_WORDS_MAX) {
      this.#fail(`a phrase has at most ${SEARCH_PHRASE_WORDS_MAX} words`, start)
    }
    return { kind: 'text', words, prefix }
  }

  /** Reads a text in quotes; the parser is at the opening quote. */
  #quoted(): string {
    const start = this.#at
    let text = ''
    for (let at = start + 1; at < this.#text.length; at++) {
      const character = this.#text[at]!
      if (character === '"') {
        this.#at = at + 1
        return text
      }
      const next = this.#text[at + 1]
      if (character === '\\' && (next === '"' || next === '\\')) {
        text += next
        at++
      } else text += character
    }
    return this.#fail('this quote is not closed', start)
  }

  #word(): string {
    const start = this.#at
    while (this.#at < this.#text.length && !ENDS_WORD.test(this.#text[this.#at]!)) this.#at++
    return this.#text.slice(start, this.#at)
  }

  #isNext(word: string): boolean {
    return this.#text.startsWith(word, this.#at) && ENDS_WORD.test(this.#text[this.#at + word.length] ?? ' ')
  }

  #takeWord(word: string): boolean {
    if (!this.#isNext(word)) return false
    this.#at += word.length
    this.#skipSpace()
    return true
  }

  #skipSpace(): void {
    while (this.#at < this.#text.length && /\s/.test(this.#text[this.#at]!)) this.#at++
  }

  /** Adds the place of an invalid condition to its error. */
  #checked(make: () => Search, at: number): Search {
    try {
      return make()
    } catch (error) {
      if (error instanceof SearchError) this.#fail(error.message, at)
      throw error
    }
  }

  #fail(problem: string, at = this.#at): never {
    throw new SearchError(problem, at + 1)
  }
}
