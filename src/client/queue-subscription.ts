/**
 * Deliveries of a consumer group as they come: taken one by one in a loop, or handled by several workers at a time.
 *
 * Q1  at most one claim is under way, and at most `prefetch` deliveries are claimed and not handed out; without prefetch, those of one claim
 *     of `max_messages`. The next claim is made when half of them are handed out; without prefetch, when all are
 * Q2  it ends when its loop is left, when it is told to stop, or by throwing an error that retries did not overcome. Deliveries that were
 *     claimed and not handed out are given back then; if that fails, they come back when their leases expire
 * Q3  as long as it lives, it renews the leases of deliveries that it handed out or still holds (leases.ts). It reports a lost lease, and
 *     never hands out a delivery whose lease was lost. A loop that is not continued lives until the client is closed
 * Q4  a handler that returns acknowledges its delivery, one that throws gives it back as failed, unless it settled the delivery itself or the
 *     lease was lost. Deliveries that are being handled when it is told to stop are waited for, and settled as before: only
 *     closing the client ends these calls
 * Q5  it keeps to the stream of its first claim: a later stream of the same name is not found
 */
import { CLAIM_MESSAGES_MAX, CLAIM_WAIT_MS_MAX, LEASE_TIMEOUT_MS_DEFAULT } from '../broker/limits.ts'
import type { ClaimBody } from '../broker/wire/requests.ts'
import type {
  BrokerClient,
  Delivery,
  DeliveryHandler,
  QueueSubscription,
  QueueSubscriptionOptions,
  Subscription,
} from './broker-client.ts'
import { LeaseKeeper } from './leases.ts'
import type { HeldLeases } from './leases.ts'
import type { ClientTimers } from './pause.ts'
import { checkPolicy } from './retry.ts'
import { SdkError, invalidConfig, mayHaveHappened } from './sdk-error.ts'
import type { SubscriptionParts } from './subscriptions.ts'

export interface QueueClient extends Pick<
  BrokerClient,
  'claimQueue' | 'ack' | 'nack' | 'renewLease' | 'retryDelivery'
> {
  /** For a subscription to which deliveries are pushed. */
  readonly pushed?: PushedDeliveries
}

/** Deliveries that the broker pushed and no claim took. */
export interface PushedDeliveries {
  /** @param told called with all deliveries as they come, those that come after the end included */
  onCame(told: (deliveries: readonly Delivery[]) => void): void
  /** Forgets a delivery. @returns false when it is not among them */
  drop(delivery: Delivery): boolean
  /** Stops the pushes. @returns what came and no claim took */
  end(): readonly Delivery[]
}

export interface QueueParts {
  readonly client: QueueClient
  readonly stream: string
  readonly group: string
  readonly options: QueueSubscriptionOptions
  readonly retrying: SubscriptionParts['retrying']
  readonly timers: ClientTimers
  readonly leases: HeldLeases
  readonly stop: AbortSignal
  /** Aborted when the client closes, before `stop` or together with it. */
  readonly closing: AbortSignal
  /** Makes an id for each claim, so that it can be repeated; null: an answer cannot get lost. */
  readonly claimId: (() => string) | null
}

const RENEW_FOR_MS_DEFAULT = 3_600_000
const CONCURRENCY_MAX = 1000
const GIVEN_BACK = { reason: 'the subscription ended', delay_millis: 0 }
const FAILED = { reason: 'the handler failed', requeue: true }

export class ClaimingSubscription implements QueueSubscription {
  readonly #open: () => QueueParts
  readonly #ended = new AbortController()
  readonly #deliveries: Subscription<Delivery>
  #claims: Claims | null = null
  #isHandling = false

  /** @param open called when the first delivery is asked for; that call throws what `open` throws */
  constructor(open: () => QueueParts) {
    this.#open = open
    this.#deliveries = this.#deliver()
  }

  next(): Promise<IteratorResult<Delivery, void>> {
    return this.#deliveries.next()
  }

  return(): Promise<IteratorResult<Delivery, void>> {
    this.#ended.abort() // otherwise it would wait for the claim that is under way
    return this.#deliveries.return()
  }

  throw(error: unknown): Promise<IteratorResult<Delivery, void>> {
    this.#ended.abort()
    return this.#deliveries.throw(error)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Q4 */
  async handle(handler: DeliveryHandler): Promise<void> {
    this.#isHandling = true
    const claims = this.#claimsOf()
    try {
      const workers = Array.from({ length: claims.concurrency }, () => this.#work(claims, handler))
      const failed = (await Promise.allSettled(workers)).find(({ status }) => status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
    } finally {
      claims.leases.close()
    }
  }

  async #work(claims: Claims, handler: DeliveryHandler): Promise<void> {
    try {
      for (let next = await this.next(); !next.done; next = await this.next()) {
        await claims.handle(next.value, handler)
      }
    } catch (error) {
      this.#ended.abort() // the other workers end as well
      throw error
    }
  }

  async *#deliver(): Subscription<Delivery> {
    const claims = this.#claimsOf()
    const onClosing = (): void => claims.leases.close()
    if (!this.#isHandling) claims.closing.addEventListener('abort', onClosing, { once: true })
    try {
      for (let next = await claims.take(); next !== null; next = await claims.take()) yield next
    } finally {
      this.#ended.abort()
      await claims.ended()
      claims.closing.removeEventListener('abort', onClosing)
      if (!this.#isHandling) claims.leases.close()
    }
  }

  #claimsOf(): Claims {
    this.#claims ??= new Claims(this.#open(), this.#ended.signal)
    return this.#claims
  }
}

/** The claimed deliveries of a subscription, until they are settled. */
class Claims {
  readonly leases: LeaseKeeper
  readonly concurrency: number
  readonly #parts: QueueParts
  #limits: ClaimBody
  readonly #onLeaseLost: QueueSubscriptionOptions['onLeaseLost']
  readonly #onHandlerError: QueueSubscriptionOptions['onHandlerError']
  readonly #prefetch: number
  readonly #stop: AbortSignal
  readonly #waiting: Delivery[] = []
  /** Deliveries that are being handled. */
  readonly #handling = new Map<Delivery, AbortController>()
  #claiming: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  #givingBack: Promise<unknown> = Promise.resolve()

  /** @throws SdkError InvalidConfig */
  constructor(parts: QueueParts, ended: AbortSignal) {
    const {
      prefetch,
      concurrency,
      renew_for_millis,
      retry,
      onLeaseLost,
      onHandlerError,
      signal: _,
      ...limits
    } = parts.options
    this.#parts = parts
    this.#limits = limits
    this.#onLeaseLost = onLeaseLost
    this.#onHandlerError = onHandlerError
    this.#prefetch = integerOf('prefetch', prefetch ?? 0, 0, CLAIM_MESSAGES_MAX)
    this.concurrency = integerOf('concurrency', concurrency ?? 1, 1, CONCURRENCY_MAX)
    const renewForMs = integerOf(
      'renew_for_millis',
      renew_for_millis ?? RENEW_FOR_MS_DEFAULT,
      0,
      Number.MAX_SAFE_INTEGER,
    )
    if (retry !== undefined) checkPolicy(retry)
    this.#stop = AbortSignal.any([parts.stop, ended])
    const leaseMs = limits.lease_timeout_millis ?? LEASE_TIMEOUT_MS_DEFAULT
    const onLost = (delivery: Delivery, error: SdkError): void => this.#lost(delivery, error)
    this.leases = new LeaseKeeper(parts.client, parts.timers, { leaseMs, renewForMs, onLost }, parts.leases)
    this.#stop.addEventListener('abort', () => this.#giveBack(), { once: true })
    parts.client.pushed?.onCame((deliveries) => this.#came(deliveries))
  }

  get closing(): AbortSignal {
    return this.#parts.closing
  }

  /** The next delivery. Null: the subscription was told to stop. */
  async take(): Promise<Delivery | null> {
    while (!this.#stop.aborted) {
      const next = this.#waiting.shift()
      if (next !== undefined) {
        if (this.#prefetch > 0) this.#claimMore()
        return next
      }
      if (this.#failure !== null) throw this.#failure.error
      this.#claimMore()
      await this.#claiming
    }
    return null
  }

  /** For a subscription that was told to stop. Resolves when everything is given back. */
  async ended(): Promise<void> {
    await this.#claiming
    await this.#givingBack
  }

  /** Q4 */
  async handle(delivery: Delivery, handler: DeliveryHandler): Promise<void> {
    const { client } = this.#parts
    if (!this.leases.holds(delivery)) return // the lease was lost before a handler was free
    const lost = new AbortController()
    this.#handling.set(delivery, lost)
    try {
      await handler(delivery, lost.signal)
      await this.#settle(delivery, () => client.ack(delivery))
    } catch (error) {
      this.#onHandlerError?.(delivery, error)
      await this.#settle(delivery, () => client.nack(delivery, FAILED))
    } finally {
      this.#handling.delete(delivery)
    }
  }

  /** Never rejects. A delivery that cannot be settled goes to another worker when its lease expires. */
  async #settle(delivery: Delivery, call: () => Promise<unknown>): Promise<void> {
    if (!this.leases.holds(delivery)) return
    let mayBeSettled = false
    const isWorthIt = (error: SdkError): boolean => {
      mayBeSettled ||= mayHaveHappened(error)
      return error.retryable || mayHaveHappened(error)
    }
    try {
      await this.#parts.retrying(call, isWorthIt, this.closing)
    } catch (error) {
      const failure =
        error instanceof SdkError ? error : new SdkError('Transport', 'bad_answer', 'a bug', { cause: error })
      if (mayBeSettled && failure.code === 'lease_not_active') return // an earlier try reached the broker
      this.leases.end(delivery)
      this.#lost(delivery, failure)
    }
  }

  /** Q1 */
  #claimMore(): void {
    const prefetch = this.#prefetch
    const isEnough = this.#waiting.length > prefetch / 2
    if (isEnough || this.#claiming !== null || this.#failure !== null || this.#stop.aborted) return
    const { max_messages } = this.#limits
    const room = prefetch - this.#waiting.length
    const max = prefetch === 0 ? {} : { max_messages: Math.min(max_messages ?? CLAIM_MESSAGES_MAX, room) }
    this.#claiming = this.#claim({ ...this.#limits, ...max, wait_millis: CLAIM_WAIT_MS_MAX })
  }

  async #claim(limits: ClaimBody): Promise<void> {
    const { client, stream, group, retrying, claimId } = this.#parts
    const body = claimId === null ? limits : { ...limits, claim_id: claimId() }
    try {
      const claimed = await retrying(() => client.claimQueue(stream, group, body, { signal: this.#stop }))
      const { deliveries, stream_created_at_ms } = claimed
      if (stream_created_at_ms !== undefined) this.#limits = { ...this.#limits, stream_created_at_ms } // Q5
      if (client.pushed === undefined) for (const delivery of deliveries) this.leases.hold(delivery)
      this.#waiting.push(...deliveries)
      if (this.#stop.aborted) this.#giveBack()
    } catch (error) {
      if (!this.#stop.aborted) this.#failure = { error }
    } finally {
      this.#claiming = null
    }
    if (this.#prefetch > 0) this.#claimMore()
  }

  /** Deliveries that were pushed. Their leases are held from now on, though a claim may take them much later (Q3). */
  #came(deliveries: readonly Delivery[]): void {
    if (this.#stop.aborted) return this.#giveBackAll(deliveries)
    for (const delivery of deliveries) this.leases.hold(delivery)
  }

  /** Q2 */
  #giveBack(): void {
    this.#giveBackAll([...this.#waiting.splice(0), ...(this.#parts.client.pushed?.end() ?? [])])
  }

  #giveBackAll(returned: readonly Delivery[]): void {
    const { client } = this.#parts
    if (returned.length === 0) return
    for (const delivery of returned) this.leases.end(delivery)
    const calls = returned.map((delivery) => client.retryDelivery(delivery, GIVEN_BACK))
    this.#givingBack = Promise.allSettled([this.#givingBack, ...calls])
  }

  /** Q3 */
  #lost(delivery: Delivery, error: SdkError): void {
    if (this.#parts.client.pushed?.drop(delivery)) return
    const kept = this.#waiting.indexOf(delivery)
    if (kept >= 0) {
      this.#waiting.splice(kept, 1)
      return
    }
    this.#handling.get(delivery)?.abort(error)
    this.#onLeaseLost?.(delivery, error)
  }
}

function integerOf(name: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value
  throw invalidConfig(`${name} must be an integer from ${min} to ${max}`)
}
