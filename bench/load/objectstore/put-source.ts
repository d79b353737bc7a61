/** Puts new objects. */
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import type { Ledger } from './ledger.ts'
import type { LoadObjects, ObjectNumbers } from './objects.ts'
import type { Requests } from './requests.ts'

export class PutSource implements RequestSource {
  readonly #requests: Requests
  readonly #objects: LoadObjects
  readonly #ledger: Ledger
  readonly #numbers: ObjectNumbers
  /** Number of the object of the last request. */
  object = 0

  constructor(requests: Requests, objects: LoadObjects, ledger: Ledger, numbers: ObjectNumbers) {
    this.#requests = requests
    this.#objects = objects
    this.#ledger = ledger
    this.#numbers = numbers
  }

  next(): LoadRequest {
    this.object = this.#numbers.take()
    return this.#requests.put(this.#objects.key(this.object), this.#objects.bytes(this.object))
  }

  succeeded(): TaskResult {
    this.#ledger.note(this.object, 'stored')
    const bytes = this.#objects.bytes(this.object).byteLength
    return { units: 1, payloadBytes: bytes, bodyBytes: bytes, refused: [] }
  }

  /** Such an object may be there or not: both are right. */
  unresolved(): void {}
}
