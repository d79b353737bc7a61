/**
 * The tokens of the records of a block, and of what they belong to: for its filter (token-filter.ts F1 to F3), and the frequent ones with the number
 * of their rows (token-counts.ts K1).
 */
import { ProtobufView } from '../search/protobuf-view.ts'
import type { AttributePlace } from '../search/names.ts'
import { isAscii } from '../search/words.ts'
import { TEXT } from './otlp-fields.ts'
import type { Group } from './block-writer.ts'
import { ROOT_JSON, ROOT_RESOURCE, ROOT_SCOPE, RecordCutter } from './record-shape.ts'
import type { Column, Shape, Shapes } from './shapes.ts'
import { PAIRS, WORDS, isPairKey, pairToken } from './token-counts.ts'
import { keyHashOf, pairHash } from './token-filter.ts'
import { TokenTable } from './token-table.ts'
import { isKnown } from './verdict.ts'

const BACKSLASH = 0x5c
const NO_FILTER = Buffer.alloc(0)
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

interface Key {
  readonly number: number
  readonly text: string
  readonly hash: number
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
  /** Groups of the block, and what is known of those of the bundle; null: their pairs are not. */
  readonly #groups = new Set<Group>()
  readonly #pairs = new WeakMap<Group, readonly GroupPair[] | null>()
  readonly #keys: Key[] = []
  readonly #keyNumbers = new Map<string, Key>()
  /** By shape: whether each of its attributes is one text, number or boolean. */
  readonly #isPlain = new Map<Shape, boolean>()
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

  /** @param cut as it was cut, into the values of the shape */
  addRecord(cut: RecordCutter, shape: Shape, group: Group, isJson: boolean): void {
    const row = this.#row++
    this.#noteShape(shape)
    this.#countTexts(cut, shape, isJson, row)
    if (!this.#groups.has(group)) {
      this.#groups.add(group)
      this.#addPart(group.resource, isJson ? ROOT_JSON : ROOT_RESOURCE)
      this.#addPart(group.scope, isJson ? ROOT_JSON : ROOT_SCOPE)
    }
    let pairs = this.#pairs.get(group)
    if (pairs === undefined) this.#pairs.set(group, (pairs = isJson ? null : this.#pairsOf(group)))
    if (pairs === null) this.#counted &= ~PAIRS
    else for (const { key, value, hash } of pairs) this.#tokens.count(hash, key.number, value, 0, value.byteLength, row)
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
    this.#groups.clear()
    this.#row = 0
    this.#areKnown = true
    this.#counted = WORDS | PAIRS
    return { filter, counted, listed }
  }

  /** Texts and attributes are where a shape says only of shapes that are known, see `isKnown`. */
  #noteShape(shape: Shape): void {
    if (!isKnown(shape)) this.#counted = 0
    let isPlain = this.#isPlain.get(shape)
    if (isPlain === undefined) {
      const values = shape.columns.reduce((sum, column) => sum + (this.#columns[column]!.attribute === null ? 0 : 1), 0)
      this.#isPlain.set(shape, (isPlain = values === shape.attributes.length))
    }
    if (!isPlain) this.#counted &= ~PAIRS
  }

  #countTexts(cut: RecordCutter, { columns }: Shape, isJson: boolean, row: number): void {
    if (cut.isWhole) return this.#addTexts(this.#source, cut, isJson)
    for (let i = 0; i < cut.valueCount; i++) {
      if (cut.kinds[i] !== TEXT) continue
      const { isSearched, attribute } = this.#columns[columns[i]!]!
      const [start, end] = [cut.first[i]!, cut.second[i]!]
      if (isSearched) this.#tokens.countWords(this.#source, start, end, row)
      else this.#tokens.addWords(this.#source, start, end)
      if (attribute !== null) this.#countPair(attribute, start, end, row)
    }
  }

  #countPair(attribute: string, start: number, end: number, row: number): void {
    const key = this.#keyOf(attribute)
    if (key === null || !isAsciiIn(this.#source, start, end)) return
    this.#tokens.count(pairHash(key.hash, this.#source, start, end), key.number, this.#source, start, end, row)
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
  #pairsOf({ resource, scope, signal }: Group): readonly GroupPair[] | null {
    const view = new ProtobufView()
    const body = Buffer.concat([resource, scope])
    const scopeStart = resource.byteLength
    const none = { group: 0, recordStart: 0, recordEnd: 0 }
    const place = { ...none, resourceStart: 0, resourceEnd: scopeStart, scopeStart, scopeEnd: body.byteLength }
    view.seek(body, signal, place, 0)
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
    this.#cutter.cut(part, 0, part.byteLength, root)
    this.#addTexts(part, this.#cutter, root === ROOT_JSON)
  }

  #addTexts(bytes: Uint8Array, cut: RecordCutter, isJson: boolean): void {
    if (!this.#areKnown) return
    if (isJson && bytes.subarray(cut.first[0], cut.second[0]).includes(BACKSLASH)) this.#areKnown = false
    if (cut.isWhole && !isJson) this.#areKnown = false
    for (let i = 0; i < cut.valueCount; i++) {
      if (cut.kinds[i] === TEXT) this.#tokens.addWords(bytes, cut.first[i]!, cut.second[i]!)
    }
  }
}

function isAsciiIn(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (bytes[at]! >= 128) return false
  return true
}
