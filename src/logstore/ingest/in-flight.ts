/**
 * Ingest requests that the decode lane has not decided yet, by number. Numbers are reused, so that they index an array.
 *
 * F1  every request is taken out exactly once: with its outcome, when the lane's ring is full, or when the lane dies
 */
import assert from 'node:assert/strict'

export class InFlightTable<Request> {
  readonly #slots: (Request | null)[] = []
  readonly #free: number[] = []
  #count = 0

  get count(): number {
    return this.#count
  }

  add(request: Request): number {
    const number = this.#free.pop() ?? this.#slots.length
    this.#slots[number] = request
    this.#count++
    return number
  }

  get(number: number): Request {
    const request = this.#slots[number]
    assert(request, 'a request is answered once (F1)')
    return request
  }

  remove(number: number): Request {
    const request = this.get(number)
    this.#slots[number] = null
    this.#free.push(number)
    this.#count--
    return request
  }

  /** Takes out everything; returns it in no particular order. */
  clear(): Request[] {
    const all = this.#slots.filter((request) => request !== null)
    this.#slots.length = 0
    this.#free.length = 0
    this.#count = 0
    return all
  }
}
