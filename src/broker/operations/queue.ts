/**
 * Resolves and renews deliveries of the shared queue, and applies expired leases and due delays. Source: specification "Queue delivery and
 * lease", "Shared queue".
 *
 * Q1  a delivery has one resolution: a request is decided on the state after all frames appended before it
 */
import { replied } from '../../engine/decision.ts'
import type { Decision, NewFrame } from '../../engine/decision.ts'
import { takesFrames } from '../../log/log-options.ts'
import { Queue as Fifo } from '../../queue.ts'
import type { Change } from '../frames/change.ts'
import { DEAD_LETTER_HOPS_MAX } from '../limits.ts'
import type { AckedPairs, Caller, DeliveryPath } from '../operations.ts'
import { BrokerError, refuse } from '../refusals.ts'
import { keptReason } from '../state/reasons.ts'
import type { DeliveryName, SubscriptionName } from '../tokens.ts'
import type * as wire from '../wire/types.ts'
import { NOT_STORED } from '../engine/core.ts'
import type { Core } from '../engine/core.ts'
import type { DeadLetterOrder, DeliveryOutcomes, Failed, PolicyOutcome } from './delivery-outcomes.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { Group, StreamState } from '../state/state.ts'

const FAILURE = 'queue_state_persistence_failed'
/** Expiries that one request or tick works off at most, so that a million of them do not block the main thread. */
const EXPIRIES_MAX = 5000
const TICK_MS = 20
/** Failure policies that are tried again with one tick. */
const AGAIN_MAX = 100
/** After this time a failed policy is tried again; at once when the log begins to take frames again. */
const AGAIN_AFTER_MS = 1000
const WARN_EVERY_MS = 10_000

/** An active delivery that a request names. */
interface Active extends Failed {
  readonly leasedAtMs: number
  readonly expiresAtMs: number
}

/** An expired lease whose failure policy could not be applied. */
interface Unapplied {
  readonly expired: Failed
  readonly failedAtMs: number
}

/** A delivery as a request names it; null: the id is not one of ours. */
interface Named {
  readonly subscription: SubscriptionName | null
  readonly delivery: DeliveryName | null
  /** Equal keys name the same delivery. */
  readonly key: string | null
}

export class Queue {
  readonly #core: Core
  readonly #outcomes: DeliveryOutcomes
  readonly #stopTicking: () => void
  readonly #unapplied = new Fifo<Unapplied>()
  #takesFramesSinceMs = 0
  #warnedAtMs = -Infinity

  constructor(core: Core, outcomes: DeliveryOutcomes) {
    this.#core = core
    this.#outcomes = outcomes
    core.onVisible((stream) => core.engine.parked.wake(stream.number))
    core.log.onStateChange((state) => {
      if (takesFrames(state)) this.#takesFramesSinceMs = core.time.nowMs()
    })
    this.#stopTicking = core.timers.every(TICK_MS, () => this.#tick())
  }

  close(): void {
    this.#stopTicking()
  }

  // Resolutions

  ack(caller: Caller, path: DeliveryPath): Decision<wire.AckReply, Change> {
    const core = this.#core
    const active = this.#active(caller, path)
    if (active instanceof Error) return active
    const { group, offset, attempt } = active
    const atMs = core.time.nowMs()
    return {
      kind: 'change',
      frame: this.#acknowledgement([active], atMs),
      reply: () => ({
        ...identityOf(path, group),
        offset,
        attempt,
        acknowledged_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  batchAck(
    caller: Caller,
    stream: string,
    subscriptionId: string,
    body: wire.BatchAckBody,
  ): Decision<wire.BatchAckReply, Change> {
    const { delivery_ids: ids } = body
    const { subscription, deliveries } = this.#core.tokens.open(subscriptionId, ids)
    const named = deliveries.map((delivery, i) => ({ subscription, delivery, key: ids[i]! }))
    return this.#ackAll(caller, stream, named, ({ acknowledgedAtMs, acknowledgement, results }) => ({
      api_version: 'v1',
      stream,
      subscription_id: subscriptionId,
      acknowledged_count: results.filter((each) => !(each instanceof BrokerError)).length,
      acknowledged_at_ms: acknowledgedAtMs,
      results: results.map((each, i) => {
        const delivery_id = ids[i]!
        if (each instanceof BrokerError) return { delivery_id, error: each.detail }
        return { delivery_id, offset: each.offset, attempt: each.attempt }
      }),
      acknowledgement,
    }))
  }

  /** As `batchAck`, for deliveries of any claims, with ids as bytes. */
  ackPairs(caller: Caller, stream: string, ids: Uint8Array): Decision<AckedPairs, Change> {
    const named = this.#core.tokens.openPairs(ids).map(({ subscription, delivery }) => {
      return {
        subscription,
        delivery,
        key: delivery && `${delivery.groupNumber}/${delivery.offset}/${delivery.attempt}`,
      }
    })
    return this.#ackAll(caller, stream, named, (acked) => acked)
  }

  /** Acknowledges the good ones in one frame; each bad one is refused by itself. */
  #ackAll<Reply>(
    caller: Caller,
    stream: string,
    named: readonly Named[],
    replyOf: (acked: AckedPairs) => Reply,
  ): Decision<Reply, Change> {
    const core = this.#core
    const from = core.stream(caller, stream, 'missing_stream')
    if (from instanceof Error) return from
    const acknowledgedAtMs = core.time.nowMs()
    const good: Active[] = []
    const seen = new Set<string>()
    const results = named.map(({ subscription, delivery, key }) => {
      if (key !== null && seen.has(key)) return refuse('lease_not_active', 'the delivery is named twice')
      const active = this.#leased(from, subscription, delivery)
      if (active instanceof Error) return active
      if (key !== null) seen.add(key)
      good.push(active)
      return { group: active.group.name, offset: active.offset, attempt: active.attempt }
    })
    const reply = replyOf({ acknowledgedAtMs, acknowledgement: core.acknowledgement, results })
    if (good.length === 0) return replied(reply)
    return { kind: 'change', frame: this.#acknowledgement(good, acknowledgedAtMs), reply: () => reply }
  }

  /** All in one frame; each is counted when it is stored. */
  #acknowledgement(deliveries: readonly Active[], atMs: number): NewFrame<Change> {
    const { counters } = this.#core
    const acks = deliveries.map(({ group, offset, attempt }) => ({
      group,
      verb: 'ack' as const,
      offset,
      attempt,
      atMs,
      valueMs: 0,
    }))
    return this.#outcomes.resolution(acks, () => {
      for (const { leasedAtMs } of deliveries) counters.acked(atMs - leasedAtMs)
    })
  }

  nack(caller: Caller, path: DeliveryPath, body: wire.NackBody): Decision<wire.NackReply, Change> {
    const core = this.#core
    const active = this.#active(caller, path)
    if (active instanceof Error) return active
    const { group, offset, attempt } = active
    const identity = { ...identityOf(path, group), offset, attempt, acknowledgement: core.acknowledgement }
    const nacked = (): void => core.counters.nacked()
    if (!body.requeue) {
      const why = { atMs: core.time.nowMs(), reason: keptReason(body.reason) }
      return {
        kind: 'change',
        frame: this.#outcomes.resolution([{ group, verb: 'nack', offset, attempt, valueMs: 0, ...why }], nacked),
        reply: () => ({ ...identity, will_redeliver: false, policy_action: 'none' }),
      }
    }
    const order = { reason: body.reason, cause: 'policy', ...caller } as const
    const again = (): Active | Error => this.#active(caller, path)
    const replyOf = (outcome: PolicyOutcome): wire.NackReply => ({ ...identity, ...policyReply(outcome) })
    return this.#outcomes.applyPolicy(active, again, order, replyOf, nacked)
  }

  renew(caller: Caller, path: DeliveryPath, body: wire.RenewBody): Decision<wire.RenewReply, Change> {
    const core = this.#core
    const active = this.#active(caller, path)
    if (active instanceof Error) return active
    const { group, offset, attempt, leasedAtMs, expiresAtMs: before } = active
    const expiresAtMs = before + body.extend_by_millis
    if (expiresAtMs > Number.MAX_SAFE_INTEGER) {
      return refuse('invalid_request', 'extend_by_millis would move the expiry past 2^53 - 1 ms')
    }
    const atMs = core.time.nowMs()
    const resolution = { group, verb: 'renew', offset, attempt, atMs, valueMs: expiresAtMs } as const
    return {
      kind: 'change',
      frame: this.#outcomes.resolution([resolution], () => core.counters.renewed()),
      reply: () => ({
        ...identityOf(path, group),
        lease: {
          consumer_group: group.name,
          offset,
          attempt,
          state: 'active',
          leased_at_ms: leasedAtMs,
          lease_expires_at_ms: expiresAtMs,
          lease_remaining_millis: Math.max(0, expiresAtMs - core.time.nowMs()),
        },
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  retry(caller: Caller, path: DeliveryPath, body: wire.RetryBody): Decision<wire.RetryReply, Change> {
    const core = this.#core
    const active = this.#active(caller, path)
    if (active instanceof Error) return active
    const { group, offset, attempt } = active
    const { frame, availableAtMs } = this.#outcomes.release(active, body.delay_millis, body.reason, () =>
      core.counters.retried(),
    )
    return {
      kind: 'change',
      frame,
      reply: () => ({
        ...identityOf(path, group),
        offset,
        attempt,
        available_at_ms: availableAtMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  deadLetter(caller: Caller, path: DeliveryPath, body: wire.DeadLetterBody): Decision<wire.DeadLetterReply, Change> {
    const core = this.#core
    const active = this.#active(caller, path)
    if (active instanceof Error) return active
    const target = body.dead_letter_stream
    if (target === AUDIT_STREAM) return refuse('write_not_allowed', `only the broker writes to ${AUDIT_STREAM}`)
    const copyTo = core.stream(caller, target, 'missing_stream')
    if (copyTo instanceof Error) return copyTo
    if (target === path.stream) return refuse('invalid_request', 'a stream cannot be its own dead-letter stream')
    const { principal } = caller
    const order: DeadLetterOrder = { target, reason: body.reason, cause: 'explicit', principal }
    return this.#outcomes.deadLetter<wire.DeadLetterReply>(() => this.#active(caller, path), order, {
      instead: () => null,
      copied: (deadLetterOffset) => ({
        ...identityOf(path, active.group),
        source_offset: active.offset,
        dead_letter_stream: target,
        dead_letter_offset: deadLetterOffset,
        attempt: active.attempt,
        acknowledgement: core.acknowledgement,
      }),
      unreadable: () =>
        refuse(
          FAILURE,
          'the record cannot be copied, because it is damaged or longer than the log takes now: see the quarantine incidents',
        ),
      tooManyHops: () =>
        refuse('write_not_allowed', `the record was dead-lettered ${DEAD_LETTER_HOPS_MAX} times already`, {
          action: 'Acknowledge the delivery, or nack it without requeue: the dead-letter streams form a cycle.',
        }),
      onStored: () => {},
    })
  }

  /** Refused unless the delivery of the path has an active lease. */
  #active(caller: Caller, { stream, subscriptionId, deliveryId }: DeliveryPath): Active | BrokerError {
    const core = this.#core
    const named = core.stream(caller, stream, 'missing_stream')
    if (named instanceof Error) return named
    const { subscription, deliveries } = core.tokens.open(subscriptionId, [deliveryId])
    return this.#leased(named, subscription, deliveries[0]!)
  }

  /** Refused unless the delivery has an active lease. */
  #leased(
    stream: StreamState,
    subscription: SubscriptionName | null,
    delivery: DeliveryName | null,
  ): Active | BrokerError {
    const { state, time } = this.#core
    const group = delivery ? state.groups[delivery.groupNumber] : undefined
    if (!delivery || !subscription || group?.stream !== stream) return unknownDelivery()
    if (subscription.groupNumber !== group.number) return unknownDelivery()
    const { offset, attempt } = delivery
    const found = group.queue.find(offset, attempt, time.nowMs())
    switch (found.kind) {
      case 'active':
        if (found.claimNumber !== subscription.claimNumber) return unknownDelivery()
        return { group, offset, attempt, leasedAtMs: found.leasedAtMs, expiresAtMs: found.expiresAtMs }
      case 'expired':
        return refuse('lease_expired', 'the lease of the delivery has expired')
      case 'resolved':
        return refuse('lease_not_active', 'the delivery was resolved before')
      case 'unknown':
        return unknownDelivery()
    }
  }

  // Time

  #tick(): void {
    const { log, time, engine, state } = this.#core
    state.catchUpSome()
    if (!log.mayAnswer) return // in a cluster only the leader applies what is due
    if (takesFrames(log.state)) this.#applyAgain()
    for (const group of state.dueGroups(time.nowMs())) {
      if (this.expire(group) > 0) engine.parked.wake(group.stream.number, group.name)
    }
    engine.parked.endExpired() // last, so that a claim that can be served at the last moment is served
  }

  #applyAgain(): void {
    const failedUntilMs = Math.max(this.#core.time.nowMs() - AGAIN_AFTER_MS, this.#takesFramesSinceMs)
    for (let taken = 0; taken < AGAIN_MAX; taken++) {
      const first = this.#unapplied.peek()
      if (first === undefined || first.failedAtMs > failedUntilMs) return
      this.#unapplied.shift()
      void this.#onExpired(first.expired)
    }
  }

  /** Applies the expired leases and due delays of a group. @returns how many offsets that changed */
  expire(group: Group): number {
    const core = this.#core
    const nowMs = core.time.nowMs()
    const { queue } = group
    if (queue.nextDueMs > nowMs) return 0
    const delayedBefore = queue.delayedCount
    if (group.stream.config.failure_policy?.apply_on_expiry) {
      return core.state.expire(group, nowMs, EXPIRIES_MAX, (offset, attempt) => {
        core.counters.expired(1)
        void this.#onExpired({ group, offset, attempt })
      })
    }
    const met = core.state.expire(group, nowMs, EXPIRIES_MAX)
    core.counters.expired(met - (delayedBefore - queue.delayedCount))
    return met
  }

  /** Applies the failure policy of a stream to an expired lease. */
  async #onExpired(expired: Failed): Promise<void> {
    const order = { reason: 'the lease expired', cause: 'expiry', principal: 'broker' } as const
    const again = (): Failed | Error => this.#stillExpired(expired)
    const nothing = (): null => null
    const decide = (): Decision<null, Change> => {
      const failed = again()
      return failed instanceof Error ? failed : this.#outcomes.applyPolicy(failed, again, order, nothing, nothing)
    }
    try {
      await this.#core.engine.ask(decide, NOT_STORED[FAILURE])
    } catch (error) {
      if (error instanceof BrokerError && error.code === 'lease_not_active') return
      const failedAtMs = this.#core.time.nowMs()
      this.#unapplied.push({ expired, failedAtMs })
      if (failedAtMs - this.#warnedAtMs < WARN_EVERY_MS) return // mostly, many fail together
      this.#warnedAtMs = failedAtMs
      const details = { stream: expired.group.stream.name, offset: expired.offset, reason: String(error) }
      this.#core.logger.warn(details, 'failure policies could not be applied, and are tried again')
    }
  }

  /** Refused with lease_not_active when nothing is left to do: retention removed the record, or a new state reports the expiry again. */
  #stillExpired(expired: Failed): Failed | BrokerError {
    const { group, offset, attempt } = expired
    const { state, time } = this.#core
    const isSame = state.groups[group.number] === group // C1 of core.ts
    if (isSame && group.queue.find(offset, attempt, time.nowMs()).kind === 'expired') return expired
    return refuse('lease_not_active', 'the delivery was resolved before')
  }
}

function policyReply(outcome: PolicyOutcome) {
  switch (outcome.action) {
    case 'redeliver_now':
    case 'scheduled_retry':
      return { will_redeliver: true, policy_action: outcome.action, available_at_ms: outcome.availableAtMs }
    case 'dead_lettered':
      return {
        will_redeliver: false,
        policy_action: outcome.action,
        dead_letter_stream: outcome.target,
        dead_letter_offset: outcome.offset,
      }
    case 'stopped':
      return { will_redeliver: false, policy_action: outcome.action }
  }
}

const unknownDelivery = (): BrokerError =>
  refuse('delivery_not_found', 'the stream has no such subscription and delivery')

const identityOf = (path: DeliveryPath, group: Group) =>
  ({
    api_version: 'v1',
    stream: path.stream,
    consumer_group: group.name,
    subscription_id: path.subscriptionId,
    delivery_id: path.deliveryId,
  }) as const
