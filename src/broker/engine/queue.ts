/**
 * The shared queue: claims and what becomes of their deliveries. Source: specification "Queue delivery and lease", "Shared queue".
 *
 * Q1  a delivery has at most one active lease, and one resolution: each is judged on the state after everything appended before it,
 *     and nothing is awaited between the judgement and the frame
 * Q2  a record that turns out damaged when it is claimed is left out of the answer and never given out again
 * Q3  what one answer cannot hold is not leased for it: it keeps its attempt
 */
import { FRAME_CLAIM, claimBytes, encodeClaim } from '../frames.ts'
import {
  CLAIM_BYTES_MAX,
  CLAIM_MESSAGES_DEFAULT,
  DEAD_LETTER_HOPS_MAX,
  LEASE_TIMEOUT_MS_DEFAULT,
  WAITING_CLAIMS_MAX,
} from '../limits.ts'
import type { Caller, DeliveryPath, GroupPath, Patience, RenderedJson } from '../operations.ts'
import type { TenantQuotas } from '../quotas.ts'
import { PayloadBound } from '../records/payload-bound.ts'
import type { Unreadable } from '../records/record-reads.ts'
import { BrokerError, refuse } from '../refusals.ts'
import { planWithin } from '../state/claim-plan.ts'
import { GroupState } from '../state/group.ts'
import type { LeaseRun } from '../state/group.ts'
import { keptReason } from '../state/reasons.ts'
import type { DeliveryName, SubscriptionName } from '../tokens.ts'
import type {
  AckReply,
  BatchAckReply,
  DeadLetterReply,
  NackReply,
  RenewReply,
  RetryReply,
} from '../wire/queue-answers.ts'
import type { BatchAckBody, ClaimBody, DeadLetterBody, NackBody, RenewBody, RetryBody } from '../wire/requests.ts'
import { claimReply, emptyClaimReply } from './claim-reply.ts'
import type { Core } from './core.ts'
import { Endings } from './endings.ts'
import type { DeadLetterOrder, Failed } from './endings.ts'
import { ensureGroup } from './groups.ts'
import { AUDIT_STREAM } from './state.ts'
import type { Group, StreamState } from './state.ts'
import { WaitingClaims } from './waiting-claims.ts'

const FAILURE = 'queue_state_persistence_failed'
/** Expiries that one request or tick works off at most, so that a million of them at once do not stop the world. */
const EXPIRIES_MAX = 5000
const TICK_MS = 20
/** Failure policies that are tried again with one tick. */
const AGAIN_MAX = 100
/** Of a group that does not exist yet, for ids that name nothing. */
const NO_GROUP = 0xffff_ffff

interface ClaimRequest {
  readonly startOffset: number
  readonly max: number
  readonly timeoutMs: number
}

/** A claim whose frame was appended. */
interface Lease {
  readonly group: Group
  readonly claimNumber: number
  readonly runs: readonly LeaseRun[]
  readonly leasedAtMs: number
  readonly expiresAtMs: number
  readonly stored: Promise<void>
}

/** An active delivery that a request names. */
interface Active extends Failed {
  readonly leasedAtMs: number
  readonly expiresAtMs: number
}

export class Queue {
  readonly #core: Core
  readonly #quotas: TenantQuotas
  readonly #waiting: WaitingClaims<Lease>
  readonly #endings: Endings
  readonly #stopTicking: () => void
  /** Expired leases whose failure policy could not be applied yet. */
  readonly #expiredBefore: Failed[] = []

  constructor(core: Core, quotas: TenantQuotas) {
    this.#core = core
    this.#quotas = quotas
    this.#waiting = new WaitingClaims(core.timers, WAITING_CLAIMS_MAX)
    this.#endings = new Endings(core, ({ stream, name }) => this.#waiting.wake(stream.number, name))
    core.onVisible((stream) => this.#waiting.wake(stream.number))
    this.#stopTicking = core.timers.every(TICK_MS, () => this.#tick())
  }

  get waitingClaims(): number {
    return this.#waiting.count
  }

  /** Claims that wait are answered empty. */
  close(): void {
    this.#stopTicking()
    this.#waiting.close()
  }

  // Claims

  async claim(caller: Caller, path: GroupPath, body: ClaimBody, patience: Patience): Promise<RenderedJson> {
    const core = this.#core
    const request = {
      startOffset: body.start_offset ?? 0,
      max: body.max_messages ?? CLAIM_MESSAGES_DEFAULT,
      timeoutMs: body.lease_timeout_millis ?? LEASE_TIMEOUT_MS_DEFAULT,
    }
    const waitMs = body.wait_millis ?? 0
    if (path.stream === AUDIT_STREAM) {
      throw refuse('write_not_allowed', `${AUDIT_STREAM} has no consumer groups: its events are read, not claimed`)
    }
    const asked = core.stream(caller, path.stream, 'missing_stream')
    if (request.startOffset > asked.nextOffset) {
      throw refuse('invalid_request', `start_offset must not exceed the stream's next offset, ${asked.nextOffset}`)
    }
    await core.readable(asked)
    const stream = core.stream(caller, path.stream, 'missing_stream') // C3
    const serve = (): Lease | null => this.#tryLease(caller, path, request)
    const place = { streamNumber: stream.number, group: path.group }
    const serveLater = (): Lease | null => (core.log.state.kind === 'restarting' ? null : serve())
    const how = { waitMs, takesAny: request.startOffset === 0, serve: serveLater }
    this.#meet(stream.groups.get(path.group)) // what time has just made available is theirs who came before
    const lease = serve() ?? (waitMs > 0 ? await this.#waiting.wait(place, how, patience) : null)
    if (lease === null) {
      const subscriptionId = core.tokens.subscription(NO_GROUP, 0)
      return core.judged(() => {
        core.stream(caller, path.stream, 'missing_stream')
        core.counters.claimed(0)
        return emptyClaimReply(path, subscriptionId, request.startOffset)
      })
    }
    return this.#claimed(path, lease)
  }

  /** Q1. Null: there is nothing to lease. */
  #tryLease(caller: Caller, path: GroupPath, { startOffset, max, timeoutMs }: ClaimRequest): Lease | null {
    const core = this.#core
    const stream = core.stream(caller, path.stream, 'missing_stream')
    const existing = stream.groups.get(path.group)
    if (existing) this.#expire(existing)
    const queue = existing?.queue ?? GroupState.create()
    const available = queue.plan(Math.max(startOffset, stream.floor), stream.visibleNext, max, stream.holes)
    if (available.length === 0) return null
    const bound = new PayloadBound(stream.index, (segmentBase) => this.#segmentBytes(segmentBase))
    const runs = planWithin(available, CLAIM_BYTES_MAX, (offset) => bound.add(offset)) // Q3
    const leasedAtMs = core.time.nowMs()
    this.#quotas.checkConsumers(caller.tenant, () => queue.activeClaims(leasedAtMs))
    const group = ensureGroup(core, stream, path.group, FAILURE)
    const claimNumber = group.nextClaimNumber
    const expiresAtMs = leasedAtMs + timeoutMs
    const claim = { groupNumber: group.number, claimNumber, atMs: leasedAtMs, expiresAtMs, runs }
    const stored = core.append({
      type: FRAME_CLAIM,
      payloadBytes: claimBytes(claim),
      encode: (target, at) => void encodeClaim(target, at, claim),
      purpose: 'admit',
      failure: FAILURE,
    })
    return { group, claimNumber, runs, leasedAtMs, expiresAtMs, stored }
  }

  /** Of one that is not sealed, as far as it can have been written. */
  #segmentBytes(segmentBase: number): number {
    const { log, appender } = this.#core
    const segment = log.segments.find(({ base }) => base === segmentBase)
    return (segment?.sealed ? segment.end : appender.position) - segmentBase
  }

  async #claimed(path: GroupPath, lease: Lease): Promise<RenderedJson> {
    const core = this.#core
    const { group, claimNumber, runs, leasedAtMs, expiresAtMs } = lease
    const { stream } = group
    const deliveries = runs.flatMap(({ offset: first, count, attempt }) =>
      Array.from({ length: count }, (_, i) => ({ offset: first + i, attempt })),
    )
    const read = core.reads.deliveries(
      stream.index,
      deliveries.map(({ offset }) => offset),
    )
    const reading = read.catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))))
    await lease.stored
    const records = await reading
    if (records instanceof Error) {
      await this.#releaseUnheard(group, deliveries)
      throw records
    }
    const { unreadable } = records
    if (unreadable.length > 0) await this.#giveBack(group, deliveries, unreadable)
    core.counters.claimed(deliveries.length - unreadable.length)
    const lastGiven = deliveries.findLast((_, i) => records.end(i) > records.start(i))
    const reply = claimReply({
      stream: path.stream,
      group: path.group,
      ids: core.tokens.claim(group.number, claimNumber, deliveries),
      leasedAtMs,
      expiresAtMs,
      remainingMs: Math.max(0, expiresAtMs - core.time.nowMs()),
      deliveries,
      records,
      nextOffset: lastGiven ? lastGiven.offset + 1 : deliveries[0]!.offset,
    })
    records.bytesDone()
    return reply
  }

  /** Q2. What could not be read is released: what is whole is available again, and a hole is no lease of anybody's. */
  async #giveBack(
    group: Group,
    deliveries: readonly { readonly offset: number; readonly attempt: number }[],
    unreadable: readonly Unreadable[],
  ): Promise<void> {
    this.#core.reportUnreadable(group.stream, unreadable)
    const { holes } = group.stream
    const given = new Set(
      unreadable.filter(({ cause, offset }) => cause !== 'damaged' || holes.has(offset)).map(({ offset }) => offset),
    )
    await this.#releaseUnheard(
      group,
      deliveries.filter(({ offset }) => given.has(offset)),
    )
  }

  /** Ends leases that no client hears of, as far as nothing else has become of them while their records were read. */
  async #releaseUnheard(
    { number }: Group,
    deliveries: readonly { readonly offset: number; readonly attempt: number }[],
  ): Promise<void> {
    const group = this.#core.state.groups[number]
    const atMs = this.#core.time.nowMs()
    const released = deliveries.flatMap(({ offset, attempt }) =>
      group?.queue.find(offset, attempt, atMs).kind === 'active'
        ? [{ group, verb: 'release' as const, offset, attempt, atMs, valueMs: 0 }]
        : [],
    )
    if (group === undefined || released.length === 0) return
    await this.#endings.resolve(released)
    this.#waiting.wake(group.stream.number, group.name)
  }

  // Resolutions

  async ack(caller: Caller, path: DeliveryPath): Promise<AckReply> {
    const core = this.#core
    const { group, offset, attempt } = this.#active(caller, path)
    const atMs = core.time.nowMs()
    await this.#endings.resolve([{ group, verb: 'ack', offset, attempt, atMs, valueMs: 0 }])
    core.counters.acked(1)
    return {
      ...identityOf(path, group),
      offset,
      attempt,
      acknowledged_at_ms: atMs,
      acknowledgement: core.acknowledgement,
    }
  }

  /** The good ones in one frame; each bad one has its error in its result. */
  async batchAck(caller: Caller, stream: string, subscriptionId: string, body: BatchAckBody): Promise<BatchAckReply> {
    const core = this.#core
    const named = core.stream(caller, stream, 'missing_stream')
    const atMs = core.time.nowMs()
    const { subscription, deliveries } = core.tokens.open(subscriptionId, body.delivery_ids)
    const seen = new Set<string>()
    const found = body.delivery_ids.map((deliveryId, i) => {
      try {
        if (seen.has(deliveryId)) throw refuse('lease_not_active', 'the delivery is named twice')
        seen.add(deliveryId)
        return this.#leased(named, subscription, deliveries[i]!)
      } catch (error) {
        if (error instanceof BrokerError) return error
        throw error
      }
    })
    const good = found.filter((each): each is Active => !(each instanceof BrokerError))
    if (good.length > 0) {
      await this.#endings.resolve(
        good.map(({ group, offset, attempt }) => ({ group, verb: 'ack', offset, attempt, atMs, valueMs: 0 })),
      )
    } else {
      await core.settled(FAILURE) // the errors are judgements too
    }
    core.counters.acked(good.length)
    const results = found.map((each, i) => {
      const deliveryId = body.delivery_ids[i]!
      if (each instanceof BrokerError) return { delivery_id: deliveryId, error: each.detail }
      return { delivery_id: deliveryId, offset: each.offset, attempt: each.attempt }
    })
    return {
      api_version: 'v1',
      stream,
      subscription_id: subscriptionId,
      acknowledged_count: good.length,
      acknowledged_at_ms: atMs,
      results,
      acknowledgement: core.acknowledgement,
    }
  }

  async nack(caller: Caller, path: DeliveryPath, body: NackBody): Promise<NackReply> {
    const core = this.#core
    const active = this.#active(caller, path)
    const { group, offset, attempt } = active
    const reply = { ...identityOf(path, group), offset, attempt, acknowledgement: core.acknowledgement }
    if (!body.requeue) {
      const why = { atMs: core.time.nowMs(), reason: keptReason(body.reason) }
      await this.#endings.resolve([{ group, verb: 'nack', offset, attempt, valueMs: 0, ...why }])
      core.counters.nacked()
      return { ...reply, will_redeliver: false, policy_action: 'none' }
    }
    const again = (): Active => this.#active(caller, path)
    const outcome = await this.#endings.applyPolicy(active, again, { reason: body.reason, cause: 'policy', ...caller })
    core.counters.nacked()
    switch (outcome.action) {
      case 'redeliver_now':
      case 'scheduled_retry':
        return {
          ...reply,
          will_redeliver: true,
          policy_action: outcome.action,
          available_at_ms: outcome.availableAtMs,
        }
      case 'dead_lettered':
        return {
          ...reply,
          will_redeliver: false,
          policy_action: outcome.action,
          dead_letter_stream: outcome.target,
          dead_letter_offset: outcome.offset,
        }
      case 'stopped':
        return { ...reply, will_redeliver: false, policy_action: outcome.action }
    }
  }

  async renew(caller: Caller, path: DeliveryPath, body: RenewBody): Promise<RenewReply> {
    const core = this.#core
    const { group, offset, attempt, leasedAtMs, expiresAtMs: before } = this.#active(caller, path)
    const expiresAtMs = before + body.extend_by_millis
    if (expiresAtMs > Number.MAX_SAFE_INTEGER) {
      throw refuse('invalid_request', 'extend_by_millis leads to an expiry behind 2^53 - 1 ms')
    }
    await this.#endings.resolve([
      { group, verb: 'renew', offset, attempt, atMs: core.time.nowMs(), valueMs: expiresAtMs },
    ])
    core.counters.renewed()
    return {
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
    }
  }

  async retry(caller: Caller, path: DeliveryPath, body: RetryBody): Promise<RetryReply> {
    const core = this.#core
    const { group, offset, attempt } = this.#active(caller, path)
    const availableAtMs = await this.#endings.release({ group, offset, attempt }, body.delay_millis, body.reason)
    core.counters.retried()
    return {
      ...identityOf(path, group),
      offset,
      attempt,
      available_at_ms: availableAtMs,
      acknowledgement: core.acknowledgement,
    }
  }

  async deadLetter(caller: Caller, path: DeliveryPath, body: DeadLetterBody): Promise<DeadLetterReply> {
    const core = this.#core
    const active = this.#active(caller, path)
    const target = body.dead_letter_stream
    if (target === AUDIT_STREAM) throw refuse('write_not_allowed', `only the broker writes to ${AUDIT_STREAM}`)
    core.stream(caller, target, 'missing_stream')
    if (target === path.stream) throw refuse('invalid_request', 'a stream cannot be its own dead-letter stream')
    const { principal } = caller
    const order: DeadLetterOrder = { target, reason: body.reason, cause: 'explicit', principal }
    const outcome = await this.#endings.deadLetter(() => this.#active(caller, path), order)
    if (outcome.kind === 'too-many-hops') {
      throw refuse('write_not_allowed', `the record was dead-lettered ${DEAD_LETTER_HOPS_MAX} times already`, {
        action: 'Acknowledge the delivery, or nack it without requeue: the dead-letter streams form a cycle.',
      })
    }
    if (outcome.kind === 'unreadable') {
      throw refuse(
        FAILURE,
        'the record is damaged, or too long now, and cannot be copied: see the quarantine incidents',
      )
    }
    return {
      ...identityOf(path, active.group),
      source_offset: active.offset,
      dead_letter_stream: target,
      dead_letter_offset: outcome.offset,
      attempt: active.attempt,
      acknowledgement: core.acknowledgement,
    }
  }

  /** @throws BrokerError unless the delivery of the path has an active lease */
  #active(caller: Caller, { stream, subscriptionId, deliveryId }: DeliveryPath): Active {
    const core = this.#core
    const named = core.stream(caller, stream, 'missing_stream')
    const { subscription, deliveries } = core.tokens.open(subscriptionId, [deliveryId])
    return this.#leased(named, subscription, deliveries[0]!)
  }

  /** @throws BrokerError unless the delivery has an active lease */
  #leased(stream: StreamState, subscription: SubscriptionName | null, delivery: DeliveryName | null): Active {
    const { state, time } = this.#core
    const group = delivery ? state.groups[delivery.groupNumber] : undefined
    if (!delivery || !subscription || group?.stream !== stream) throw unknownDelivery()
    if (subscription.groupNumber !== group.number) throw unknownDelivery()
    const { offset, attempt } = delivery
    const found = group.queue.find(offset, attempt, time.nowMs())
    switch (found.kind) {
      case 'active':
        if (found.claimNumber !== subscription.claimNumber) throw unknownDelivery()
        return { group, offset, attempt, leasedAtMs: found.leasedAtMs, expiresAtMs: found.expiresAtMs }
      case 'expired':
        throw refuse('lease_expired', 'the lease of the delivery has expired')
      case 'resolved':
        throw refuse('lease_not_active', 'the delivery was resolved before')
      case 'unknown':
        throw unknownDelivery()
    }
  }

  // Time

  #tick(): void {
    const { log, time } = this.#core
    const nowMs = time.nowMs()
    if (log.state.kind === 'ok') {
      for (const again of this.#expiredBefore.splice(0, AGAIN_MAX)) void this.#onExpired(again)
    }
    for (const group of this.#core.state.dueGroups(nowMs)) this.#meet(group)
  }

  #meet(group: Group | undefined): void {
    if (group && this.#expire(group) > 0) this.#waiting.wake(group.stream.number, group.name)
  }

  /** @returns how many offsets time has moved */
  #expire(group: Group): number {
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

  /** The failure policy of a stream that has it applied when a lease expires. */
  async #onExpired(expired: Failed): Promise<void> {
    const failed = { reason: 'the lease expired', cause: 'expiry', principal: 'broker' } as const
    try {
      await this.#endings.applyPolicy(this.#stillExpired(expired), () => this.#stillExpired(expired), failed)
    } catch (error) {
      if (error instanceof BrokerError && error.code === 'lease_not_active') return
      if (this.#expiredBefore.push(expired) > 1) return // they fail together, mostly
      const details = { stream: expired.group.stream.name, offset: expired.offset, reason: String(error) }
      this.#core.logger.warn(details, 'failure policies could not be applied, and are tried again')
    }
  }

  /** @throws BrokerError lease_not_active when there is nothing left to do: retention removed it, or a new state has it reported again */
  #stillExpired(expired: Failed): Failed {
    const { group, offset, attempt } = expired
    const { state, time } = this.#core
    const isSame = state.groups[group.number] === group // C3
    if (isSame && group.queue.find(offset, attempt, time.nowMs()).kind === 'expired') return expired
    throw refuse('lease_not_active', 'the delivery was resolved before')
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
