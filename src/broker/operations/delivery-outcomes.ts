/**
 * What becomes of a delivery: acknowledged, released, copied to a dead-letter stream, stopped. Source: specification "Shared queue",
 * failure policy.
 *
 * E1  a dead-letter is one frame: the copy, the terminal state and the audit event happen together or not at all
 * E2  no stream is its own dead-letter stream, and no record is copied more than DEAD_LETTER_HOPS_MAX times: a policy that wants more stops
 *     the delivery
 * E3  the policy at the time the frame is made counts, because it may change while the record is read
 */
import type { Decision, NewFrame } from '../../engine/decision.ts'
import {
  FRAME_DEAD_LETTER,
  FRAME_RESOLVE,
  deadLetterBytes,
  deadLetterOriginOf,
  encodeDeadLetter,
  encodeResolve,
  resolveBytes,
} from '../frames.ts'
import type { DeadLetterCause, Resolution } from '../frames.ts'
import type { Change } from '../frames/change.ts'
import { DEAD_LETTER_HOPS_MAX } from '../limits.ts'
import type { RawRecord } from '../records/record-reads.ts'
import { refuse } from '../refusals.ts'
import { keptReason } from '../state/reasons.ts'
import type { Core, EventOfChange } from '../engine/core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { Group } from '../state/state.ts'

const FAILURE = 'queue_state_persistence_failed'
/** How often one record is read at most, as it may be moved meanwhile. */
const READ_ATTEMPTS_MAX = 3

/** A delivery that did not succeed. */
export interface Failed {
  readonly group: Group
  readonly offset: number
  readonly attempt: number
}

/** An order to end a delivery with a copy in another stream. */
export interface DeadLetterOrder {
  readonly target: string
  readonly reason: string
  readonly cause: DeadLetterCause
  readonly principal: string
}

/** Why a failure policy is applied. */
interface PolicyOrder {
  readonly reason: string
  readonly cause: 'policy' | 'expiry'
  readonly principal: string
}

/** What a failure policy makes of a delivery. */
export type PolicyOutcome =
  | { readonly action: 'redeliver_now' | 'scheduled_retry'; readonly availableAtMs: number }
  | { readonly action: 'dead_lettered'; readonly target: string; readonly offset: number }
  | { readonly action: 'stopped' }

/** How an order can end. */
export interface CopyOutcomes<Reply> {
  /** Asked when the record was read: what to do instead; null: the order still holds. */
  readonly instead: (present: Failed) => Decision<Reply, Change> | null
  readonly copied: (offset: number) => Reply
  /** The record is damaged, or longer than what the log takes now. */
  readonly unreadable: () => Decision<Reply, Change>
  readonly tooManyHops: () => Decision<Reply, Change>
  /** Called when the copy is stored. */
  readonly onStored: () => void
}

export class DeliveryOutcomes {
  readonly #core: Core
  readonly #onReleased: (group: Group) => void

  /** @param onReleased called when a delivery can be claimed again at once */
  constructor(core: Core, onReleased: (group: Group) => void) {
    this.#core = core
    this.#onReleased = onReleased
  }

  /** @param onStored see `NewFrame` */
  resolution(
    resolutions: readonly (Resolution & { readonly group: Group })[],
    onStored: () => void = () => {},
  ): NewFrame<Change> {
    const entries = resolutions.map((each) => ({ ...each, groupNumber: each.group.number }))
    return {
      type: FRAME_RESOLVE,
      payloadBytes: resolveBytes(entries),
      encode: (target, at) => void encodeResolve(target, at, entries),
      purpose: 'finish',
      durability: this.#core.localDisk,
      onStored,
    }
  }

  /** Gives a record back to the queue. @param reason null: no caller gave one, as when the lease expired @param onStored see `NewFrame` */
  release(
    { group, offset, attempt }: Failed,
    delayMs: number,
    reason: string | null,
    onStored: () => void = () => {},
  ): { readonly frame: NewFrame<Change>; readonly availableAtMs: number } {
    const atMs = this.#core.time.nowMs()
    const valueMs = delayMs === 0 ? 0 : atMs + delayMs
    const why = reason === null ? {} : { reason: keptReason(reason) }
    const frame = this.resolution([{ group, verb: 'release', offset, attempt, atMs, valueMs, ...why }], () => {
      onStored()
      if (delayMs === 0) this.#onReleased(group)
    })
    return { frame, availableAtMs: atMs + delayMs }
  }

  /** Applies the stream's failure policy. @param again as for `deadLetter` @param onStored see `NewFrame` */
  applyPolicy<Reply>(
    active: Failed,
    again: () => Failed | Error,
    failed: PolicyOrder,
    replyOf: (outcome: PolicyOutcome) => Reply,
    onStored: () => void,
  ): Decision<Reply, Change> {
    const { group, attempt } = active
    const { stream } = group
    const policy = stream.config.failure_policy
    if (policy === null || attempt < policy.max_attempts) {
      const delayMs = policy?.retry_delay_millis ?? 0
      const reason = failed.cause === 'expiry' ? null : failed.reason
      const { frame, availableAtMs } = this.release(active, delayMs, reason, onStored)
      const action = delayMs === 0 ? 'redeliver_now' : 'scheduled_retry'
      return { kind: 'change', frame, reply: () => replyOf({ action, availableAtMs }) }
    }
    const target = policy.dead_letter_stream
    const isUsable = target !== null && target !== AUDIT_STREAM && target !== stream.name // E2
    const isThere = (name: string): boolean => this.#core.state.stream(stream.tenant, name) !== undefined
    if (!isUsable || !isThere(target)) return this.#stop(active, failed, replyOf, onStored)
    const stop = (): Decision<Reply, Change> => {
      const present = again()
      return present instanceof Error ? present : this.#stop(present, failed, replyOf, onStored)
    }
    const outcomes: CopyOutcomes<Reply> = {
      // E3
      instead: (present) =>
        stream.config.failure_policy === policy && isThere(target)
          ? null
          : this.applyPolicy(present, again, failed, replyOf, onStored),
      copied: (offset) => replyOf({ action: 'dead_lettered', target, offset }),
      unreadable: stop,
      tooManyHops: stop,
      onStored,
    }
    return this.deadLetter(again, { ...failed, target }, outcomes)
  }

  #stop<Reply>(
    { group, offset, attempt }: Failed,
    { reason, principal }: PolicyOrder,
    replyOf: (outcome: PolicyOutcome) => Reply,
    onStored: () => void,
  ): Decision<Reply, Change> {
    const core = this.#core
    const { tenant, name: stream } = group.stream
    const stopped = ({ at_ms: wall_ms, ...event }: EventOfChange): Change => ({
      kind: 'delivery_stopped',
      wall_ms,
      group_number: group.number,
      offset,
      attempt,
      at_ms: core.time.nowMs(),
      reason,
      ...event,
      stream,
      group: group.name,
    })
    const { before, frame } = core.audited({ tenant, principal }, 'finish', stopped, onStored)
    return { kind: 'change', before, frame, reply: () => replyOf({ action: 'stopped' }) }
  }

  /**
   * E1, E2
   *
   * @param again looks the delivery up before and after its record is read; an error says why it is no longer what it was
   */
  deadLetter<Reply>(
    again: () => Failed | Error,
    order: DeadLetterOrder,
    outcomes: CopyOutcomes<Reply>,
  ): Decision<Reply, Change> {
    return {
      kind: 'read',
      read: async () => {
        const failed = again()
        if (failed instanceof Error) return () => failed
        const record = await this.#recordOf(failed)
        return () => {
          const present = again()
          if (present instanceof Error) return present
          return outcomes.instead(present) ?? this.#copy(present, record, order, outcomes)
        }
      },
    }
  }

  #copy<Reply>(
    { group, offset, attempt }: Failed,
    record: RawRecord | null,
    order: DeadLetterOrder,
    outcomes: CopyOutcomes<Reply>,
  ): Decision<Reply, Change> {
    const core = this.#core
    if (record === null) return outcomes.unreadable()
    const hops = deadLetterOriginOf(record.bytes)?.count ?? 0
    if (hops >= DEAD_LETTER_HOPS_MAX) return outcomes.tooManyHops()
    const source = group.stream
    const { tenant } = source
    const target = core.state.stream(tenant, order.target)
    if (target === undefined) return refuse('missing_stream', 'the dead-letter stream does not exist')
    const { nextOffset: auditOffset, before } = core.auditOf(tenant)
    const targetOffset = target.nextOffset
    const deadLetter = {
      cause: order.cause,
      groupNumber: group.number,
      offset,
      attempt,
      targetNumber: target.number,
      targetOffset,
      auditOffset,
      atMs: core.time.nowMs(),
      ingestTimeMs: core.time.wallMs(),
      tenant,
      principal: order.principal,
      sourceStream: source.name,
      consumerGroup: group.name,
      targetStream: target.name,
      reason: order.reason,
      record,
    }
    const payloadBytes = deadLetterBytes(deadLetter)
    if (payloadBytes > core.appender.payloadBytesMax) return outcomes.unreadable()
    const frame: NewFrame<Change> = {
      type: FRAME_DEAD_LETTER,
      payloadBytes,
      encode: (bytes, at) => void encodeDeadLetter(bytes, at, deadLetter),
      purpose: 'finish',
      durability: core.localDisk,
      onStored: () => {
        core.makeVisible(target, targetOffset + 1)
        core.showEvent(tenant, auditOffset)
        core.counters.deadLettered()
        outcomes.onStored()
      },
    }
    return { kind: 'change', before, frame, reply: () => outcomes.copied(targetOffset) }
  }

  /** The record as it stands in its frame; null when it is damaged. */
  async #recordOf({ group: { stream }, offset }: Failed): Promise<RawRecord | null> {
    const core = this.#core
    for (let attempt = 1; ; attempt += 1) {
      await core.readable(stream)
      if (stream.holes.has(offset)) return null
      const read = await core.reads.raw(stream.index, offset)
      if (read.kind === 'record') return read.record
      core.reportUnreadable(stream, [read.unreadable])
      const { cause } = read.unreadable
      if (cause === 'damaged' || stream.holes.has(offset)) return null
      if (cause === 'dropped' && attempt < READ_ATTEMPTS_MAX) continue // moved meanwhile
      throw refuse(FAILURE, 'the record cannot be read at present: repeat the request', { retryable: true })
    }
  }
}
