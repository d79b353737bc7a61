/** The operations of a text message, one by one. The message is one object, or a list of objects. */
import { LongString } from '../../../native-free-codecs/json-reader.ts'
import type { MessageWork } from './inbox.ts'

const ITEM_COST = 8
const VALUE_COST = 1
const STRING_COST = 2
const STRING_BYTES_PER_COST = 1024

export interface TextItemsParts {
  /** Asked before each operation. False: the rest of the message is dropped. */
  readonly mayBegin: () => boolean
  readonly begin: (item: unknown) => void
}

export class TextItems implements MessageWork {
  readonly #items: readonly unknown[]
  readonly #parts: TextItemsParts
  #next = 0

  /** @param value the parsed message */
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
    // nothing to copy: only values of a long text point into it, and a long text has memory of its own
  }
}

/** An operation takes longer, the more values and bytes it is given. */
function costOf(value: unknown): number {
  if (typeof value === 'string') return STRING_COST + value.length / STRING_BYTES_PER_COST
  if (value instanceof LongString) return STRING_COST + value.bytes.byteLength / STRING_BYTES_PER_COST
  if (typeof value !== 'object' || value === null) return VALUE_COST
  let cost = VALUE_COST
  if (Array.isArray(value)) for (const each of value) cost += costOf(each)
  else for (const name in value) cost += costOf((value as Readonly<Record<string, unknown>>)[name])
  return cost
}
