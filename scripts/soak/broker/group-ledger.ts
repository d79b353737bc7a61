/**
 * What a client knows of one consumer group: for each offset the last attempt it heard of, when another lease may begin at the
 * earliest, and how it ended. Times are the broker's own, as its answers say them; answers may overtake each other.
 *
 * G1  attempts only grow: the one that is given out later has the higher number. An attempt that was only listed is given out to a worker that repeats its claim
 * G2  a lease begins when the one before is over: expired, or released, as the answers say
 * G3  what is finished stays finished, with its outcome and attempt, and is not given out again
 * G4  a request without an answer may have done all, or nothing: `asked` says what is possible, what is shown later decides
 */
import assert from 'node:assert/strict'
import type { LeaseListReply } from '../../../src/broker/wire/group-answers.ts'
import { OffsetColumn } from './offset-column.ts'
import type { StreamLedger } from './stream-ledger.ts'

const OUTCOMES = ['acked', 'nacked', 'dead_lettered', 'stopped'] as const
export type Outcome = (typeof OUTCOMES)[number]
/** What a request about a delivery may come to. */
export type Effect = Outcome | 'released'

type LeaseEntry = LeaseListReply['leases'][number]

/** A delivery, as its claim's answer says. */
export interface Leased {
  readonly offset: number
  readonly attempt: number
  readonly leased_at_ms: number
  readonly lease_expires_at_ms: number
}

/** What was known of a delivery before a request. */
export interface Before {
  readonly possible: number
  readonly freeFrom: number
  readonly mayExpireAt: number
}

export const NOTHING_ASKED: Before = { possible: 0, freeFrom: 0, mayExpireAt: 0 }

const EFFECTS: readonly Effect[] = ['released', ...OUTCOMES]
const bitOf = (effect: Effect): number => 1 << EFFECTS.indexOf(effect)
const RELEASED = bitOf('released')

/** How far the broker's clock may be behind this process's, which runs on the same machine. */
export const CLOCK_SLACK_MS = 250

export class GroupLedger {
  readonly stream: StreamLedger
  readonly name: string
  deliveries = 0
  readonly #attempts = new OffsetColumn()
  readonly #leasedAt = new OffsetColumn()
  readonly #expiresAt = new OffsetColumn()
  /** Where a renewal without an answer would have moved the expiry to. */
  readonly #mayExpireAt = new OffsetColumn()
  /** G2 */
  readonly #freeFrom = new OffsetColumn()
  /** Place in OUTCOMES + 1. */
  readonly #outcomes = new OffsetColumn()
  /** G4: bits of effects that requests may have had on the last attempt. */
  readonly #possible = new OffsetColumn()
  /** 1: an audit event about its end was seen. */
  readonly #audited = new OffsetColumn()
  /** 1: the last attempt was only listed. Its claim had no answer, and may be repeated. */
  readonly #unanswered = new OffsetColumn()
  #finishedEnd = 0

  constructor(stream: StreamLedger, name: string) {
    this.stream = stream
    this.name = name
  }

  get path(): string {
    return `/v1/streams/${this.stream.name}/consumer-groups/${this.name}`
  }

  outcome(offset: number): Outcome | null {
    if (offset < this.stream.base) return null
    return OUTCOMES[this.#outcomes.get(offset) - 1] ?? null
  }

  attempt(offset: number): number {
    return this.#attempts.get(offset)
  }

  // Claims and resolutions

  /** G1, G2, G3 */
  delivered(lease: Leased): void {
    const { offset, attempt, leased_at_ms: leasedAt, lease_expires_at_ms: expiresAt } = lease
    this.deliveries++
    const where = this.#where(offset)
    assert(offset >= this.stream.base, `${where} was given out, but every record there is finished`)
    const known = this.#attempts.get(offset)
    if (attempt === known) {
      assert.equal(this.#unanswered.get(offset), 1, `attempt ${attempt} at ${where} was given out twice`)
      assert.deepEqual([leasedAt, expiresAt], [this.#leasedAt.get(offset), this.#expiresAt.get(offset)], where)
      this.#unanswered.set(offset, 0)
      return
    }
    if (attempt < known) {
      const later = this.#leasedAt.get(offset)
      assert(expiresAt <= later, `${where}: attempt ${attempt} held it until ${expiresAt}, ${known} began at ${later}`)
      return
    }
    this.#begins(lease, attempt)
    this.#expiresAt.set(offset, expiresAt)
    this.#mayExpireAt.set(offset, 0)
    this.#freeFrom.set(offset, expiresAt)
    this.#leasedAt.set(offset, leasedAt)
  }

  /**
   * G4: a request that may have these effects is on its way.
   *
   * @param renewedTo when the lease expires if it is renewed; 0: that is not asked
   */
  asked(offset: number, attempt: number, effects: readonly Effect[], renewedTo = 0): Before {
    const before = {
      possible: this.#possible.get(offset),
      freeFrom: this.#freeFrom.get(offset),
      mayExpireAt: this.#mayExpireAt.get(offset),
    }
    if (attempt !== this.#attempts.get(offset)) return before
    this.#possible.set(
      offset,
      effects.reduce((bits, effect) => bits | bitOf(effect), before.possible),
    )
    if (renewedTo > 0) this.#mayExpireAt.set(offset, renewedTo)
    if (effects.includes('released')) this.#freeFrom.set(offset, this.#leasedAt.get(offset))
    return before
  }

  /** The request did nothing. */
  undone(offset: number, attempt: number, before: Before): void {
    if (attempt !== this.#attempts.get(offset) || this.outcome(offset) !== null) return
    this.#possible.set(offset, before.possible)
    this.#freeFrom.set(offset, before.freeFrom)
    this.#mayExpireAt.set(offset, before.mayExpireAt)
  }

  /** G3 */
  finished(offset: number, attempt: number, outcome: Outcome): void {
    const where = this.#where(offset)
    if (offset < this.stream.base) return
    const known = this.#attempts.get(offset)
    assert(
      known <= attempt,
      `${where}: ${outcome} at attempt ${attempt}, and given out as attempt ${known} nevertheless`,
    )
    const before = this.outcome(offset)
    if (before !== null) return assert.deepEqual([outcome, attempt], [before, known], where)
    this.#attempts.set(offset, attempt)
    this.#outcomes.set(offset, OUTCOMES.indexOf(outcome) + 1)
    this.#possible.set(offset, 0)
  }

  /** G2 */
  released(offset: number, attempt: number, availableAt: number): void {
    if (offset < this.stream.base) return
    if (this.#attempts.get(offset) === attempt) {
      assert.equal(this.outcome(offset), null, this.#where(offset))
      this.#possible.set(offset, 0)
      this.#freeFrom.set(offset, availableAt)
    } else {
      this.#assertBeganAfter(offset, attempt, availableAt, 'was to be available')
    }
  }

  /** G2 */
  renewed(offset: number, attempt: number, expiresAt: number): void {
    if (offset < this.stream.base) return
    if (this.#attempts.get(offset) === attempt) {
      this.#expiresAt.set(offset, expiresAt)
      this.#freeFrom.set(offset, expiresAt)
      this.#mayExpireAt.set(offset, 0)
    } else {
      this.#assertBeganAfter(offset, attempt, expiresAt, 'was renewed')
    }
  }

  /**
   * The request did nothing, as the lease had expired. Earlier requests that had no answer did nothing either.
   *
   * @param isFinal false: a restart may still bring the effect of an earlier one
   */
  expired(offset: number, attempt: number, isFinal: boolean): void {
    if (offset < this.stream.base || this.#attempts.get(offset) !== attempt) return
    const expiresAt = this.#expiresAt.get(offset)
    const now = Date.now() + CLOCK_SLACK_MS
    assert(now >= expiresAt, `${this.#where(offset)}: attempt ${attempt} expired before ${now}, not at ${expiresAt}`)
    if (!isFinal || this.outcome(offset) !== null) return // or a failure policy ended it
    this.#possible.set(offset, 0)
    this.#freeFrom.set(offset, expiresAt)
  }

  /** The request did nothing, as the delivery had been resolved: by one that had no answer, or its worker would not have sent another. */
  notActive(offset: number, attempt: number, before: Before): void {
    if (offset < this.stream.base || this.#attempts.get(offset) !== attempt || this.outcome(offset) !== null) return
    assert.notEqual(
      before.possible,
      0,
      `${this.#where(offset)}: attempt ${attempt} has ended, but no actor resolved it`,
    )
    this.undone(offset, attempt, before)
    const certain = OUTCOMES.find((outcome) => before.possible === bitOf(outcome))
    if (certain) this.finished(offset, attempt, certain)
  }

  // Audit

  /** An event says that it was dead-lettered or stopped: once, and as the answer to the request said. */
  auditedEnd(offset: number, attempt: number, outcome: Outcome, byExpiry: boolean): void {
    const where = this.#where(offset)
    assert(offset >= this.stream.base, `${where}: an audit event about a record that was finished long ago`)
    assert.equal(this.#audited.get(offset), 0, `${where} has two audit events about its end`)
    this.#audited.set(offset, 1)
    const wasKnown = this.outcome(offset) !== null
    if (!wasKnown) {
      const isLast = attempt === this.#attempts.get(offset)
      const isAsked = isLast && (this.#possible.get(offset) & bitOf(outcome)) !== 0
      const { apply_on_expiry: applies, max_attempts: max } = this.stream.plan.body.failure_policy ?? {}
      const isDue =
        applies === true && attempt >= max! && (!isLast || this.#expiresAt.get(offset) <= Date.now() + CLOCK_SLACK_MS)
      assert(byExpiry ? isDue : isAsked, `${where} was ${outcome} at attempt ${attempt}, but no actor requested it`)
    }
    this.finished(offset, attempt, outcome)
  }

  /** Offsets whose end must be in the audit stream and is not. */
  unaudited(): number[] {
    const missing: number[] = []
    for (let offset = this.stream.base; offset < this.stream.storedEnd; offset++) {
      const outcome = this.outcome(offset)
      const isDue = outcome === 'dead_lettered' || outcome === 'stopped'
      if (isDue && this.#audited.get(offset) === 0) missing.push(offset)
    }
    return missing
  }

  // Inspection, while no actor works

  /**
   * Compares with what the broker lists, and learns what became of requests without an answer.
   *
   * @param mayHaveMoved offsets that a failure policy may have finished since the list was made
   * @param isFinal      what was not answered and did not happen until now did not happen
   */
  listed({ leases: all, truncated }: LeaseListReply, mayHaveMoved: ReadonlySet<number>, isFinal: boolean): void {
    const leases = all.filter(({ state }) => state !== 'released') // available again, or later
    const entries = new Map(leases.map((entry) => [entry.offset, entry]))
    assert.equal(entries.size, leases.length, `${this.#where(-1)}: an offset is listed twice`)
    for (const entry of leases) if (entry.offset >= this.stream.base) this.#compare(entry, mayHaveMoved, isFinal)
    const from = truncated ? all[0]!.offset : this.stream.base
    const now = Date.now() + CLOCK_SLACK_MS
    for (let offset = Math.max(from, this.stream.base, this.stream.floor); offset < this.stream.storedEnd; offset++) {
      const state = entries.get(offset)?.state
      const outcome = this.outcome(offset)
      if (outcome !== null && !mayHaveMoved.has(offset)) assert.equal(state, outcome, this.#where(offset))
      const isHeld = outcome === null && this.#possible.get(offset) === 0 && this.#freeFrom.get(offset) > now
      if (isHeld && this.#freeFrom.get(offset) === this.#expiresAt.get(offset)) {
        assert.equal(state, 'active', `${this.#where(offset)} is leased until ${this.#freeFrom.get(offset)}`)
      }
      if (isFinal && outcome === null && state === undefined) {
        this.#possible.set(offset, this.#possible.get(offset) & RELEASED)
      }
    }
  }

  #compare(entry: LeaseEntry, mayHaveMoved: ReadonlySet<number>, isFinal: boolean): void {
    const { offset, attempt, state } = entry
    const where = this.#where(offset)
    const known = this.#attempts.get(offset)
    const outcome = this.outcome(offset)
    if (state !== 'active' && state !== 'expired') {
      assert(OUTCOMES.includes(state as Outcome), `${where} is ${state}`) // the next lines take it for one
      if (outcome !== null) return assert.deepEqual([state, attempt], [outcome, known], where)
      if (mayHaveMoved.has(offset)) return
      const isAsked = attempt === known && (this.#possible.get(offset) & bitOf(state as Outcome)) !== 0
      assert(isAsked, `${where} is ${state} at attempt ${attempt}, but no actor requested it`)
      return this.finished(offset, attempt, state as Outcome)
    }
    if (mayHaveMoved.has(offset)) return
    assert.equal(outcome, null, `${where} was ${outcome} at attempt ${known}, and is ${state} at attempt ${attempt}`)
    assert(attempt >= known, `${where} was given out as attempt ${known}, and is ${state} at attempt ${attempt}`)
    const leasedAt = entry.leased_at_ms!
    const expiresAt = entry.lease_expires_at_ms!
    if (attempt > known) {
      this.#begins({ offset, attempt, leased_at_ms: leasedAt, lease_expires_at_ms: expiresAt }, attempt)
      this.#unanswered.set(offset, 1)
    } else {
      assert.equal(leasedAt, this.#leasedAt.get(offset), where)
      const candidates = [this.#expiresAt.get(offset), this.#mayExpireAt.get(offset)]
      assert(candidates.includes(expiresAt), `${where} expires at ${expiresAt}, not at ${candidates.join(' or ')}`)
      if (!isFinal) return
      this.#possible.set(offset, 0) // what was asked for did not happen
    }
    this.#leasedAt.set(offset, leasedAt)
    this.#expiresAt.set(offset, expiresAt)
    this.#mayExpireAt.set(offset, 0)
    this.#freeFrom.set(offset, expiresAt)
  }

  /** How many offsets of [from, to) are finished for certain, and how many more may be. */
  countFinished(from: number, to: number): { readonly certain: number; readonly possible: number } {
    let certain = Math.max(0, this.stream.base - from)
    let possible = 0
    for (let offset = Math.max(from, this.stream.base); offset < to; offset++) {
      if (this.outcome(offset) !== null) certain++
      else if ((this.#possible.get(offset) & ~RELEASED) !== 0) possible++
    }
    return { certain, possible }
  }

  /** Everything below it is finished for certain, or was removed by retention. */
  finishedEnd(): number {
    let at = Math.max(this.#finishedEnd, this.stream.base, this.stream.floor)
    while (this.outcome(at) !== null) at++
    return (this.#finishedEnd = at)
  }

  forgetBelow(offset: number): void {
    for (const column of [this.#attempts, this.#leasedAt, this.#expiresAt, this.#mayExpireAt])
      column.forgetBelow(offset)
    for (const column of [this.#freeFrom, this.#outcomes, this.#possible, this.#audited, this.#unanswered])
      column.forgetBelow(offset)
  }

  #begins({ offset, leased_at_ms: leasedAt }: Leased, attempt: number): void {
    const where = this.#where(offset)
    const known = this.#attempts.get(offset)
    const outcome = this.outcome(offset)
    assert.equal(
      outcome,
      null,
      `${where} was ${outcome} at attempt ${known}, and given out as attempt ${attempt} nevertheless`,
    )
    const freeFrom = this.#freeFrom.get(offset)
    assert(
      leasedAt >= freeFrom,
      `${where}: attempt ${known} held it until ${freeFrom}, attempt ${attempt} began at ${leasedAt}`,
    )
    this.#attempts.set(offset, attempt)
    this.#possible.set(offset, 0)
    this.#unanswered.set(offset, 0)
  }

  #assertBeganAfter(offset: number, attempt: number, atMs: number, what: string): void {
    const later = this.#attempts.get(offset)
    const began = this.#leasedAt.get(offset)
    const where = this.#where(offset)
    assert(
      later < attempt || began >= atMs,
      `${where} ${what} at ${atMs} after attempt ${attempt}, ${later} began at ${began}`,
    )
  }

  #where(offset: number): string {
    return `offset ${offset} of ${this.stream.name} in group ${this.name}`
  }
}
