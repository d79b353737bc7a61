/**
 * Leases of deliveries that a subscription has claimed, renewed while they are needed.
 *
 * H1  when half of a lease is over, it is renewed to its full length, for as long as its terms allow
 * H2  a lease is lost once: the broker says that it is over, or its time has passed while the broker could not be reached. Time is counted
 *     from before the broker was asked for a renewal, so that no renewed lease is believed in for too long. Before the first renewal it is
 *     counted from when the delivery came: nobody knows how long a claim waited in the broker
 * H3  while a call settles a delivery, its lease is neither renewed nor lost: the call tells its caller. When the broker has settled it, or
 *     says that there is nothing left to settle, the lease is held no more. A dead-letter whose target does not exist says no such thing, though
 *     it is refused with the same code as one whose stream is gone
 */
import type { BrokerClient, Delivery, DeliveryName } from './broker-client.ts'
import type { ClientTimers } from './pause.ts'
import { SdkError } from './sdk-error.ts'

export interface LeaseTerms {
  readonly leaseMs: number
  /** How long a delivery is renewed after its claim. */
  readonly renewForMs: number
  /** H2 */
  readonly onLost: (delivery: Delivery, error: SdkError) => void
}

interface Lease {
  readonly delivery: Delivery
  readonly keeper: LeaseKeeper
  readonly heldSinceMs: number
  expiresAtMs: number
  isRenewing: boolean
  /** Calls that are about to settle it. */
  settling: number
}

/** Codes that mean: no worker can settle this delivery any more. */
const OVER: ReadonlySet<string> = new Set([
  'lease_expired',
  'lease_not_active',
  'delivery_not_found',
  'missing_stream',
  'stream_not_found',
])
/** H3 */
const MAY_BE_TARGET = 'missing_stream'
const isOver = (error: unknown): error is SdkError => error instanceof SdkError && OVER.has(error.code)

/** How often leases are checked during the length of one. */
const LOOKS_PER_LEASE = 8
const LOOK_MS_MIN = 5
const LOOK_MS_MAX = 5000

/** All leases that the subscriptions of a client hold. */
export class HeldLeases {
  readonly #leases = new Map<string, Lease>()

  /** H3. @param names as the caller of the client gave them, unchecked @param hasTarget true for a dead-letter */
  async settling<T>(names: readonly DeliveryName[], call: () => Promise<T>, hasTarget = false): Promise<T> {
    if (this.#leases.size === 0) return call()
    const leases = names.flatMap((name) => this.#leases.get(name?.delivery_id) ?? [])
    for (const lease of leases) lease.settling += 1
    try {
      const reply = await call()
      leases.forEach(endOf)
      return reply
    } catch (error) {
      if (isOver(error) && !(hasTarget && error.code === MAY_BE_TARGET)) leases.forEach(endOf)
      throw error
    } finally {
      for (const lease of leases) lease.settling -= 1
    }
  }

  add(lease: Lease): void {
    this.#leases.set(lease.delivery.delivery_id, lease)
  }

  remove({ delivery }: Lease): void {
    this.#leases.delete(delivery.delivery_id)
  }
}

const endOf = (lease: Lease): void => lease.keeper.end(lease.delivery)

/** The leases of one subscription. */
export class LeaseKeeper {
  readonly #client: Pick<BrokerClient, 'renewLease'>
  readonly #timers: ClientTimers
  readonly #terms: LeaseTerms
  readonly #all: HeldLeases
  readonly #leases = new Map<string, Lease>()
  #cancelLook: (() => void) | null = null

  constructor(client: Pick<BrokerClient, 'renewLease'>, timers: ClientTimers, terms: LeaseTerms, all: HeldLeases) {
    this.#client = client
    this.#timers = timers
    this.#terms = terms
    this.#all = all
  }

  hold(delivery: Delivery): void {
    const nowMs = this.#timers.nowMs()
    const expiresAtMs = nowMs + delivery.lease_remaining_millis
    const lease = { delivery, keeper: this, heldSinceMs: nowMs, expiresAtMs, isRenewing: false, settling: 0 }
    this.#leases.set(delivery.delivery_id, lease)
    this.#all.add(lease)
    this.#lookLater()
  }

  holds({ delivery_id }: DeliveryName): boolean {
    return this.#leases.has(delivery_id)
  }

  /** Called when the delivery is settled, or of no interest any more. */
  end({ delivery_id }: DeliveryName): void {
    const lease = this.#leases.get(delivery_id)
    if (lease === undefined) return
    this.#leases.delete(delivery_id)
    this.#all.remove(lease)
    if (this.#leases.size === 0) this.#stopLooking()
  }

  /** Stops all renewals. Deliveries that are not settled keep their leases until these expire. */
  close(): void {
    for (const { delivery } of this.#leases.values()) this.end(delivery)
  }

  /** H2 */
  lose(delivery: Delivery, error: SdkError): void {
    if (!this.holds(delivery)) return
    this.end(delivery)
    this.#terms.onLost(delivery, error)
  }

  #lookLater(): void {
    const delayMs = Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, this.#terms.leaseMs / LOOKS_PER_LEASE))
    this.#cancelLook ??= this.#timers.wait(delayMs, () => this.#look())
  }

  #stopLooking(): void {
    this.#cancelLook?.()
    this.#cancelLook = null
  }

  #look(): void {
    this.#cancelLook = null
    const nowMs = this.#timers.nowMs()
    const { leaseMs, renewForMs } = this.#terms
    for (const lease of this.#leases.values()) {
      if (lease.settling > 0) continue // H3
      if (nowMs >= lease.expiresAtMs) this.lose(lease.delivery, timePassed())
      else if (lease.isRenewing || nowMs - lease.heldSinceMs >= renewForMs) continue
      else if (nowMs >= lease.expiresAtMs - leaseMs / 2) void this.#renew(lease, nowMs)
    }
    if (this.#leases.size > 0) this.#lookLater()
  }

  /** H1. If a renewal fails while the lease lasts, it is tried again at the next look. */
  async #renew(lease: Lease, nowMs: number): Promise<void> {
    const missingMs = Math.ceil(nowMs + this.#terms.leaseMs - lease.expiresAtMs)
    lease.isRenewing = true
    try {
      const { lease: renewed } = await this.#client.renewLease(lease.delivery, { extend_by_millis: missingMs })
      lease.expiresAtMs = nowMs + renewed.lease_remaining_millis
    } catch (error) {
      if (isOver(error) && lease.settling === 0) this.lose(lease.delivery, error)
    } finally {
      lease.isRenewing = false
    }
  }
}

const timePassed = (): SdkError => new SdkError('Transport', 'lease_expired', 'the lease expired before it was renewed')
