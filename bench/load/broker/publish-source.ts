/** Publishes new records, one by one or in batches, round robin over the streams. */
import type { HttpResponse } from '../http-response-parser.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import { UnreadableAnswerError } from '../workload.ts'
import type { AcknowledgedRecords } from './acknowledged-records.ts'
import { allNumbers, batchResults, firstNumber, lastNumber, numberMember } from './answers.ts'
import { PublishRequest } from './publish-request.ts'
import type { PublishRequestOptions } from './publish-request.ts'

const OFFSET = numberMember('offset')
const PUBLISHED_COUNT = numberMember('published_count')

/** Hands out the numbers of the records, to all connections: none is sent twice. */
export class RecordNumbers {
  /** The numbers below it were sent. */
  taken = 0
  readonly #streams: number
  readonly #recordsPerRequest: number

  constructor(streams: number, recordsPerRequest: number) {
    this.#streams = streams
    this.#recordsPerRequest = recordsPerRequest
  }

  /** The first record of the next request. */
  take(): number {
    const first = this.taken
    this.taken += this.#recordsPerRequest
    return first
  }

  /** Round robin, request by request. */
  streamOf(record: number): number {
    return Math.floor(record / this.#recordsPerRequest) % this.#streams
  }
}

export class PublishSource implements RequestSource {
  readonly #request: PublishRequest
  readonly #options: PublishRequestOptions
  readonly #numbers: RecordNumbers
  /** Null: they are not needed later. */
  readonly #acknowledged: AcknowledgedRecords | null
  readonly #allPublished: TaskResult
  #firstRecord = 0
  #stream = 0

  constructor(options: PublishRequestOptions, numbers: RecordNumbers, acknowledged: AcknowledgedRecords | null) {
    this.#request = new PublishRequest(options)
    this.#options = options
    this.#numbers = numbers
    this.#acknowledged = acknowledged
    this.#allPublished = this.#result(options.batch ?? 1, [])
  }

  next(): LoadRequest {
    const firstRecord = this.#numbers.take()
    return this.#publish(this.#numbers.streamOf(firstRecord), firstRecord)
  }

  /** The same to a stream of the caller's choice. */
  publishTo(stream: number): LoadRequest {
    return this.#publish(stream, this.#numbers.take())
  }

  succeeded({ body }: HttpResponse): TaskResult {
    const { batch } = this.#options
    if (batch !== null) return this.#batchSucceeded(body, batch)
    this.#acknowledged?.acknowledged(this.#stream, this.#firstRecord, [firstNumber(body, OFFSET)])
    return this.#allPublished
  }

  /** Such a record may be stored or not: both are right. */
  unresolved(): void {}

  #publish(stream: number, firstRecord: number): LoadRequest {
    this.#stream = stream
    this.#firstRecord = firstRecord
    this.#request.stamp(stream, firstRecord)
    return this.#request
  }

  #batchSucceeded(body: Buffer, batch: number): TaskResult {
    if (lastNumber(body, PUBLISHED_COUNT) === batch) {
      if (this.#acknowledged !== null) this.#remember(allNumbers(body, OFFSET))
      return this.#allPublished
    }
    const results = batchResults(body)
    this.#remember(results.map(({ offset }) => offset))
    const refused = results.flatMap(({ refusal }) => refusal ?? [])
    return this.#result(results.length - refused.length, refused)
  }

  #remember(offsets: readonly (number | null)[]): void {
    if (offsets.length !== (this.#options.batch ?? 1)) throw new UnreadableAnswerError('not one result for each record')
    this.#acknowledged?.acknowledged(this.#stream, this.#firstRecord, offsets)
  }

  #result(units: number, refused: readonly string[]): TaskResult {
    return { units, payloadBytes: units * this.#options.payload.length, bodyBytes: this.#request.bodyBytes, refused }
  }
}
