/**
 * A cache of objects that were read, in the order of their last use.
 *
 * L1  together they take at most `bytesMax`; for a new one, those that were used longest ago are evicted
 * L2  of the objects that would evict others and are cheap to read again, only one in CHEAP_PER_KEPT is kept. Otherwise a client that reads more
 *     objects in turn than fit would never have a cache hit
 */
import { disablePretenuring } from '../../disable-pretenuring.ts'
import { LinkedList } from '../../linked-list.ts'
import type { Link } from '../../linked-list.ts'

/** L2 */
const CHEAP_PER_KEPT = 8

export interface Cached {
  readonly position: number
  /** Memory that it takes. */
  readonly bytes: number
}

export class ObjectCache<Value extends Cached> {
  readonly #bytesMax: number
  readonly #entries = new Map<number, Link<Value>>()
  /** In order of use. A Map in that order would walk over its deleted entries. */
  readonly #used = new LinkedList<Value>()
  #bytes = 0
  #cheap = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  get(position: number): Value | undefined {
    const entry = this.#entries.get(position)
    if (entry === undefined) return undefined
    if (this.#used.newest !== entry) {
      this.#used.remove(entry)
      this.#used.append(entry)
    }
    return entry.value
  }

  /** True when the object should be added (L2). Call it once for each object. */
  shouldAdd(bytes: number, isCheap: boolean): boolean {
    if (bytes > this.#bytesMax) return false
    if (!isCheap || this.#bytes + bytes <= this.#bytesMax) return true
    this.#cheap = (this.#cheap + 1) % CHEAP_PER_KEPT
    return this.#cheap === 0
  }

  /** Adds an object for which `shouldAdd` was true. */
  add(value: Value): void {
    const { position, bytes } = value
    if (this.#entries.has(position)) return
    disablePretenuring()
    this.#entries.set(position, this.#used.add(value))
    this.#bytes += bytes
    while (this.#bytes > this.#bytesMax) this.#remove(this.#used.oldest!) // L1: the cache has entries while it counts bytes
  }

  #remove(entry: Link<Value>): void {
    this.#used.remove(entry)
    this.#entries.delete(entry.value.position)
    this.#bytes -= entry.value.bytes
  }
}
