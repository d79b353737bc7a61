/**
 * One worker of a cycle: it claims records and acknowledges them, one by one or as a batch, and that is one task.
 *
 *   claim ──► deliveries ──► ack, or batch-ack ──► completed: as many records as were acknowledged
 *     └─────► none ────────► publish a batch ────► nothing completed: the queue was empty, and now is not
 */
import type { HttpResponse } from '../http-response-parser.ts'
import { UnreadableAnswerError } from '../workload.ts'
import type { LoadRequest, RequestSource, TaskResult } from '../workload.ts'
import { allTexts, batchResults, firstText, lastNumber, numberMember, textMember } from './answers.ts'
import type { PublishSource } from './publish-source.ts'
import type { Requests } from './requests.ts'
import { groupPath, streamPath } from './names.ts'

const SUBSCRIPTION_ID = textMember('subscription_id')
const DELIVERY_ID = textMember('delivery_id')
const ACKNOWLEDGED_COUNT = numberMember('acknowledged_count')

const QUEUE_WAS_EMPTY: TaskResult = { units: 0, payloadBytes: 0, bodyBytes: 0, refused: [] }

export interface CycleOptions {
  readonly requests: Requests
  readonly group: string
  /** Records in a claim. */
  readonly claim: number
  readonly payloadBytes: number
}

/** What all workers of a run have in common: figures for the verification. */
export interface CycleTotals {
  /** Records acknowledged. */
  completed: number
  /** Records whose acknowledgement got no clear answer: counted or not, both are right. */
  unresolved: number
}

export class CycleSource implements RequestSource {
  readonly #options: CycleOptions
  readonly #stream: number
  readonly #openRefill: () => PublishSource
  readonly #totals: CycleTotals
  readonly #claimRequest: LoadRequest
  #step: 'claim' | 'ack' | 'refill' = 'claim'
  #claimed = 0
  #refill: PublishSource | null = null // its batch is large, and most workers never need it

  /** @param openRefill for batches that are published when nothing is left to claim */
  constructor(options: CycleOptions, stream: number, openRefill: () => PublishSource, totals: CycleTotals) {
    this.#options = options
    this.#stream = stream
    this.#openRefill = openRefill
    this.#totals = totals
    const body = JSON.stringify({ max_messages: options.claim })
    this.#claimRequest = this.#post(`${groupPath(stream, options.group)}/claims`, body)
  }

  next(): LoadRequest {
    this.#step = 'claim'
    return this.#claimRequest
  }

  succeeded(response: HttpResponse): LoadRequest | TaskResult {
    switch (this.#step) {
      case 'claim':
        return this.#claimedThose(response.body)
      case 'ack':
        return this.#acknowledgedThose(response.body)
      case 'refill':
        this.#refill?.succeeded(response)
        return QUEUE_WAS_EMPTY
    }
  }

  unresolved(): void {
    if (this.#step === 'ack') this.#totals.unresolved += this.#claimed
  }

  #claimedThose(body: Buffer): LoadRequest {
    const deliveries = allTexts(body, DELIVERY_ID)
    this.#claimed = deliveries.length
    const [only] = deliveries
    if (only === undefined) {
      this.#step = 'refill'
      this.#refill ??= this.#openRefill()
      return this.#refill.publishTo(this.#stream)
    }
    const subscription = firstText(body, SUBSCRIPTION_ID)
    if (subscription === null) throw new UnreadableAnswerError('a claim without subscription_id')
    this.#step = 'ack'
    const path = `${streamPath(this.#stream)}/subscriptions/${subscription}/deliveries`
    return this.#options.claim === 1
      ? this.#post(`${path}/${only}/ack`, '')
      : this.#post(`${path}/batch-ack`, `{"delivery_ids":["${deliveries.join('","')}"]}`)
  }

  #acknowledgedThose(body: Buffer): TaskResult {
    const acknowledged = this.#options.claim === 1 ? 1 : lastNumber(body, ACKNOWLEDGED_COUNT)
    const refused = acknowledged === this.#claimed ? [] : batchResults(body).flatMap(({ refusal }) => refusal ?? [])
    this.#totals.completed += acknowledged
    const payloadBytes = acknowledged * this.#options.payloadBytes
    return { units: acknowledged, payloadBytes, bodyBytes: payloadBytes, refused }
  }

  #post(path: string, body: string): LoadRequest {
    return this.#options.requests.build('POST', path, body)
  }
}
