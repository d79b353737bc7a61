import { isBefore } from '../time-words.ts'

/**
 * The first `capacity` of any number of candidates, in the order of results: time, then segment, then entry. A heap with the
 * last of the kept ones on top, so that a candidate beyond it is refused with one comparison.
 */
export class PageSelection {
  readonly capacity: number
  readonly #timeHigh: Uint32Array
  readonly #timeLow: Uint32Array
  readonly #source: Uint32Array
  readonly #entry: Uint32Array
  /** Slots of the columns above, as a heap: no slot comes before its children. */
  readonly #heap: Uint16Array
  #size = 0

  /** @param capacity  1 to 65535 */
  constructor(capacity: number) {
    this.capacity = capacity
    this.#timeHigh = new Uint32Array(capacity)
    this.#timeLow = new Uint32Array(capacity)
    this.#source = new Uint32Array(capacity)
    this.#entry = new Uint32Array(capacity)
    this.#heap = new Uint16Array(capacity)
  }

  /** False when it is not among the first: whoever offers in order may stop then. */
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

  /** False: no candidate of this time or a later one is among the first. */
  hasRoomFrom(timeHigh: number, timeLow: number): boolean {
    if (this.#size < this.capacity) return true
    const last = this.#heap[0]!
    return !isBefore(this.#timeHigh[last]!, this.#timeLow[last]!, timeHigh, timeLow)
  }

  /** The kept candidates in order. */
  results(): { source: number; entry: number; timeHigh: number; timeLow: number }[] {
    const kept = Array.from({ length: this.#size }, (_, slot) => ({
      source: this.#source[slot]!,
      entry: this.#entry[slot]!,
      timeHigh: this.#timeHigh[slot]!,
      timeLow: this.#timeLow[slot]!,
    }))
    return kept.sort(
      (a, b) => a.timeHigh - b.timeHigh || a.timeLow - b.timeLow || a.source - b.source || a.entry - b.entry,
    )
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
    if (timeHigh !== this.#timeHigh[slot]) return timeHigh < this.#timeHigh[slot]!
    if (timeLow !== this.#timeLow[slot]) return timeLow < this.#timeLow[slot]!
    if (source !== this.#source[slot]) return source < this.#source[slot]!
    return entry < this.#entry[slot]!
  }
}
