/**
 * Which groups have something to do, and when: groups with neither leases nor delays cost nothing, however many there are.
 *
 * G1  a group is in the heap when it has a lease or a delay, at a time no later than the end of its first one. A lease that ends earlier,
 *     as by an acknowledgement, is noticed only when that time comes
 */
import { DueHeap } from '../../engine/due-heap.ts'

const CAPACITY_FIRST = 64

export class DueGroups {
  readonly #heap = new DueHeap()
  /** Each index holds itself, the number of a group: it orders groups that are due at the same time. */
  #numbers = new Float64Array(0)
  #isInside = new Uint8Array(0)

  /** G1. @param dueMs Infinity: never */
  note(number: number, dueMs: number): void {
    if (dueMs === Infinity) return
    if (number >= this.#numbers.length) this.#grow(number + 1)
    if (this.#isInside[number] === 0) {
      this.#isInside[number] = 1
      this.#heap.add(number, dueMs)
    } else if (dueMs < this.#heap.dueMs[number]!) {
      this.#heap.move(number, dueMs)
    }
  }

  /** Removes and returns the groups that may have something due by now, the earliest first. */
  take(nowMs: number): number[] {
    const taken: number[] = []
    while (this.#heap.firstDueMs <= nowMs) {
      const number = this.#heap.first
      this.#heap.remove(number)
      this.#isInside[number] = 0
      taken.push(number)
    }
    return taken
  }

  #grow(least: number): void {
    const before = this.#numbers.length
    const capacity = 2 ** Math.ceil(Math.log2(Math.max(least, CAPACITY_FIRST)))
    this.#numbers = new Float64Array(this.#numbers.buffer.transfer(8 * capacity))
    this.#isInside = new Uint8Array(this.#isInside.buffer.transfer(capacity))
    for (let number = before; number < capacity; number++) this.#numbers[number] = number
    this.#heap.resize(capacity, this.#numbers)
  }
}
