/** Reads objects that were put beforehand, or asks only for their headers, in random order. */
import type { HttpResponse } from '../http-response-parser.ts'
import type { Random } from '../random.ts'
import { UnreadableAnswerError } from '../workload.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import type { Preloaded } from './preloaded.ts'
import type { Requests } from './requests.ts'

const HEADERS_ONLY: TaskResult = { units: 1, payloadBytes: 0, bodyBytes: 0, refused: [] }

export class ReadSource implements RequestSource {
  readonly #requests: Requests
  readonly #readable: Preloaded
  readonly #random: Random
  readonly #method: 'get' | 'head'
  #object = 0

  constructor(requests: Requests, readable: Preloaded, random: Random, method: 'get' | 'head') {
    this.#requests = requests
    this.#readable = readable
    this.#random = random
    this.#method = method
  }

  next(): LoadRequest {
    const { objects, count } = this.#readable
    this.#object = this.#random.between(0, count - 1)
    return this.#requests[this.#method](objects.key(this.#object))
  }

  succeeded({ body }: HttpResponse): TaskResult {
    if (this.#method === 'head') return HEADERS_ONLY
    const { objects } = this.#readable
    if (!objects.bytes(this.#object).equals(body)) {
      throw new UnreadableAnswerError(`other bytes than ${objects.key(this.#object)} has`)
    }
    return { units: 1, payloadBytes: body.byteLength, bodyBytes: body.byteLength, refused: [] }
  }

  unresolved(): void {}
}
