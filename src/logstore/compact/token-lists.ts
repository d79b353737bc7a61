/** Lists of numbers of tokens, by the number of the text or form that has them. A list is written once, then read. */
import { longer } from './byte-table.ts'

const NONE = 0xffff_ffff
const LISTS_AT_FIRST = 16

export class TokenLists {
  /** The tokens of all lists. */
  tokens = new Uint32Array(4 * LISTS_AT_FIRST)
  #count = 0
  /** By number of the list; NONE: it was not begun. */
  #from = new Uint32Array(LISTS_AT_FIRST).fill(NONE)
  #to = new Uint32Array(LISTS_AT_FIRST)
  /** Lists with this number and above were not begun. */
  #end = 0

  has(list: number): boolean {
    return list < this.#end && this.#from[list] !== NONE
  }

  /** The list is [from, to) of `tokens`. */
  from(list: number): number {
    return this.#from[list]!
  }

  to(list: number): number {
    return this.#to[list]!
  }

  begin(list: number): void {
    while (list >= this.#from.length) {
      const { length } = this.#from
      this.#from = longer(this.#from).fill(NONE, length)
      this.#to = longer(this.#to)
    }
    this.#from[list] = this.#count
    this.#to[list] = this.#count
    this.#end = Math.max(this.#end, list + 1)
  }

  /** Appends to the list that was begun last. */
  push(list: number, token: number): void {
    if (this.#count === this.tokens.length) this.tokens = longer(this.tokens)
    this.tokens[this.#count++] = token
    this.#to[list] = this.#count
  }

  clear(): void {
    this.#from.fill(NONE, 0, this.#end)
    this.#end = 0
    this.#count = 0
  }
}
