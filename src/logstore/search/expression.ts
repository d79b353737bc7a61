/**
 * A search: a tree of conditions on one record. The text and the object that clients send both become one. Cloned to the query threads.
 *
 * The limits below bound what it costs to read a search; the query's deadline bounds how long it runs.
 */

/** Characters of a search text. */
export const SEARCH_LENGTH_MAX = 10 * 1024
/** Conditions of one search. */
export const SEARCH_CONDITIONS_MAX = 128
/** Words of one phrase. */
export const SEARCH_PHRASE_WORDS_MAX = 256
/** Parentheses in parentheses. */
export const SEARCH_DEPTH_MAX = 32

/** The search is invalid; the message is for the client. */
export class SearchError extends Error {
  /** @param column from 1, in UTF-16 units; null: the problem has no single place */
  constructor(problem: string, column: number | null = null) {
    super(column === null ? problem : `${problem} (column ${column})`)
  }
}

export type Search =
  | { readonly kind: 'all' }
  | { readonly kind: 'and' | 'or'; readonly of: readonly Search[] }
  | { readonly kind: 'not'; readonly of: Search }
  | TextCondition
  | NameCondition
  /** Bounds are inclusive. */
  | { readonly kind: 'severity'; readonly min: number; readonly max: number }
  | { readonly kind: 'signal'; readonly signal: 'log' | 'trace' }

/** One of the record's texts has these words in a row. */
export interface TextCondition {
  readonly kind: 'text'
  /** Folded, at least one. */
  readonly words: readonly string[]
  /** The last word may be the beginning of one. */
  readonly prefix: boolean
}

/** A field of the record or an attribute, see names.ts. */
export interface NameCondition {
  readonly kind: 'name'
  readonly name: string
  readonly value: ValueCondition
}

export type Comparison = '<' | '<=' | '>' | '>='

export type ValueCondition =
  | { readonly kind: 'exists' }
  /** The whole value, folded; `number` is the text as a number, if it is one. */
  | { readonly kind: 'equals'; readonly text: string; readonly number: number | bigint | null }
  | { readonly kind: 'begins'; readonly text: string }
  | { readonly kind: 'compare'; readonly by: Comparison; readonly number: number | bigint }

const INTEGER = /^[+-]?[0-9]{1,40}$/
const DECIMAL = /^[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?$/

/** A number as people write it; whole numbers are exact. Null: the text is not a number. */
export function numberOf(text: string): number | bigint | null {
  if (INTEGER.test(text)) {
    const number = Number(text)
    return Number.isSafeInteger(number) ? number : BigInt(text.replace('+', ''))
  }
  return DECIMAL.test(text) ? Number(text) : null
}

const SEVERITIES: Readonly<Record<string, number>> = {
  trace: 1,
  debug: 5,
  info: 9,
  information: 9,
  notice: 10,
  warn: 13,
  warning: 13,
  error: 17,
  err: 17,
  critical: 21,
  fatal: 21,
}
/** Numbers of one name, such as ERROR to ERROR4. */
const SEVERITY_STEPS = 4

/** First and last number of a severity by its name, in any case; null when there is no such name. */
export function severityOf(name: string): { readonly min: number; readonly max: number } | null {
  const [, word = '', step] = /^([a-z]+)([2-4]?)$/.exec(name.toLowerCase()) ?? []
  const first = Object.hasOwn(SEVERITIES, word) ? SEVERITIES[word]! : null
  if (first === null) return null
  if (step !== '') return { min: first + Number(step) - 1, max: first + Number(step) - 1 }
  return { min: first, max: first - ((first - 1) % SEVERITY_STEPS) + SEVERITY_STEPS - 1 }
}
