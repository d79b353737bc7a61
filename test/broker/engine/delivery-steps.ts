/** Steps on groups: claims, verbs on deliveries, cursors. */
import assert from 'node:assert/strict'
import { FRAME_CLAIM, FRAME_DEAD_LETTER, decodeClaim, decodeDeadLetter } from '../../../src/broker/frames.ts'
import { CALLER, NEVER_ABANDONED, jsonOf } from '../../support/broker-world.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'
import type { GroupPath } from '../../../src/broker/operations.ts'
import { pick } from '../../support/random-history.ts'
import { Steps } from './asking.ts'
import type { Asking, Expected } from './asking.ts'
import { AUDIT_STREAM } from './reference-streams.ts'
import type { RefClaim, RefRecord } from './reference-streams.ts'
import type { TracedFrame } from './trace.ts'

/** A delivery that a client has got. */
export interface Held {
  readonly stream: string
  readonly group: string
  readonly subscriptionId: string
  readonly deliveryId: string
  readonly offset: number
  readonly attempt: number
  readonly groupNumber: number
  readonly claimNumber: number
}

export interface ClaimAnswer {
  readonly subscription_id: string
  readonly deliveries: readonly {
    readonly delivery_id: string
    readonly offset: number
    readonly attempt: number
    readonly record: RefRecord
  }[]
  readonly next_offset: number
  readonly delivery_count: number
}

/** The fields of a claim. */
export interface LeaseRequest {
  readonly startOffset: number
  readonly max: number
  readonly timeoutMs: number
}

interface AskedClaim {
  readonly asked: RefClaim
  /** Null: the claim has no id. */
  readonly id: string | null
  readonly stream: string
  readonly group: string
}

const CLAIM_IDS = ['id-1', 'id-2'] as const

export class DeliverySteps extends Steps {
  protected held: Held[] = []
  readonly #claims = new Map<number, AskedClaim>()
  readonly #waitingClaims = new Map<number, AskedClaim>()

  constructor(asking: Asking) {
    super(asking)
    asking.trace.claimsAsked = (timeoutMs) => this.#claims.get(timeoutMs)?.asked
  }

  /** The process has ended. @param areLost claims that were answered may be lost */
  forget(areLost: boolean): void {
    this.#waitingClaims.clear()
    if (areLost) this.held = []
  }

  /** Called while everything else is at rest: no claim may wait for records that are available. */
  checkWaiting(): void {
    for (const { asked, stream, group } of this.#waitingClaims.values()) {
      const found = this.group(stream, group)?.plan(asked) ?? this.#fresh(stream, asked)
      if (this.isWritable) assert.deepEqual(found, [], 'nobody waits for what is there')
    }
  }

  claim(name: string, groupName: string, c: number, fromOffset: boolean): void {
    const waitMs = c % 5 === 0 ? 40 : 0
    const id = c % 4 === 0 ? pick(CLAIM_IDS, c >> 2) : null
    const { broker } = this.world
    const ask = async (path: GroupPath, { startOffset, max, timeoutMs }: LeaseRequest): Promise<ClaimAnswer> => {
      const body = {
        claim_id: id,
        start_offset: startOffset,
        max_messages: max,
        lease_timeout_millis: timeoutMs,
        wait_millis: waitMs,
      }
      return jsonOf<ClaimAnswer>(await broker.claim(CALLER, path, body, NEVER_ABANDONED))
    }
    this.lease(name, groupName, c, fromOffset, waitMs > 0, ask, id)
  }

  /** A claim by request or by push: `run` makes it. */
  protected lease(
    name: string,
    groupName: string,
    c: number,
    fromOffset: boolean,
    waits: boolean,
    run: (path: GroupPath, request: LeaseRequest) => Promise<ClaimAnswer>,
    id: string | null = null,
  ): void {
    const next = this.stream(name)?.nextOffset ?? 0
    const { losses } = this.trace
    const startOffset = fromOffset ? c % (next + 2) : 0
    const max = 1 + (c % 3)
    const timeoutMs = pick([0, 0, 10_000], c) + this.operations + 1 // different for each claim
    const asked = { startOffset, max }
    const claim = { asked, id, stream: name, group: groupName }
    this.#claims.set(timeoutMs, claim)
    const number = this.operations
    if (waits) this.#waitingClaims.set(number, claim)
    this.ask({
      name: `${waits ? 'waiting ' : ''}claim ${name}`,
      failure: 'queue_state_persistence_failed',
      run: () =>
        run({ stream: name, group: groupName }, { ...asked, timeoutMs }).finally(() =>
          this.#waitingClaims.delete(number),
        ),
      expected: () => {
        const nextNow = this.stream(name)?.nextOffset
        if (nextNow === undefined) return { code: 'missing_stream' }
        // The broker checks the start at the call. If a loss took the records later, the claim is not refused but finds none.
        if (startOffset <= nextNow || losses !== this.trace.losses) return 'either'
        const refused = { code: 'invalid_request' }
        const known = this.group(name, groupName)
        if (id === null || !known?.claimsWithId.has(id)) return refused
        if (known.activeDeliveriesOf(id, this.world.nowMs).length > 0) return 'either' // a repeat: the rest of the body does not matter
        return ['either', refused] // depends on whether the claim with this id is answered already
      },
      check: (reply) => this.#checkClaim(reply, claim, timeoutMs),
      checkRefused: () => assert.equal(this.#claimFrame(timeoutMs), undefined, 'a refused claim leaves no lease'),
    })
  }

  #checkClaim(answer: ClaimAnswer, asked: AskedClaim, timeoutMs: number): void {
    const { stream, group } = asked
    assert.equal(answer.delivery_count, answer.deliveries.length)
    const frame = this.#claimFrame(timeoutMs)
    if (frame === undefined) return this.#checkRepeat(answer, asked)
    assert.equal(frame.state, 'stored')
    const claim = decodeClaim(frame.payload)!
    const given = claim.runs.flatMap(({ offset, count, attempt }) =>
      Array.from({ length: count }, (_, i) => ({ offset: offset + i, attempt })),
    )
    const { tokens } = this.reference
    assert.equal(answer.subscription_id, tokens.subscription(claim.groupNumber, claim.claimNumber))
    const { stream: leased, queue } = this.reference.groups[claim.groupNumber]!
    const { records } = leased
    const shown = new Set(answer.deliveries.map(({ offset }) => offset))
    // A record that was moved or removed while it was read is left out, and its lease is over.
    const isHeld = ({ offset, attempt }: { offset: number; attempt: number }): boolean =>
      shown.has(offset) || queue.find(offset, attempt, this.world.nowMs).kind === 'active'
    const kept = given.filter(isHeld)
    assert.deepEqual(
      answer.deliveries.map(({ delivery_id, offset, attempt, record }) => ({ delivery_id, offset, attempt, record })),
      kept.map(({ offset, attempt }) => ({
        delivery_id: tokens.delivery(claim.groupNumber, offset, attempt),
        offset,
        attempt,
        record: records.get(offset),
      })),
    )
    for (const { delivery_id, offset, attempt } of answer.deliveries) {
      const { groupNumber, claimNumber } = claim
      const ids = { subscriptionId: answer.subscription_id, deliveryId: delivery_id, groupNumber, claimNumber }
      this.held.push({ stream, group, ...ids, offset, attempt })
    }
  }

  /** The claim leased nothing: its deliveries are those of an earlier claim with its id, in a group that may be deleted by now. */
  #checkRepeat({ deliveries, subscription_id }: ClaimAnswer, { id, stream, group: name }: AskedClaim): void {
    if (deliveries.length === 0) return
    const { tokens, groups } = this.reference
    const named = groups.filter((each) => each.name === name && each.stream.name === stream)
    const [found] = named.flatMap((group) => {
      const claims = (id !== null && group.claimsWithId.get(id)) || []
      const claim = claims.find((each) => tokens.subscription(group.number, each.claimNumber) === subscription_id)
      return claim ? [{ group, claim }] : []
    })
    assert.ok(found, 'a claim that leases nothing gives what its id stands for')
    const { group, claim } = found
    for (const { delivery_id, offset, attempt, record } of deliveries) {
      const isOfClaim = claim.runs.some(
        (run) => run.attempt === attempt && offset >= run.offset && offset < run.offset + run.count,
      )
      assert.ok(isOfClaim, `attempt ${attempt} at offset ${offset} is of another claim`)
      assert.equal(delivery_id, tokens.delivery(group.number, offset, attempt))
      assert.deepEqual(record, group.stream.records.get(offset))
    }
  }

  #claimFrame(timeoutMs: number): TracedFrame | undefined {
    return this.trace.frames.find(({ type, payload }) => {
      const claim = type === FRAME_CLAIM ? decodeClaim(payload) : null
      return claim !== null && claim.expiresAtMs - claim.atMs === timeoutMs
    })
  }

  /** What a claim of a group that does not exist yet would find. */
  #fresh(name: string, { startOffset }: RefClaim): unknown[] {
    const stream = this.stream(name)
    return stream && stream.visibleNext > Math.max(startOffset, stream.floor) ? ['a record'] : []
  }

  /** The expected outcome of a verb on the delivery. */
  protected standing({ stream, group: name, offset, attempt, groupNumber, claimNumber }: Held): Expected {
    const group = this.group(stream, name)
    if (group?.number !== groupNumber) return { code: 'delivery_not_found' } // the group was deleted, and perhaps created again
    const found = group.queue.find(offset, attempt, this.world.nowMs)
    switch (found.kind) {
      case 'active':
        return found.claimNumber === claimNumber ? 'effect' : { code: 'delivery_not_found' }
      case 'expired':
        return { code: 'lease_expired' }
      case 'resolved':
        return { code: 'lease_not_active' }
      default:
        return { code: 'delivery_not_found' }
    }
  }

  resolve(verb: 'ack' | 'nack' | 'renew' | 'retry' | 'deadLetter', a: number, b: number, yes: boolean): void {
    if (this.held.length === 0) return
    const held = this.held[Math.max(0, this.held.length - 1 - (a % 12))]!
    const { broker } = this.world
    const elsewhere = a % 17 === 0 // the request names another stream than the delivery's
    const path = { stream: held.stream, subscriptionId: held.subscriptionId, deliveryId: held.deliveryId }
    if (elsewhere) path.stream = held.stream === 'dead' ? 'orders' : 'dead'
    const standing = (): Expected => {
      if (this.stream(path.stream) === undefined) return { code: 'missing_stream' }
      return elsewhere ? { code: 'delivery_not_found' } : this.standing(held)
    }
    const reason = `reason ${this.operations}`
    const common = { name: `${verb} ${held.offset}`, failure: 'queue_state_persistence_failed' } as const
    const sameDelivery = (reply: { offset: number; attempt: number }): void =>
      assert.deepEqual([reply.offset, reply.attempt], [held.offset, held.attempt])
    switch (verb) {
      case 'ack':
        return this.ask({ ...common, run: () => broker.ack(CALLER, path), expected: standing, check: sameDelivery })
      case 'renew': {
        const extend_by_millis = 1 + b
        return this.ask({
          ...common,
          run: () => broker.renew(CALLER, path, { extend_by_millis }),
          expected: standing,
          check: ({ lease }) => sameDelivery(lease),
        })
      }
      case 'retry': {
        const delay_millis = yes ? 0 : 1 + (b % 100)
        return this.ask({
          ...common,
          cause: { retryDelayMs: delay_millis },
          run: () => broker.retry(CALLER, path, { reason, delay_millis }),
          expected: standing,
          check: sameDelivery,
        })
      }
      case 'nack':
        return this.#nack(held, path, standing, reason, b % 4 !== 0)
      case 'deadLetter': {
        const target = pick(['dead', 'dead', 'jobs', 'nowhere', AUDIT_STREAM], b)
        const refusal = (): string | null => {
          if (target === AUDIT_STREAM) return 'write_not_allowed'
          if (this.stream(target) === undefined) return 'missing_stream'
          return target === path.stream ? 'invalid_request' : null
        }
        return this.ask({
          ...common,
          run: () => broker.deadLetter(CALLER, path, { dead_letter_stream: target, reason }),
          expected: () => {
            const stands = standing()
            const code = refusal()
            return stands !== 'effect' ? stands : code === null ? 'either' : { code }
          },
          check: (reply, frames) => {
            sameDelivery({ offset: reply.source_offset, attempt: reply.attempt })
            this.#checkDeadLetter(frames, reply.dead_letter_stream, reply.dead_letter_offset, reason)
          },
        })
      }
    }
  }

  #nack(
    held: Held,
    path: Parameters<BrokerWorld['broker']['nack']>[1],
    standing: () => Expected,
    reason: string,
    requeue: boolean,
  ): void {
    const policy = this.stream(held.stream)?.config.failure_policy ?? null
    const isLast = requeue && policy !== null && held.attempt >= policy.max_attempts
    const target = policy?.dead_letter_stream ?? null
    const copies = isLast && target !== null && this.stream(target) !== undefined
    const action = !requeue
      ? 'none'
      : copies
        ? 'dead_lettered'
        : isLast
          ? 'stopped'
          : policy?.retry_delay_millis
            ? 'scheduled_retry'
            : 'redeliver_now'
    this.ask({
      name: `nack ${held.offset}`,
      failure: 'queue_state_persistence_failed',
      run: () => this.world.broker.nack(CALLER, path, { reason, requeue }),
      expected: () => {
        const stands = standing()
        return stands === 'effect' && copies ? 'either' : stands
      },
      check: (reply, frames) => {
        assert.deepEqual([reply.offset, reply.attempt, reply.policy_action], [held.offset, held.attempt, action])
        assert.equal(reply.will_redeliver, action === 'redeliver_now' || action === 'scheduled_retry')
        assert.equal(this.auditedBy(frames), action === 'stopped' || action === 'dead_lettered' ? 1 : 0)
        if (action === 'dead_lettered') this.#checkDeadLetter(frames, target!, reply.dead_letter_offset, reason)
      },
    })
  }

  #checkDeadLetter(frames: readonly TracedFrame[], target: string, offset: number | undefined, reason: string): void {
    const copies = frames.filter(({ type }) => type === FRAME_DEAD_LETTER)
    assert.equal(copies.length, 1, 'one copy')
    const { targetStream, targetOffset, reason: written } = decodeDeadLetter(copies[0]!.payload)!
    assert.deepEqual([targetStream, targetOffset, written], [target, offset, reason])
  }

  batchAck(a: number, b: number): void {
    const last = this.held.at(-1 - (a % 12))
    if (last === undefined) return
    const ofSubscription = this.held.filter(({ subscriptionId }) => subscriptionId === last.subscriptionId)
    const other = pick(this.held, b)
    const named = [...ofSubscription, ofSubscription[0]!, other]
    const judged = (): Expected[] => {
      const seen = new Set<string>()
      return named.map((held): Expected => {
        const { deliveryId } = held
        if (seen.has(deliveryId)) return { code: 'lease_not_active' }
        if (held.stream !== last.stream || held.groupNumber !== last.groupNumber) return { code: 'delivery_not_found' }
        const standing = this.standing(held)
        // The broker checks the subscription last: for a lease that is over, it says so to every subscription.
        if (standing === 'effect' && held.subscriptionId !== last.subscriptionId) return { code: 'delivery_not_found' }
        if (standing === 'effect') seen.add(deliveryId)
        return standing
      })
    }
    const standings = judged()
    const good = standings.filter((standing) => standing === 'effect').length
    this.ask({
      name: 'batch-ack',
      failure: 'queue_state_persistence_failed',
      run: () =>
        this.world.broker.batchAck(CALLER, last.stream, last.subscriptionId, {
          delivery_ids: named.map(({ deliveryId }) => deliveryId),
        }),
      expected: () => {
        if (this.stream(last.stream) === undefined) return { code: 'missing_stream' }
        return judged().includes('effect') ? 'effect' : 'either'
      },
      check: (reply) => {
        assert.equal(reply.acknowledged_count, good)
        const codes = reply.results.map(({ error }) => (error ? { code: error.code } : 'effect'))
        assert.deepEqual(codes, standings)
      },
    })
  }

  setCursor(kind: 'commitCursor' | 'rewindCursor', name: string, group: string, cursor: string, c: number): void {
    const stream = this.stream(name)
    const offset = c % ((stream?.nextOffset ?? 0) + 2)
    const present = stream?.groups.get(group)?.cursors.get(cursor)?.offset
    const path = { stream: name, group }
    const codeNow = (): string | null => {
      const stream = this.stream(name)
      const present = stream?.groups.get(group)?.cursors.get(cursor)?.offset
      if (stream === undefined) return 'stream_not_found'
      if (offset > stream.nextOffset) return 'invalid_request'
      if (offset < stream.floor) return 'write_not_allowed'
      if (kind === 'commitCursor' && present !== undefined && offset < present) return 'write_not_allowed'
      return null
    }
    const expected = (): Expected => {
      const code = codeNow()
      return code === null ? 'effect' : { code }
    }
    const { broker } = this.world
    if (kind === 'commitCursor') {
      this.ask({
        name: `commit ${cursor}`,
        failure: 'internal_error',
        run: () => broker.commitCursor(CALLER, path, cursor, offset),
        expected,
        check: (reply, frames) => {
          assert.equal(reply.offset, offset)
          assert.equal(this.auditedBy(frames), 0)
        },
      })
    } else {
      this.ask({
        name: `rewind ${cursor}`,
        failure: 'internal_error',
        run: () => broker.rewindCursor(CALLER, path, cursor, { offset, reason: 'again' }),
        expected,
        check: (reply, frames) => {
          assert.deepEqual([reply.offset, reply.previous_offset], [offset, present ?? null])
          assert.equal(this.auditedBy(frames), 1)
        },
      })
    }
  }
}
