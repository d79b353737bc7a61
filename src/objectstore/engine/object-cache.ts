/**
 * Objects that were read, in memory as they were used last.
 *
 * L1  together they take at most `bytesMax`; for a new one those go that were used longest ago
 * L2  when a new one makes others go and is cheap to read again, only one in CHEAP_PER_KEPT is kept. Otherwise a client that reads more
 *     objects in turn than fit would never find one of them
 */
const CHEAP_PER_KEPT = 8

interface Entry<Value> {
  readonly position: number
  readonly value: Value
  readonly bytes: number
  /** Used just before it, and just after it. A ring with `#ends` between the newest and the oldest: a Map in order of use would walk over those that left. */
  older: Entry<Value>
  newer: Entry<Value>
}

export class ObjectCache<Value> {
  readonly #bytesMax: number
  readonly #entries = new Map<number, Entry<Value>>()
  /** Its `newer` is the oldest entry, its `older` the newest. */
  readonly #ends: Entry<Value>
  #bytes = 0
  #cheap = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
    const ends = { position: -1, bytes: 0 } as Entry<Value> // complete with the next two lines, but for a value, which nobody asks for
    ends.older = ends
    ends.newer = ends
    this.#ends = ends
  }

  get bytes(): number {
    return this.#bytes
  }

  get(position: number): Value | undefined {
    const entry = this.#entries.get(position)
    if (entry === undefined) return undefined
    if (this.#ends.older !== entry) {
      unlink(entry)
      this.#append(entry)
    }
    return entry.value
  }

  /** Whether it is to be added (L2); asked once for each. */
  wants(bytes: number, isCheap: boolean): boolean {
    if (bytes > this.#bytesMax) return false
    if (!isCheap || this.#bytes + bytes <= this.#bytesMax) return true
    this.#cheap = (this.#cheap + 1) % CHEAP_PER_KEPT
    return this.#cheap === 0
  }

  /** One that `wants` has let in. */
  add(position: number, value: Value, bytes: number): void {
    if (this.#entries.has(position)) return
    const entry: Entry<Value> = { position, value, bytes, older: this.#ends, newer: this.#ends }
    this.#entries.set(position, entry)
    this.#append(entry)
    this.#bytes += bytes
    while (this.#bytes > this.#bytesMax) this.#remove(this.#ends.newer) // L1
  }

  #append(entry: Entry<Value>): void {
    const newest = this.#ends.older
    entry.older = newest
    entry.newer = this.#ends
    newest.newer = entry
    this.#ends.older = entry
  }

  #remove(entry: Entry<Value>): void {
    unlink(entry)
    this.#entries.delete(entry.position)
    this.#bytes -= entry.bytes
  }
}

function unlink<Value>({ older, newer }: Entry<Value>): void {
  older.newer = newer
  newer.older = older
}
