/** The operations of a message of text, one by one: the object that it is, or those of its list. */
import { LongString } from '../../../native-free-codecs/json-reader.ts'
import type { MessageWork } from './inbox.ts'

const ITEM_COST = 8
const VALUE_COST = 1
const STRING_COST = 2
const STRING_BYTES_PER_COST = 1024

export interface TextItemsParts {
  /** Asked before each. False: nothing more is to be done. */
  readonly mayBegin: () => boolean
  readonly begin: (item: unknown) => void
}

export class TextItems implements MessageWork {
  readonly #items: readonly unknown[]
  readonly #parts: TextItemsParts
  #next = 0

  /** @param value of the whole message */
  constructor(value: unknown, parts: TextItemsParts) {
    this.#items = Array.isArray(value) ? value : [value]
    this.#parts = parts
  }

  next(): number {
    if (this.#next === this.#items.length || !this.#parts.mayBegin()) return 0
    const item = this.#items[this.#next]
    this.#next += 1
    this.#parts.begin(item)
    return ITEM_COST + costOf(item)
  }

  keep(): void {
    // values have no part in the memory of the message: a text that is long enough for that is copied before it is read
  }
}

/** Operations take as long as what they are given has values, and bytes. */
function costOf(value: unknown): number {
  if (typeof value === 'string') return STRING_COST + value.length / STRING_BYTES_PER_COST
  if (value instanceof LongString) return STRING_COST + value.bytes.byteLength / STRING_BYTES_PER_COST
  if (typeof value !== 'object' || value === null) return VALUE_COST
  let cost = VALUE_COST
  if (Array.isArray(value)) for (const each of value) cost += costOf(each)
  else for (const name in value) cost += costOf((value as Readonly<Record<string, unknown>>)[name])
  return cost
}
