/**
 * Pushes deliveries to one client: claims wait for records, within the credit that the client gave.
 *
 * P1  a subscription has at most one claim under way, for no more deliveries than it has credit left
 * P2  while the client has too much left to read, nothing is claimed for it: deliveries under way are bounded by the credit, and by
 *     PUSH_BYTES_MAX or one record for each subscription
 * P3  a claim is given back if its subscription is over when the answer comes
 * P4  a refused claim ends the subscription. So does the first claim after its stream was deleted, even if another stream has the name
 */
import type { GroupPath, Pushed, PushedClaim, PushRequest, StreamingOperations, StreamPin } from '../operations.ts'
import type { Caller } from '../operations.ts'
import { PUSH_BYTES_MAX, PUSH_BYTES_MIN } from './limits.ts'
import { CLAIM_MESSAGES_MAX } from '../limits.ts'

export interface NewSubscription extends Pick<PushRequest, 'startOffset' | 'leaseMs' | 'form'> {
  /** Id that the client chose. */
  readonly id: number
  readonly path: GroupPath
  readonly credit: number
  /** Most deliveries of one claim. */
  readonly max: number
  /** Creation time of the stream that the client means; null: the stream that has the name. */
  readonly streamCreatedAtMs: number | null
}

/** What is left of a subscription's credit, and when its stream was created, once that is known. */
export interface CreditLeft {
  readonly credit: number
  readonly streamCreatedAtMs: number | null
}

export interface PushesParts {
  readonly operations: Pick<StreamingOperations, 'push'>
  /** P3 */
  readonly releaseClaims: (claims: readonly PushedClaim[]) => void
  readonly caller: () => Caller
  /** Most credit that a subscription may have. */
  readonly creditMax: number
  /** P2 */
  readonly isHeldBack: () => boolean
  readonly deliver: (subscription: NewSubscription, pushed: Pushed) => void
  /** P4 */
  readonly ended: (subscription: NewSubscription, error: unknown) => void
  /** Called when a claim is no longer under way. */
  readonly idle: () => void
  readonly defer: (run: () => void) => void
}

class Subscription {
  readonly given: NewSubscription
  readonly pin: StreamPin
  credit: number
  isClaiming = false
  isOver = false
  /** Ends the wait of the claim that is under way. */
  abandon: () => void = () => {}

  constructor(given: NewSubscription) {
    this.given = given
    this.pin = { number: null, createdAtMs: given.streamCreatedAtMs }
    this.credit = given.credit
  }
}

export class Pushes {
  readonly #parts: PushesParts
  readonly #subscriptions = new Map<number, Subscription>()
  /** Claims under way, those of subscriptions that are over included. */
  #claims = 0

  constructor(parts: PushesParts) {
    this.#parts = parts
  }

  get count(): number {
    return this.#subscriptions.size
  }

  get isClaiming(): boolean {
    return this.#claims > 0
  }

  has(id: number): boolean {
    return this.#subscriptions.has(id)
  }

  /** Subscriptions that are open now. */
  get open(): readonly NewSubscription[] {
    return Array.from(this.#subscriptions.values(), ({ given }) => given)
  }

  begin(given: NewSubscription): void {
    const subscription = new Subscription(given)
    this.#subscriptions.set(given.id, subscription)
    this.#claim(subscription)
  }

  /** Null: there is no such subscription. */
  addCredit(id: number, credit: number): CreditLeft | null {
    const subscription = this.#subscriptions.get(id)
    if (subscription === undefined) return null
    subscription.credit = Math.min(this.#parts.creditMax, subscription.credit + credit)
    this.#claim(subscription)
    return { credit: subscription.credit, streamCreatedAtMs: subscription.pin.createdAtMs }
  }

  /** False: there is no such subscription. */
  end(id: number): boolean {
    const subscription = this.#subscriptions.get(id)
    if (subscription === undefined) return false
    this.#subscriptions.delete(id)
    subscription.isOver = true
    subscription.abandon()
    return true
  }

  endAll(): void {
    for (const id of this.#subscriptions.keys()) this.end(id)
  }

  /** Called when the client has read something. */
  resume(): void {
    for (const subscription of this.#subscriptions.values()) this.#claim(subscription)
  }

  /** P1, P2 */
  #claim(subscription: Subscription): void {
    const { given, pin, credit, isClaiming, isOver } = subscription
    const { operations, caller, isHeldBack } = this.#parts
    if (isClaiming || isOver || credit === 0 || isHeldBack()) return
    const { path, startOffset, leaseMs, form } = given
    const max = Math.min(credit, given.max, CLAIM_MESSAGES_MAX)
    const bytesMax = Math.max(PUSH_BYTES_MIN, Math.floor(PUSH_BYTES_MAX / this.#subscriptions.size))
    subscription.isClaiming = true
    this.#claims += 1
    const abandonedSignal = {
      onAbandoned: (listener: () => void) => {
        if (subscription.isOver) listener()
        else subscription.abandon = listener
      },
    }
    operations.push(
      {
        answered: (pushed) => this.#answered(subscription, pushed),
        refused: (error) => this.#refused(subscription, error),
      },
      caller(),
      path,
      { pin, startOffset, max, leaseMs, bytesMax, form },
      abandonedSignal,
    )
  }

  #answered(subscription: Subscription, pushed: Pushed | null): void {
    this.#claimed(subscription)
    if (pushed !== null && subscription.isOver) this.#parts.releaseClaims([pushed.claim]) // P3
    else if (pushed !== null) {
      subscription.credit -= pushed.claim.deliveries.length
      this.#parts.deliver(subscription.given, pushed)
      this.#claim(subscription)
    } else if (!subscription.isOver) this.#parts.defer(() => this.#claim(subscription)) // deferred, as a claim that is answered at once would recurse here
    this.#parts.idle()
  }

  /** P4 */
  #refused(subscription: Subscription, error: unknown): void {
    this.#claimed(subscription)
    if (this.end(subscription.given.id)) this.#parts.ended(subscription.given, error)
    this.#parts.idle()
  }

  #claimed(subscription: Subscription): void {
    subscription.isClaiming = false
    subscription.abandon = () => {}
    this.#claims -= 1
  }
}
