/**
 * Uploads in parts, and each is one task: begin ──► part 1 ──► … ──► part N ──► complete.
 *
 * The ETags that complete it are computed here: the server has to have found the same.
 */
import type { HttpResponse } from '../http-response-parser.ts'
import { UnreadableAnswerError } from '../workload.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import { demandElement, elementText, refusalKind } from './answers.ts'
import type { Ledger } from './ledger.ts'
import type { ObjectNumbers, PartedObjects } from './objects.ts'
import type { Requests } from './requests.ts'

export class MultipartSource implements RequestSource {
  readonly #requests: Requests
  readonly #objects: PartedObjects
  readonly #ledger: Ledger
  readonly #numbers: ObjectNumbers
  readonly #done: TaskResult
  #object = 0
  #uploadId = ''
  /** How many requests of the upload were answered. */
  #answered = 0

  constructor(requests: Requests, objects: PartedObjects, ledger: Ledger, numbers: ObjectNumbers) {
    this.#requests = requests
    this.#objects = objects
    this.#ledger = ledger
    this.#numbers = numbers
    const bytes = objects.parts * objects.partBytes
    this.#done = { units: 1, payloadBytes: bytes, bodyBytes: bytes, refused: [] }
  }

  next(): LoadRequest {
    this.#object = this.#numbers.take()
    this.#answered = 0
    return this.#requests.post(`${this.#objects.key(this.#object)}?uploads`, '')
  }

  succeeded(response: HttpResponse): LoadRequest | TaskResult {
    if (this.#answered === 0) this.#uploadId = encodeURIComponent(demandElement(response.body, 'UploadId'))
    const part = ++this.#answered
    if (part <= this.#objects.parts) return this.#part(part)
    if (part === this.#objects.parts + 1) return this.#complete()
    // S3 may find out that it cannot after it has begun to answer
    if (elementText(response.body, 'ETag') === null) throw new UnreadableAnswerError(refusalKind(response))
    this.#ledger.note(this.#object, 'stored')
    return this.#done
  }

  /** Such an object may be there or not: both are right. Its parts stay with the server, which aborts what was left. */
  unresolved(): void {}

  #part(part: number): LoadRequest {
    const query = `partNumber=${part}&uploadId=${this.#uploadId}`
    return this.#requests.put(`${this.#objects.key(this.#object)}?${query}`, this.#objects.part(this.#object, part))
  }

  #complete(): LoadRequest {
    const parts = Array.from({ length: this.#objects.parts }, (_, i) => {
      const etag = this.#objects.etag(this.#object, i + 1)
      return `<Part><PartNumber>${i + 1}</PartNumber><ETag>"${etag}"</ETag></Part>`
    })
    const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`
    return this.#requests.post(`${this.#objects.key(this.#object)}?uploadId=${this.#uploadId}`, body)
  }
}
