/** A mix of operations: 45 % read an object, 30 % ask for its headers, 15 % put a new one, 10 % delete one that this connection put. */
import type { HttpResponse } from '../http-response-parser.ts'
import type { Random } from '../random.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import type { Ledger } from './ledger.ts'
import type { LoadObjects } from './objects.ts'
import type { PutSource } from './put-source.ts'
import type { ReadSource } from './read-source.ts'
import type { Requests } from './requests.ts'

const GET_BELOW = 45
const HEAD_BELOW = GET_BELOW + 30
const PUT_BELOW = HEAD_BELOW + 15

interface MixedParts {
  readonly gets: ReadSource
  readonly heads: ReadSource
  readonly puts: PutSource
  readonly deletes: DeleteSource
}

export class MixedSource implements RequestSource {
  readonly #random: Random
  readonly #of: MixedParts
  #current: MixedParts[keyof MixedParts]

  constructor(random: Random, of: MixedParts) {
    this.#random = random
    this.#of = of
    this.#current = of.gets
  }

  next(): LoadRequest {
    this.#current = this.#pick()
    return this.#current.next()
  }

  succeeded(response: HttpResponse): TaskResult {
    const { puts, deletes } = this.#of
    if (this.#current === puts) deletes.add(puts.object)
    return this.#current.succeeded(response)
  }

  unresolved(): void {
    this.#current.unresolved()
  }

  #pick(): MixedParts[keyof MixedParts] {
    const { gets, heads, puts, deletes } = this.#of
    const percent = this.#random.between(0, 99)
    if (percent < GET_BELOW) return gets
    if (percent < HEAD_BELOW) return heads
    return percent < PUT_BELOW || !deletes.hasMore ? puts : deletes
  }
}

/** Deletes objects, the oldest first. */
export class DeleteSource implements RequestSource {
  readonly #requests: Requests
  readonly #objects: LoadObjects
  readonly #ledger: Ledger
  readonly #waiting: number[] = []
  #object = 0

  constructor(requests: Requests, objects: LoadObjects, ledger: Ledger) {
    this.#requests = requests
    this.#objects = objects
    this.#ledger = ledger
  }

  get hasMore(): boolean {
    return this.#waiting.length > 0
  }

  add(object: number): void {
    this.#waiting.push(object)
  }

  /** Call it only when it has more. */
  next(): LoadRequest {
    this.#object = this.#waiting.shift()!
    return this.#requests.delete(this.#objects.key(this.#object))
  }

  succeeded(): TaskResult {
    this.#ledger.note(this.#object, 'deleted')
    return { units: 1, payloadBytes: 0, bodyBytes: 0, refused: [] }
  }

  unresolved(): void {
    this.#ledger.note(this.#object, 'unknown')
  }
}
