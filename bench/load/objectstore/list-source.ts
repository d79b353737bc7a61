/** Pages of the objects that were put beforehand, from the first key to the last, again and again. */
import type { HttpResponse } from '../http-response-parser.ts'
import { UnreadableAnswerError } from '../workload.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import { demandElement, elementText } from './answers.ts'
import type { Requests } from './requests.ts'

export class ListSource implements RequestSource {
  readonly #requests: Requests
  readonly #prefix: string
  readonly #page: number
  #token: string | null = null

  constructor(requests: Requests, prefix: string, page: number) {
    this.#requests = requests
    this.#prefix = prefix
    this.#page = page
  }

  next(): LoadRequest {
    return this.#requests.list(this.#prefix, this.#page, this.#token)
  }

  succeeded({ body }: HttpResponse): TaskResult {
    const keys = Number(demandElement(body, 'KeyCount'))
    if (!Number.isInteger(keys)) throw new UnreadableAnswerError('a KeyCount that is no number')
    this.#token = elementText(body, 'NextContinuationToken')
    return { units: keys, payloadBytes: body.byteLength, bodyBytes: body.byteLength, refused: [] }
  }

  unresolved(): void {}
}
