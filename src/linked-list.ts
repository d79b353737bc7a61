/**
 * Values in the order in which they were added, each with a link by which it is removed. A Set would do the same, but rebuilds its hash table again
 * and again where values come and go.
 *
 * An iteration shows the values that were there when it began, except those that were removed since.
 *
 * L2  a removed link points only to itself. Otherwise one in V8's old generation would keep every later link, removed or not, alive through V8's minor
 *     collections
 */
import assert from 'node:assert/strict'

export interface Link<Value> {
  readonly value: Value
  isIn: boolean
  older: Link<Value>
  newer: Link<Value>
}

export class LinkedList<Value> {
  /** Between the newest and the oldest link. */
  readonly #ends: Link<Value>
  #size = 0

  constructor() {
    const ends = { value: undefined, isIn: true } as Link<Value> // complete with the next two lines; its value is never read
    ends.older = ends
    ends.newer = ends
    this.#ends = ends
  }

  get size(): number {
    return this.#size
  }

  /** Undefined: it is empty. */
  get oldest(): Link<Value> | undefined {
    return this.#size === 0 ? undefined : this.#ends.newer
  }

  get newest(): Link<Value> | undefined {
    return this.#size === 0 ? undefined : this.#ends.older
  }

  add(value: Value): Link<Value> {
    const link: Link<Value> = { value, isIn: false, older: this.#ends, newer: this.#ends }
    this.append(link)
    return link
  }

  /** Puts a removed link back, as the newest. */
  append(link: Link<Value>): void {
    const newest = this.#ends.older
    link.isIn = true
    link.older = newest
    link.newer = this.#ends
    newest.newer = link
    this.#ends.older = link
    this.#size += 1
  }

  /** Does nothing when the link is removed already. */
  remove(link: Link<Value>): void {
    if (!link.isIn) return
    link.isIn = false
    link.older.newer = link.newer
    link.newer.older = link.older
    link.older = link.newer = link // L2
    this.#size -= 1
  }

  /** From the oldest on. */
  *[Symbol.iterator](): Generator<Value> {
    const links: Link<Value>[] = []
    for (let link = this.#ends.newer; link !== this.#ends; link = link.newer) links.push(link)
    for (const link of links) if (link.isIn) yield link.value
  }

  /** The link of a value that is in the list. Searches the whole list. */
  linkOf(value: Value): Link<Value> {
    let link = this.#ends.newer
    while (link !== this.#ends && link.value !== value) link = link.newer
    assert(link !== this.#ends)
    return link
  }
}
