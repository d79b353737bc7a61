/**
 * Slots of a table, each with a time, the earliest on top: a binary heap that knows where each slot is, so that
 * any of them can be moved or taken out.
 *
 * `#heap[#heapIndex[slot]] === slot` for each slot inside. The indexes of other slots mean nothing.
 *
 * H1  no slot is due before its parent; of slots due at the same time the one with the lower offset comes first. So the order in which
 *     slots come out depends only on the content of the heap, not on the order in which they were added
 */

export class DueHeap {
  /** Due time by slot. When a slot leaves, its time is kept until the slot comes in again: it tells when a lease expired. */
  dueMs = new Float64Array(0)
  #offset = new Float64Array(0)
  #heap = new Uint32Array(0)
  #heapIndex = new Uint32Array(0)
  #size = 0

  get bytes(): number {
    return this.dueMs.byteLength + this.#heap.byteLength + this.#heapIndex.byteLength
  }

  /** The slot due first. Only when there is one: `firstDueMs` is finite. */
  get first(): number {
    return this.#heap[0]!
  }

  /** Infinity when the heap is empty. */
  get firstDueMs(): number {
    return this.#size === 0 ? Infinity : this.dueMs[this.#heap[0]!]!
  }

  /** @param offset column of the table, by slot */
  resize(capacity: number, offset: Float64Array<ArrayBuffer>): void {
    this.dueMs = new Float64Array(this.dueMs.buffer.transfer(8 * capacity))
    this.#heap = new Uint32Array(this.#heap.buffer.transfer(4 * capacity))
    this.#heapIndex = new Uint32Array(this.#heapIndex.buffer.transfer(4 * capacity))
    this.#offset = offset
  }

  /** @param slot not inside */
  add(slot: number, dueMs: number): void {
    this.dueMs[slot] = dueMs
    this.#siftUp(this.#size++, slot)
  }

  /** @param slot inside */
  move(slot: number, dueMs: number): void {
    this.dueMs[slot] = dueMs
    this.#settle(this.#heapIndex[slot]!, slot)
  }

  /** @param slot inside */
  remove(slot: number): void {
    const last = this.#heap[--this.#size]!
    if (last !== slot) this.#settle(this.#heapIndex[slot]!, last)
  }

  /** Visits the slots due at `nowMs`, in no order, at a cost proportional to their number. Must not change the heap. */
  forEachDue(nowMs: number, visit: (slot: number) => void, at = 0): void {
    if (at >= this.#size) return
    const slot = this.#heap[at]!
    if (this.dueMs[slot]! > nowMs) return // H1: nor is what is below it
    visit(slot)
    this.forEachDue(nowMs, visit, 2 * at + 1)
    this.forEachDue(nowMs, visit, 2 * at + 2)
  }

  /** Puts the slot at `at` or wherever H1 wants it from there. */
  #settle(at: number, slot: number): void {
    if (at > 0 && this.#isBefore(slot, this.#heap[(at - 1) >>> 1]!)) this.#siftUp(at, slot)
    else this.#siftDown(at, slot)
  }

  #siftUp(from: number, slot: number): void {
    const heap = this.#heap
    let at = from
    while (at > 0) {
      const parent = (at - 1) >>> 1
      if (!this.#isBefore(slot, heap[parent]!)) break
      this.#put(at, heap[parent]!)
      at = parent
    }
    this.#put(at, slot)
  }

  #siftDown(from: number, slot: number): void {
    const heap = this.#heap
    let at = from
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.#size) break
      if (child + 1 < this.#size && this.#isBefore(heap[child + 1]!, heap[child]!)) child++
      if (!this.#isBefore(heap[child]!, slot)) break
      this.#put(at, heap[child]!)
      at = child
    }
    this.#put(at, slot)
  }

  #put(at: number, slot: number): void {
    this.#heap[at] = slot
    this.#heapIndex[slot] = at
  }

  /** H1 */
  #isBefore(slot: number, other: number): boolean {
    const due = this.dueMs[slot]!
    const otherDue = this.dueMs[other]!
    return due < otherDue || (due === otherDue && this.#offset[slot]! < this.#offset[other]!)
  }
}
