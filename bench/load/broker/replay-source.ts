/** Replay: pages of a stream from its start to its end, again and again. */
import type { HttpResponse } from '../http-response-parser.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import { lastNumber, numberMember } from './answers.ts'
import { streamPath } from './names.ts'
import type { Requests } from './requests.ts'

const NEXT_OFFSET = numberMember('next_offset')
const RETURNED_RECORDS = numberMember('returned_records')
const RETURNED_PAYLOAD_BYTES = numberMember('returned_payload_bytes')
const END_OF_STREAM = Buffer.from('"end_of_stream":true')

export class ReplaySource implements RequestSource {
  readonly #requests: Requests
  readonly #stream: number
  readonly #pageRecords: number
  #startOffset = 0

  constructor(requests: Requests, stream: number, pageRecords: number) {
    this.#requests = requests
    this.#stream = stream
    this.#pageRecords = pageRecords
  }

  next(): LoadRequest {
    const query = `start_offset=${this.#startOffset}&max_records=${this.#pageRecords}`
    const path = `${streamPath(this.#stream)}/records?${query}`
    return this.#requests.build('GET', path, '')
  }

  succeeded({ body }: HttpResponse): TaskResult {
    const nextOffset = lastNumber(body, NEXT_OFFSET)
    this.#startOffset = body.lastIndexOf(END_OF_STREAM) >= 0 ? 0 : nextOffset
    return {
      units: lastNumber(body, RETURNED_RECORDS),
      payloadBytes: lastNumber(body, RETURNED_PAYLOAD_BYTES),
      bodyBytes: body.byteLength,
      refused: [],
    }
  }

  unresolved(): void {}
}
