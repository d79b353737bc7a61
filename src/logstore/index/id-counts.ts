/** Counts how often each id comes, in a hash table with open addressing. Ids are hashes, so their first word says where to look first. */
const WORDS = 4
/** A table that is full of ids has three free slots for each. */
const SLOTS_PER_ID = 4

export class IdCounts {
  /** By number of the id. */
  readonly counts: Uint16Array
  readonly #ids: Uint32Array
  /** Number + 1; 0: free. */
  readonly #slots: Uint16Array
  #size = 0

  /** @param idsMax a power of two, below 2^16 */
  constructor(idsMax: number) {
    this.counts = new Uint16Array(idsMax)
    this.#ids = new Uint32Array(WORDS * idsMax)
    this.#slots = new Uint16Array(SLOTS_PER_ID * idsMax)
  }

  clear(): void {
    this.#slots.fill(0)
    this.#size = 0
  }

  /** The number of the id at ids[at .. at + 4). The count of a new id is 0. */
  numberOf(ids: Uint32Array, at: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    for (let slot = ids[at]! & mask; ; slot = (slot + 1) & mask) {
      const number = slots[slot]! - 1
      if (number < 0) return this.#add(ids, at, slot)
      if (this.#is(number, ids, at)) return number
    }
  }

  #add(ids: Uint32Array, at: number, slot: number): number {
    const number = this.#size++
    const own = WORDS * number
    this.#slots[slot] = number + 1
    this.counts[number] = 0
    this.#ids[own] = ids[at]!
    this.#ids[own + 1] = ids[at + 1]!
    this.#ids[own + 2] = ids[at + 2]!
    this.#ids[own + 3] = ids[at + 3]!
    return number
  }

  #is(number: number, ids: Uint32Array, at: number): boolean {
    const known = this.#ids
    const own = WORDS * number
    return (
      known[own] === ids[at] &&
      known[own + 1] === ids[at + 1] &&
      known[own + 2] === ids[at + 2] &&
      known[own + 3] === ids[at + 3]
    )
  }
}
