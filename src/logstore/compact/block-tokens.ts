/**
 * Collects the tokens of a block's records and of their resources and scopes. All go into the filter of the block (token-filter.ts F1 to F3); frequent ones
 * are also listed with the number of their rows (token-counts.ts K1).
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
/** Most tokens that are listed for one block; a block of usual logs has some hundreds. */
const LISTED_MAX = 2048
/** Most attribute keys of a bundle that get numbers. Blocks with further keys count no pairs. */
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
  /** By group of the block: the tokens of its pairs. */
  readonly #groups = new Map<Group, Uint32Array>()
  /** By group of the bundle: its pairs; null: they are not known. */
  readonly #pairs = new WeakMap<Group, readonly GroupPair[] | null>()
  #group: Group | null = null
  #groupTokens: Uint32Array = NO_TOKENS
  readonly #keys: Key[] = []
  readonly #keyNumbers = new Map<string, Key>()
  /** By shape: which of WORDS and PAIRS are counted in its records. */
  readonly #countedOf = new Map<Shape, number>()
  #shape: Shape | null = null
  #row = 0
  #areKnown = true
  #counted = WORDS | PAIRS

  constructor(shapes: Shapes) {
    this.#columns = shapes.columns
  }

  /** Call it before the first record of a block. @param source has the bytes of its records */
  begin(source: Buffer): void {
    this.#source = source
  }

  /** Counts a text of the record that `addRecord` adds next. Its column has the text already. */
  countText(number: number, column: TextColumnWriter, start: number, end: number): void {
    const tokens = (this.#texts[number] ??= this.#columnOf(number))
    tokens.add(column, this.#source, start, end, this.#row)
  }

  #columnOf(number: number): ColumnTokens {
    while (this.#texts.length < number) this.#texts.push(undefined)
    const { isSearched, attribute } = this.#columns[number]!
    return new ColumnTokens(this.#tokens, isSearched, attribute === null ? null : () => this.#keyOf(attribute))
  }

  /** Call it after `countText` for all texts of the record. @param cut the record, cut into the values of the shape */
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

  /** Words are counted only in shapes that are known (`isKnown`), and pairs only if each attribute of the shape is a single value as well. */
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

  /** Null: no search asks for pairs with such a key, or there are too many keys. */
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

  /** Null: an attribute of the resource or scope is a list or a map, which may hold a pair, or there are too many keys. */
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
