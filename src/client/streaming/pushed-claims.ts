/**
 * Serves the claims of a queue subscription from what the broker pushes: a claim gives credit for as many deliveries as it may take, and
 * resolves when some have come.
 *
 * P1  the broker has credit for no more than the deliveries that the last claim wants and that have not come
 * P2  after a connection was lost, the next claim opens one and subscribes anew, to the same stream if the broker has said which that is
 * P3  more deliveries may come than the claim waits for. They are kept for the next one, which may come late, so the subscription is told of
 *     all deliveries at once, and holds their leases from then on
 * P4  after the end deliveries may still come that the broker had sent before: only the subscription is told of these
 */
import type { ClaimBody } from '../../broker/wire/requests.ts'
import { CLAIM_MESSAGES_DEFAULT } from '../../broker/limits.ts'
import type { ClaimedDeliveries, Delivery, Stoppable } from '../broker-client.ts'
import { streamOf, tokenOf } from '../arguments.ts'
import { bodyOf } from '../http/wire.ts'
import type { PushedDeliveries } from '../queue-subscription.ts'
import type { SdkError } from '../sdk-error.ts'
import { aborted } from '../sdk-error.ts'
import type { PushTarget, Stream } from './stream.ts'

type PushingConnection = Pick<Stream, 'request' | 'listen' | 'unlisten'>

export class PushedClaims implements PushTarget, PushedDeliveries {
  readonly stream: string
  readonly group: string
  readonly #connection: PushingConnection
  #came: Delivery[] = []
  /** P3 */
  #told: (deliveries: readonly Delivery[]) => void = () => {}
  #isOver = false
  /** P1 */
  #credit = 0
  /** Id of the subscription; null: there is none. */
  #id: number | null = null
  #wake: (() => void) | null = null
  #failure: SdkError | null = null
  /** P2 */
  #streamCreatedAtMs: number | undefined

  constructor(connection: PushingConnection, stream: string, group: string) {
    this.#connection = connection
    this.stream = streamOf(stream)
    this.group = tokenOf(group, 'consumer group')
  }

  async claim(limits: ClaimBody, { signal }: Stoppable): Promise<ClaimedDeliveries> {
    const { max_messages, lease_timeout_millis, start_offset } = limits
    const stream_created_at_ms = limits.stream_created_at_ms ?? this.#streamCreatedAtMs // P2, also before a claim was answered
    if (this.#came.length === 0) {
      const options = { lease_timeout_millis, start_offset, stream_created_at_ms }
      this.#want(max_messages ?? CLAIM_MESSAGES_DEFAULT, options)
      await this.#arrival(signal)
    }
    const failure = this.#failure
    this.#failure = null
    if (failure !== null && this.#came.length === 0) throw failure
    const deliveries = this.#came
    this.#came = []
    return {
      api_version: 'v1',
      stream: this.stream,
      consumer_group: this.group,
      subscription_id: deliveries[0]?.subscription_id ?? '',
      deliveries,
      next_offset: (deliveries.at(-1)?.offset ?? -1) + 1,
      delivery_count: deliveries.length,
      ...(this.#streamCreatedAtMs !== undefined && { stream_created_at_ms: this.#streamCreatedAtMs }),
    }
  }

  onCame(told: (deliveries: readonly Delivery[]) => void): void {
    this.#told = told
  }

  drop(delivery: Delivery): boolean {
    const at = this.#came.indexOf(delivery)
    if (at >= 0) this.#came.splice(at, 1)
    return at >= 0
  }

  end(): readonly Delivery[] {
    this.#isOver = true
    const id = this.#id
    if (id !== null) {
      this.#id = null
      this.#unsubscribe(id)
    }
    const left = this.#came
    this.#came = []
    return left
  }

  delivered(deliveries: readonly Delivery[]): void {
    this.#credit -= deliveries.length
    if (!this.#isOver) this.#came.push(...deliveries) // P4
    this.#told(deliveries)
    this.#wake?.()
  }

  /** P2 */
  ended(error: SdkError): void {
    this.#id = null
    this.#credit = 0
    this.#failure = error
    this.#wake?.()
  }

  #want(max: number, limits: object): void {
    const missing = max - this.#credit
    if (missing <= 0 && this.#id !== null) return
    if (this.#id !== null) {
      this.#addCredit(this.#id, missing)
      this.#credit += missing
      return
    }
    const { stream, group: consumer_group } = this
    const id = this.#connection.request(
      bodyOf({ op: 'subscribe', stream, consumer_group, credit: 0, ...limits }),
      { answered: () => {}, failed: (error) => this.#refused(id, error as SdkError) }, // a stream fails with SdkErrors only
    )
    this.#id = id
    this.#connection.listen(id, this)
    this.#addCredit(id, max) // P2: its answer says which stream it is, that of `subscribe` does not
    this.#credit = max
  }

  /** A failure needs no handling here, as the subscription fails, too. */
  #addCredit(subscription: number, credit: number): void {
    this.#connection.request(bodyOf({ op: 'credit', subscription, credit }), {
      answered: (frame) => {
        const { stream_created_at_ms } = JSON.parse(frame.text()) as { readonly stream_created_at_ms?: number }
        this.#streamCreatedAtMs ??= stream_created_at_ms
      },
      failed: () => {},
    })
  }

  /** Called when the broker refused the subscription. */
  #refused(id: number, error: SdkError): void {
    this.#connection.unlisten(id)
    if (this.#id === id) this.ended(error)
  }

  /** P4. Nothing comes behind the answer. If there is none, the connection is lost, and has forgotten the subscription. */
  #unsubscribe(subscription: number): void {
    const answered = (): void => this.#connection.unlisten(subscription)
    this.#connection.request(bodyOf({ op: 'unsubscribe', subscription }), { answered, failed: answered })
  }

  #arrival(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (): void => {
        this.#wake = null
        signal?.removeEventListener('abort', stop)
      }
      const stop = (): void => {
        over()
        reject(aborted())
      }
      this.#wake = () => {
        over()
        resolve()
      }
      if (this.#failure !== null || this.#came.length > 0) return this.#wake()
      if (signal?.aborted) return stop()
      signal?.addEventListener('abort', stop, { once: true })
    })
  }
}
