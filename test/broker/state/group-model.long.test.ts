/**
 * Random histories of a consumer group, as a broker and a damaged log may cause them, on three groups at once: a naive one; a live one, which
 * expires leases as time passes and is sometimes stored and read again; and one that only applies the frames, like recovery.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { GroupState } from '../../../src/broker/state/group.ts'
import type { LeaseRun, Outcome } from '../../../src/broker/state/group.ts'
import { IntervalSet } from '../../../src/broker/interval-set.ts'
import { NaiveGroup } from '../../support/naive-group.ts'

/** Offsets in use: those around 2^32, where they no longer fit 32 bits. */
const FIRST = 2 ** 32 - 12
const END = 2 ** 32 + 12
const HOLES: ReadonlySet<number> = new Set([FIRST + 5, FIRST + 6, END - 1])

const holes = new IntervalSet()
for (const hole of HOLES) holes.add(hole, hole + 1)

const kind = fc.oneof(
  { weight: 6, arbitrary: fc.constant('claim' as const) },
  { weight: 5, arbitrary: fc.constant('finish' as const) },
  { weight: 4, arbitrary: fc.constant('release' as const) },
  { weight: 2, arbitrary: fc.constant('renew' as const) },
  { weight: 3, arbitrary: fc.constant('expire' as const) },
  { weight: 2, arbitrary: fc.constant('wait' as const) },
  { weight: 1, arbitrary: fc.constant('damaged claim' as const) },
  { weight: 1, arbitrary: fc.constant('drop' as const) },
  { weight: 1, arbitrary: fc.constant('reopen' as const) },
)

const step = fc.record({
  kind,
  offset: fc.integer({ min: FIRST, max: END - 1 }),
  /** Distance of the attempt from the last one at the offset. Only damage to the log makes it other than 0. */
  skew: fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: -1, max: 3 }) },
    { weight: 1, arbitrary: fc.integer({ min: 30, max: 34 }) },
  ),
  count: fc.nat(8),
  ms: fc.nat(20),
  outcome: fc.constantFrom<Outcome>('acked', 'nacked', 'dead_lettered', 'stopped'),
  byPolicy: fc.boolean(),
  reason: fc.constantFrom(null, 'no', 'zu spät'),
})
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never

test('a group agrees with the naive one after every step, and so does one that recovers from the frames', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), fc.boolean(), (steps, policyOnExpiry) => {
      const history = new History(policyOnExpiry)
      for (const each of steps) history.run(each)
      history.checkThatRecoveredCatchesUp()
    }),
    { numRuns: 250 },
  )
})

class History {
  readonly #policyOnExpiry: boolean
  readonly #naive = new NaiveGroup()
  #live = GroupState.create()
  readonly #recovered = GroupState.create()
  readonly #highestAttempt = new Map<number, number>()
  readonly #finished = new Map<number, string>()
  #nowMs = 1000
  #claims = 0

  constructor(policyOnExpiry: boolean) {
    this.#policyOnExpiry = policyOnExpiry
    for (const group of this.#all()) group.dropBelow(FIRST)
  }

  run(step: Step): void {
    const { offset, ms } = step
    const last = this.#naive.deliveries.get(offset)?.attempt ?? 0
    const attempt = Math.max(1, last + step.skew)
    switch (step.kind) {
      case 'claim':
        this.#claim(offset, step.count, ms)
        break
      case 'damaged claim':
        this.#applyClaim(ms, [{ offset, count: Math.min(step.count, END - offset), attempt }])
        break
      case 'finish':
        for (const group of this.#all()) group.applyFinish(offset, attempt, step.outcome, step.byPolicy, step.reason)
        break
      case 'release': {
        const availableAtMs = ms < 8 ? 0 : this.#nowMs + ms
        for (const group of this.#all()) {
          group.applyRelease(offset, attempt, availableAtMs, step.byPolicy, step.reason)
        }
        break
      }
      case 'renew':
        // The broker never writes a renewal of an expired lease.
        if (attempt === last && this.#naive.find(offset, last, this.#nowMs).kind !== 'active') break
        for (const group of this.#all()) group.applyRenew(offset, attempt, this.#nowMs + 5 + ms)
        break
      case 'expire':
        this.#nowMs += ms
        this.#expire(step.count === 8 ? Infinity : step.count, step)
        break
      case 'wait':
        this.#nowMs += ms
        break
      case 'drop':
        for (const group of this.#all()) group.dropBelow(Math.min(offset, this.#naive.floor + 2))
        break
      case 'reopen':
        this.#reopen()
        break
    }
    this.#checkAnswers()
    this.#checkInvariants()
  }

  /** Asserts that the recovered group equals the live one once both have expired what is due. */
  checkThatRecoveredCatchesUp(): void {
    for (const group of [this.#live, this.#recovered, this.#naive]) this.#expireAll(group)
    for (const group of [this.#live, this.#recovered]) {
      assert.deepEqual(group.plan(FIRST, END, Infinity, null), this.#naive.plan(FIRST, END, Infinity, new Set()))
      assert.deepEqual(group.delayed(Infinity).entries, this.#naive.delayed())
      assert.equal(group.nextDueMs, this.#naive.nextDueMs())
    }
  }

  #all(): [GroupState, GroupState, NaiveGroup] {
    return [this.#live, this.#recovered, this.#naive]
  }

  #claim(startOffset: number, max: number, leaseMs: number): void {
    const runs = this.#live.plan(startOffset, END - 2, max, holes)
    assert.deepEqual(runs, this.#naive.plan(startOffset, END - 2, max, HOLES))
    for (const run of runs) {
      for (let offset = run.offset; offset < run.offset + run.count; offset++) {
        assert.ok(run.attempt > (this.#highestAttempt.get(offset) ?? 0), 'attempts grow')
      }
    }
    this.#applyClaim(leaseMs, runs)
  }

  #applyClaim(leaseMs: number, runs: readonly LeaseRun[]): void {
    const claimNumber = this.#claims++
    for (const group of this.#all()) group.applyClaim(claimNumber, this.#nowMs, this.#nowMs + leaseMs, runs)
  }

  #expire(max: number, { outcome, ms, byPolicy }: Step): void {
    const reported: [number, number][] = []
    const report = (offset: number, attempt: number): void => {
      reported.push([offset, attempt])
    }
    const met = this.#live.expire(this.#nowMs, max, this.#policyOnExpiry ? report : undefined)
    assert.deepEqual({ due: met, reported }, this.#naive.expire(this.#nowMs, max, this.#policyOnExpiry))
    if (!byPolicy) return // the broker stopped before it wrote the decision of the failure policy
    for (const [offset, attempt] of reported) {
      for (const group of this.#all()) {
        if (ms % 2 === 0) group.applyFinish(offset, attempt, outcome, true)
        else group.applyRelease(offset, attempt, ms < 8 ? 0 : this.#nowMs + ms, true)
      }
    }
  }

  #expireAll(group: GroupState | NaiveGroup): void {
    if (group instanceof NaiveGroup) group.expire(this.#nowMs, Infinity, this.#policyOnExpiry)
    else group.expire(this.#nowMs, Infinity, this.#policyOnExpiry ? () => {} : undefined)
  }

  #reopen(): void {
    this.#live = stored(this.#live)
    for (const delivery of this.#naive.deliveries.values()) {
      if (delivery.status === 'reported') delivery.status = 'leased' // so that it is reported again
    }
  }

  #checkAnswers(): void {
    const naive = this.#naive
    const nowMs = this.#nowMs
    const active = naive.leases(nowMs, false)
    const all = naive.leases(nowMs, true)
    const ended = all.filter(({ state }) => state !== 'active')
    const newest = [...active.slice(0, 3), ...ended.slice(-3)].sort((a, b) => a.offset - b.offset)
    const claims = new Set(active.map(({ claimNumber }) => claimNumber))
    for (const group of [this.#live, this.#recovered]) {
      for (let offset = FIRST - 1; offset <= END; offset++) {
        const last = naive.deliveries.get(offset)?.attempt ?? 0
        for (let attempt = Math.max(0, last - 34); attempt <= last + 1; attempt++) {
          assert.deepEqual(group.find(offset, attempt, nowMs), naive.find(offset, attempt, nowMs))
        }
      }
      assert.equal(group.progressOffset(), naive.progressOffset())
      assert.equal(group.finishedBetween(FIRST, END), naive.finishedBetween(FIRST, END))
      assert.equal(group.finishedBetween(FIRST + 3, END - 7), naive.finishedBetween(FIRST + 3, END - 7))
      assert.equal(group.inFlight(nowMs), active.length)
      assert.equal(group.activeClaims(nowMs), claims.size)
      assert.deepEqual(group.leases(nowMs, false, Infinity), { entries: active, truncated: false })
      assert.deepEqual(group.leases(nowMs, true, Infinity), { entries: all, truncated: false })
      assert.deepEqual(group.leases(nowMs, false, 2), { entries: active.slice(0, 2), truncated: active.length > 2 })
      const isLong = active.length > 3 || ended.length > 3
      assert.deepEqual(group.leases(nowMs, true, 3), { entries: newest, truncated: isLong })
    }
    const delayed = naive.delayed()
    assert.equal(this.#live.nextDueMs, naive.nextDueMs())
    assert.equal(this.#live.delayedCount, delayed.length)
    assert.deepEqual(this.#live.delayed(3), { entries: delayed.slice(0, 3), truncated: delayed.length > 3 })
    assert.deepEqual(this.#live.plan(FIRST, END, Infinity, holes), naive.plan(FIRST, END, Infinity, HOLES))
  }

  /** Checks the group without the naive one, which might be wrong too. */
  #checkInvariants(): void {
    const group = stored(this.#live)
    group.expire(this.#nowMs, Infinity)
    const available = group
      .plan(FIRST, END, Infinity, null)
      .flatMap(({ offset, count }) => Array.from({ length: count }, (_, i) => offset + i))
    const listed = group.leases(this.#nowMs, true, Infinity).entries
    const leased = listed.filter(({ state }) => state === 'active').map(({ offset }) => offset)
    const finished = listed.filter(({ state }) => !['active', 'expired', 'released'].includes(state))
    const delayed = group.delayed(Infinity).entries.map(({ offset }) => offset)
    const everywhere = [...available, ...leased, ...finished.map(({ offset }) => offset), ...delayed]
    const floor = this.#naive.floor
    assert.deepEqual(
      everywhere.sort((a, b) => a - b),
      Array.from({ length: END - floor }, (_, i) => floor + i),
      'each offset is in one place',
    )

    for (const { offset, attempt } of group.leases(this.#nowMs, false, Infinity).entries) {
      this.#highestAttempt.set(offset, Math.max(attempt, this.#highestAttempt.get(offset) ?? 0))
    }
    const now = new Map(finished.map(({ offset, state, attempt }) => [offset, `${state} ${attempt}`]))
    for (const [offset, how] of this.#finished) {
      if (offset >= floor) assert.equal(now.get(offset), how, 'finished is for ever')
    }
    for (const [offset, how] of now) this.#finished.set(offset, how)
  }
}

function stored(group: GroupState): GroupState {
  return GroupState.decode(Buffer.concat(group.encode()))
}
