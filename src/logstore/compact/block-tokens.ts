/**
 * The tokens of the records of a block, and of what they belong to: for its filter (token-filter.ts F1 to F3), and the frequent ones with the number
 * of their rows (token-counts.ts K1).
 */
import type { AttributePlace } from '../search/names.ts'
import { isAscii } from '../search/words.ts'
import { TEXT } from './otlp-fields.ts'
import { viewOfProtobufGroup } from './group-view.ts'
import type { Group } from './block-writer.ts'
import { ColumnTokens } from './column-tokens.ts'
import type { Key } from './column-tokens.ts'
import { ROOT_JSON, ROOT_RESOURCE, ROOT_SCOPE, RecordCutter } from './record-shape.ts'
import type { Column, Shape, Shapes } from './shapes.ts'
import { PAIRS, WORDS, isPairKey, pairToken } from './token-counts.ts'
import { keyHashOf, pairHash } from './token-filter.ts'
import type { TextColumnWriter } from './text-column-writer.ts'
import { TokenTable } from './token-table.ts'
import { isKnown } from './verdict.ts'

const BACKSLASH = 0x5c
const NO_FILTER = Buffer.alloc(0)
const NO_TOKENS = new Uint32Array(0)
/** Tokens that are listed of one block: a block of usual logs has some hundreds. */
const LISTED_MAX = 2048
/** Keys that are told apart; of a bundle with more, the others have no pairs. */
const KEYS_MAX = 0xffff

export interface FinishedTokens {
  /** Empty: any word may be in the block. */
  readonly filter: Buffer
  /** Which of WORDS and PAIRS are counted. */
  readonly counted: number
  readonly listed: readonly (readonly [token: string, rows: number])[]
}

interface GroupPair {
  readonly key: Key
  readonly value: Buffer
  readonly hash: number
}

export class BlockTokens {
  #source: Buffer = Buffer.alloc(0)
  readonly #columns: readonly Column[]
  readonly #cutter = new RecordCutter()
  readonly #tokens = new TokenTable()
  /** By column. */
  readonly #texts: (ColumnTokens | undefined)[] = []
  /** Tokens of the pairs of each group of the block, and what is known of the groups of the bundle; null: their pairs are not. */
  readonly #groups = new Map<Group, Uint32Array>()
  readonly #pairs = new WeakMap<Group, readonly GroupPair[] | null>()
  #group: Group | null = null
  #groupTokens: Uint32Array = NO_TOKENS
  readonly #keys: Key[] = []
  readonly #keyNumbers = new Map<string, Key>()
  /** By shape: which of WORDS and PAIRS are counted of its records. */
  readonly #countedOf = new Map<Shape, number>()
  #shape: Shape | null = null
  #row = 0
  #areKnown = true
  #counted = WORDS | PAIRS

  constructor(shapes: Shapes) {
    this.#columns = shapes.columns
  }

  /** Before the first record of a block. @param source what its records stand in */
  begin(source: Buffer): void {
    this.#source = source
  }

  /** A text of the record that is added next, which was added to its column. */
  countText(number: number, column: TextColumnWriter, start: number, end: number): void {
    const tokens = (this.#texts[number] ??= this.#columnOf(number))
    tokens.add(column, this.#source, start, end, this.#row)
  }

  #columnOf(number: number): ColumnTokens {
    while (this.#texts.length < number) this.#texts.push(undefined)
    const { isSearched, attribute } = this.#columns[number]!
    return new ColumnTokens(this.#tokens, isSearched, attribute === null ? null : () => this.#keyOf(attribute))
  }

  /** @param cut as it was cut, into the values of the shape; its texts were counted before */
  addRecord(cut: RecordCutter, shape: Shape, group: Group, isJson: boolean): void {
    if (shape !== this.#shape) this.#noteShape(shape)
    if (cut.isWhole) this.#noteWhole(this.#source, cut, isJson)
    if (group !== this.#group) this.#noteGroup(group, isJson)
    this.#tokens.countAgain(this.#groupTokens, 0, this.#groupTokens.length, this.#row++)
  }

  #noteGroup(group: Group, isJson: boolean): void {
    this.#group = group
    let tokens = this.#groups.get(group)
    if (tokens === undefined) {
      this.#addPart(group.resource, isJson ? ROOT_JSON : ROOT_RESOURCE)
      this.#addPart(group.scope, isJson ? ROOT_JSON : ROOT_SCOPE)
      let pairs = this.#pairs.get(group)
      if (pairs === undefined) this.#pairs.set(group, (pairs = isJson ? null : this.#pairsOf(group)))
      if (pairs === null) this.#counted &= ~PAIRS
      tokens = Uint32Array.from(pairs ?? [], ({ key, value, hash }) =>
        this.#tokens.count(hash, key.number, value, 0, value.byteLength, this.#row),
      )
      this.#groups.set(group, tokens)
    }
    this.#groupTokens = tokens
  }

  finish(): FinishedTokens {
    const filter = this.#areKnown ? this.#tokens.filter() : NO_FILTER
    const counted = this.#areKnown ? this.#counted : 0
    const listed: [token: string, rows: number][] = []
    for (const { attribute, text, rows } of this.#tokens.listed(LISTED_MAX)) {
      const isCounted = (counted & (attribute === 0 ? WORDS : PAIRS)) !== 0
      if (isCounted) listed.push([attribute === 0 ? text : pairToken(this.#keys[attribute - 1]!.text, text), rows])
    }
    this.#tokens.clear()
    for (const [column, texts] of this.#texts.entries()) {
      if (texts?.isUsed === true) texts.clear()
      else this.#texts[column] = undefined // else the memory of all columns would be kept
    }
    this.#groups.clear()
    this.#group = null
    this.#shape = null
    this.#row = 0
    this.#areKnown = true
    this.#counted = WORDS | PAIRS
    return { filter, counted, listed }
  }

  /** Texts and attributes are where a shape says only of shapes that are known, see `isKnown`; pairs only where each attribute is one value. */
  #noteShape(shape: Shape): void {
    this.#shape = shape
    let counted = this.#countedOf.get(shape)
    if (counted === undefined) {
      const values = shape.columns.reduce((sum, column) => sum + (this.#columns[column]!.attribute === null ? 0 : 1), 0)
      counted = !isKnown(shape) ? 0 : values === shape.attributes.length ? WORDS | PAIRS : WORDS
      this.#countedOf.set(shape, counted)
    }
    this.#counted &= counted
  }

  /** Null: no search that asks for pairs names such a key, or there are too many. */
  #keyOf(text: string): Key | null {
    const known = this.#keyNumbers.get(text)
    if (known !== undefined) return known
    if (!isPairKey(text)) return null
    if (this.#keys.length === KEYS_MAX) {
      this.#counted &= ~PAIRS
      return null
    }
    const key = { number: this.#keys.length + 1, text, hash: keyHashOf(text) }
    this.#keys.push(key)
    this.#keyNumbers.set(text, key)
    return key
  }

  /** Null: an attribute of its resource or scope is a list or a map, in which a pair may stand, or there are too many keys. */
  #pairsOf(group: Group): readonly GroupPair[] | null {
    const view = viewOfProtobufGroup(group)
    const pairs: GroupPair[] = []
    for (const part of ['resource', 'scope'] satisfies AttributePlace[]) {
      for (const [name, value] of view.attributes(part)) {
        const isDeeper = typeof value === 'object' && value !== null && !(value instanceof Uint8Array)
        if (isDeeper || this.#keys.length === KEYS_MAX) return null
        if (typeof value !== 'string' || !isAscii(value)) continue
        const key = this.#keyOf(name)
        const bytes = Buffer.from(value, 'latin1')
        if (key !== null) pairs.push({ key, value: bytes, hash: pairHash(key.hash, bytes, 0, bytes.byteLength) })
      }
    }
    return pairs
  }

  #addPart(part: Uint8Array, root: number): void {
    const cut = this.#cutter
    cut.cut(part, 0, part.byteLength, root)
    this.#noteWhole(part, cut, root === ROOT_JSON)
    for (let i = 0; i < cut.valueCount; i++) {
      if (cut.kinds[i] === TEXT) this.#tokens.addWords(part, cut.first[i]!, cut.second[i]!)
    }
  }

  /** F2 of token-filter.ts */
  #noteWhole(bytes: Uint8Array, cut: RecordCutter, isJson: boolean): void {
    if (!this.#areKnown || !cut.isWhole) return
    if (!isJson || bytes.subarray(cut.first[0], cut.second[0]).includes(BACKSLASH)) this.#areKnown = false
  }
}
