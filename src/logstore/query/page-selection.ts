import { isBefore } from '../time-words.ts'

/**
 * The first `capacity` of any number of candidates, in the order of results: time, then segment, then entry, or the reverse. A heap with the
 * last of the kept ones on top, so that a candidate beyond it is refused with one comparison.
 */
export class PageSelection {
  readonly capacity: number
  readonly #descending: boolean
  readonly #timeHigh: Uint32Array
  readonly #timeLow: Uint32Array
  readonly #source: Uint32Array
  readonly #entry: Uint32Array
  /** Slots of the columns above, as a heap: no slot comes before its children. */
  readonly #heap: Uint16Array
  #size = 0

  /** @param capacity  1 to 65535 */
  constructor(capacity: number, descending: boolean) {
    this.capacity = capacity
    this.#descending = descending
    this.#timeHigh = new Uint32Array(capacity)
    this.#timeLow = new Uint32Array(capacity)
    this.#source = new Uint32Array(capacity)
    this.#entry = new Uint32Array(capacity)
    this.#heap = new Uint16Array(capacity)
  }

  /** False when the candidate is not among the first: a caller that offers in order may stop then. */
  offer(timeHigh: number, timeLow: number, source: number, entry: number): boolean {
    const full = this.#size === this.capacity
    const slot = full ? this.#heap[0]! : this.#size
    if (full && !this.#comesBefore(timeHigh, timeLow, source, entry, slot)) return false
    this.#timeHigh[slot] = timeHigh
    this.#timeLow[slot] = timeLow
    this.#source[slot] = source
    this.#entry[slot] = entry
    if (full) this.#siftDown(slot)
    else this.#siftUp(slot)
    return true
  }

  /** False: no candidate of a time in [earliest, latest] is among the first. */
  hasRoomFor(earliestHigh: number, earliestLow: number, latestHigh: number, latestLow: number): boolean {
    if (this.#size < this.capacity) return true
    const last = this.#heap[0]!
    const lastHigh = this.#timeHigh[last]!
    const lastLow = this.#timeLow[last]!
    if (this.#descending) return !isBefore(latestHigh, latestLow, lastHigh, lastLow)
    return !isBefore(lastHigh, lastLow, earliestHigh, earliestLow)
  }

  /** The kept candidates in order. */
  results(): { source: number; entry: number; timeHigh: number; timeLow: number }[] {
    const kept = Array.from({ length: this.#size }, (_, slot) => ({
      source: this.#source[slot]!,
      entry: this.#entry[slot]!,
      timeHigh: this.#timeHigh[slot]!,
      timeLow: this.#timeLow[slot]!,
    }))
    kept.sort((a, b) => a.timeHigh - b.timeHigh || a.timeLow - b.timeLow || a.source - b.source || a.entry - b.entry)
    return this.#descending ? kept.reverse() : kept
  }

  #siftUp(slot: number): void {
    const heap = this.#heap
    let at = this.#size++
    while (at > 0) {
      const parent = (at - 1) >>> 1
      if (!this.#slotComesBefore(heap[parent]!, slot)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = slot
  }

  #siftDown(slot: number): void {
    const heap = this.#heap
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.#size) break
      if (child + 1 < this.#size && this.#slotComesBefore(heap[child]!, heap[child + 1]!)) child++
      if (!this.#slotComesBefore(slot, heap[child]!)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = slot
  }

  #slotComesBefore(slot: number, other: number): boolean {
    return this.#comesBefore(
      this.#timeHigh[slot]!,
      this.#timeLow[slot]!,
      this.#source[slot]!,
      this.#entry[slot]!,
      other,
    )
  }

  #comesBefore(timeHigh: number, timeLow: number, source: number, entry: number, slot: number): boolean {
    const descending = this.#descending
    if (timeHigh !== this.#timeHigh[slot]) return timeHigh < this.#timeHigh[slot]! !== descending
    if (timeLow !== this.#timeLow[slot]) return timeLow < this.#timeLow[slot]! !== descending
    if (source !== this.#source[slot]) return source < this.#source[slot]! !== descending
    return entry !== this.#entry[slot] && entry < this.#entry[slot]! !== descending
  }
}
