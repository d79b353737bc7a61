/**
 * Bounds the memory of long documents that have arrived: a document that is read takes several times its bytes, and those of many requests would be
 * read at the same time. So only some are in work at a time; the others wait in the order in which they came.
 *
 * G1  documents in work have DOCUMENTS_IN_WORK_BYTES_MAX together, those that wait DOCUMENTS_WAITING_BYTES_MAX: one more is refused
 * G2  a document that has room goes on at once, unless others wait
 */
import assert from 'node:assert/strict'
import { COMPLETE_BODY_BYTES_MAX, DOCUMENTS_IN_WORK_BYTES_MAX, DOCUMENTS_WAITING_BYTES_MAX } from './document-limits.ts'
import { refuse } from '../refusals.ts'

interface Waiting {
  readonly bytes: number
  readonly enter: () => void
}

export class DocumentGate {
  #inWorkBytes = 0
  #waitingBytes = 0
  #waiting: Waiting[] = []

  /** @throws S3Error SlowDown, and whatever `work` throws */
  async runWithMemory<Result>(bytes: number, work: () => Promise<Result>): Promise<Result> {
    assert(bytes <= COMPLETE_BODY_BYTES_MAX)
    if (this.#waiting.length > 0 || !this.#hasRoomFor(bytes)) await this.#wait(bytes)
    else this.#inWorkBytes += bytes
    try {
      return await work()
    } finally {
      this.#inWorkBytes -= bytes
      this.#enterNext()
    }
  }

  #hasRoomFor(bytes: number): boolean {
    return this.#inWorkBytes + bytes <= DOCUMENTS_IN_WORK_BYTES_MAX
  }

  /** G1. It is in work when the promise resolves. */
  #wait(bytes: number): Promise<void> {
    if (this.#waitingBytes + bytes > DOCUMENTS_WAITING_BYTES_MAX) throw refuse('SlowDown')
    this.#waitingBytes += bytes
    return new Promise((enter) => this.#waiting.push({ bytes, enter }))
  }

  #enterNext(): void {
    let entered = 0
    for (const { bytes, enter } of this.#waiting) {
      if (!this.#hasRoomFor(bytes)) break
      entered++
      this.#waitingBytes -= bytes
      this.#inWorkBytes += bytes
      enter()
    }
    if (entered > 0) this.#waiting = this.#waiting.slice(entered)
  }
}
