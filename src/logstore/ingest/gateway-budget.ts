/**
 * Records and bytes in flight through the gateway, over all tenants: booked by the decode lane, given back by the main thread
 * with the answer. Two Int32 words in shared memory.
 *
 * G1  what is booked for a request is given back exactly once, whatever its answer
 */
import assert from 'node:assert/strict'

const RECORDS = 0
const BYTES = 1

export interface GatewayLimits {
  /** Infinity: no limit. */
  readonly records: number
  readonly bytes: number
}

export class GatewayBudget {
  readonly shared: SharedArrayBuffer
  readonly #words: Int32Array

  static create(): GatewayBudget {
    return new GatewayBudget(new SharedArrayBuffer(8))
  }

  static attach(shared: SharedArrayBuffer): GatewayBudget {
    return new GatewayBudget(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    this.shared = shared
    this.#words = new Int32Array(shared)
  }

  get recordsInFlight(): number {
    return Atomics.load(this.#words, RECORDS)
  }

  get bytesInFlight(): number {
    return Atomics.load(this.#words, BYTES)
  }

  /** Books both or none; says which budget is exhausted. */
  tryBook(limits: GatewayLimits, records: number, bytes: number): 'booked' | 'records' | 'bytes' {
    if (Atomics.add(this.#words, RECORDS, records) + records > limits.records) {
      Atomics.sub(this.#words, RECORDS, records)
      return 'records'
    }
    if (Atomics.add(this.#words, BYTES, bytes) + bytes > limits.bytes) {
      Atomics.sub(this.#words, RECORDS, records)
      Atomics.sub(this.#words, BYTES, bytes)
      return 'bytes'
    }
    return 'booked'
  }

  release(records: number, bytes: number): void {
    assert(Atomics.sub(this.#words, RECORDS, records) >= records) // G1
    assert(Atomics.sub(this.#words, BYTES, bytes) >= bytes)
  }

  /** After the lane died: nothing is in flight any more. */
  clear(): void {
    Atomics.store(this.#words, RECORDS, 0)
    Atomics.store(this.#words, BYTES, 0)
  }
}
