/**
 * Ingest requests between their headers and their answer, by number. Numbers are reused, so a slot is a place in an array.
 *
 * Accepted requests leave in the order of their positions, so the committed position of the log answers a prefix of them.
 *
 * F1  every request is taken out exactly once: answered, refused or aborted
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
