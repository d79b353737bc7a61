/** The words of the records of a block, and of what they belong to, for its filter (token-filter.ts F1, F2). */
import { TEXT } from './otlp-fields.ts'
import type { Group } from './block-writer.ts'
import { ROOT_JSON, ROOT_RESOURCE, ROOT_SCOPE, RecordCutter } from './record-shape.ts'
import { TokenSet } from './token-filter.ts'

const BACKSLASH = 0x5c
const NO_FILTER = Buffer.alloc(0)

export class BlockTokens {
  readonly #source: Buffer
  readonly #cutter = new RecordCutter()
  readonly #tokens = new TokenSet()
  readonly #groups = new Set<Group>()
  #areKnown = true

  /** @param source what the records stand in */
  constructor(source: Buffer) {
    this.#source = source
  }

  /** @param cut as it was cut */
  addRecord(cut: RecordCutter, group: Group, isJson: boolean): void {
    this.#addTexts(this.#source, cut, isJson)
    if (this.#groups.has(group)) return
    this.#groups.add(group)
    this.#addPart(group.resource, isJson ? ROOT_JSON : ROOT_RESOURCE)
    this.#addPart(group.scope, isJson ? ROOT_JSON : ROOT_SCOPE)
  }

  /** Empty: any word may be in the block. */
  finish(): Buffer {
    const filter = this.#areKnown ? this.#tokens.filter() : null
    this.#tokens.clear()
    this.#groups.clear()
    this.#areKnown = true
    return filter === null ? NO_FILTER : Buffer.from(filter.buffer)
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
