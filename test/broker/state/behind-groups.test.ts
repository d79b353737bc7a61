/**
 * Groups that the floor of their stream has left behind: no reader can tell them from groups that forget at once. In the random histories naive
 * groups forget at once, and of the others only the one that a step looks at catches up.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { StateCopy, decodeCheckpoint } from '../../../src/broker/engine/checkpoint-content.ts'
import { GroupState } from '../../../src/broker/state/group.ts'
import { lagOf } from '../../../src/broker/state/group-totals.ts'
import { BrokerState, DEFAULT_STREAM_CONFIG } from '../../../src/broker/state/state.ts'
import type { Group, StreamState } from '../../../src/broker/state/state.ts'
import { atOnce } from '../../../src/steps.ts'
import { NaiveGroup } from '../../support/naive-group.ts'

const TENANT = 'acme'
const RECORDS = 12
const GROUPS = 3
const PLACE_BYTES = 64

function addStream(state: BrokerState, name: string, groups: number): StreamState {
  const stream = state.applyStreamCreated(state.streams.length, TENANT, name, DEFAULT_STREAM_CONFIG, 1)
  for (let offset = 0; offset < RECORDS; offset++) {
    const brought = { firstOffset: offset, count: 1, ingestTimeMs: 1, eventTimeMsOf: () => 1, payloadBytesOf: () => 1 }
    state.applyRecords(stream, { segmentBase: 0, place: PLACE_BYTES * offset, frameBytes: PLACE_BYTES }, brought)
  }
  for (let i = 0; i < groups; i++) state.applyGroupCreated(state.groups.length, stream, `g${i}`)
  return stream
}

/** How often groups are told to forget while the work is done. */
function forgettingDuring(work: () => void): number {
  const own = Object.getOwnPropertyDescriptor(GroupState.prototype, 'dropBelow')!
  let count = 0
  Object.defineProperty(GroupState.prototype, 'dropBelow', {
    ...own,
    value(this: GroupState, floor: number) {
      count += 1
      own.value.call(this, floor)
    },
  })
  try {
    work()
  } finally {
    Object.defineProperty(GroupState.prototype, 'dropBelow', own)
  }
  return count
}

const ack = (state: BrokerState, group: Group, offset: number): void =>
  state.applyResolution(group, { verb: 'ack', offset, attempt: 1, atMs: 1, valueMs: 0 })

describe('a floor that rises over thousands of groups', () => {
  const MANY = 2300

  it('looks at none of them; they catch up in slices, the one that is looked at before its turn', () => {
    const state = new BrokerState()
    const stream = addStream(state, 'orders', MANY)
    const groups = [...stream.groups.values()]
    for (const group of groups) for (const offset of [0, 1, 5]) ack(state, group, offset)
    assert.equal(
      forgettingDuring(() => state.applyRetained(stream, 4, 0)),
      0,
    )
    assert.equal(
      forgettingDuring(() => assert.equal(groups.at(-1)!.queue.finishedCount, 1)),
      1,
    )
    const slices = [1, 2, 3, 4].map(() => forgettingDuring(() => assert.equal(state.catchUpSome(), true)))
    slices.push(forgettingDuring(() => assert.equal(state.catchUpSome(), false)))
    assert.deepEqual(slices, [500, 500, 500, 500, 299])
    assert.equal(
      forgettingDuring(() => assert.equal(state.groupSums(TENANT).lag, MANY * (RECORDS - 4 - 1))),
      0,
    )
  })

  it('leaves them alone when damage is found meanwhile', () => {
    const state = new BrokerState()
    const stream = addStream(state, 'orders', 10)
    for (const group of stream.groups.values()) for (const offset of [1, 5]) ack(state, group, offset)
    state.applyRetained(stream, 4, 0)
    assert.equal(
      forgettingDuring(() => state.applyDamage(0, PLACE_BYTES * 5, PLACE_BYTES * 7)),
      0,
    )
    assert.equal(state.groupSums(TENANT).lag, 10 * (RECORDS - 4 - 2))
  })

  it('may rise again while they catch up', () => {
    const state = new BrokerState()
    const stream = addStream(state, 'orders', MANY)
    for (const group of stream.groups.values()) ack(state, group, 1)
    state.applyRetained(stream, 1, 0)
    assert.ok(state.catchUpSome())
    state.applyRetained(stream, 2, 0)
    assert.equal(state.groupSums(TENANT).lag, MANY * (RECORDS - 2))
  })

  it('is the same in a checkpoint, whether groups have caught up or not', async () => {
    const checkpoints: Buffer[] = []
    for (const catchesUp of [true, false]) {
      const state = new BrokerState()
      const stream = addStream(state, 'orders', 10)
      for (const group of stream.groups.values()) for (const offset of [0, 5]) ack(state, group, offset)
      state.applyRetained(stream, 4, 0)
      if (catchesUp) state.catchUpSome()
      const parts = await new StateCopy(state).finish(async () => {})
      checkpoints.push(Buffer.concat(parts))
      assert.equal(state.groupSums(TENANT).lag, 10 * (RECORDS - 4 - 1))
    }
    assert.deepEqual(checkpoints[0], checkpoints[1])
  })

  it('has those with much to forget catch up in smaller slices', () => {
    const state = new BrokerState()
    const stream = addStream(state, 'orders', 100)
    const runs = [{ offset: 0, count: 1000, attempt: 1 }]
    for (const group of stream.groups.values()) state.applyClaim(group, 0, 1, 1000, runs)
    state.applyRetained(stream, 1000, 0)
    const first = forgettingDuring(() => assert.ok(state.catchUpSome()))
    assert.ok(first > 5 && first < 30, `${first} groups with a thousand leases each`)
    assert.deepEqual(state.totals, { leased: 0, delayed: 0 })
  })

  it('is in the sums over groups, whatever was deleted meanwhile, and whether that is still looked at', () => {
    const state = new BrokerState()
    const stream = addStream(state, 'orders', 4)
    const other = addStream(state, 'other', 1)
    const [first, second, third] = stream.groups.values()
    const [fifth] = other.groups.values()
    for (const group of [first!, second!, third!, fifth!]) {
      ack(state, group, 0)
      state.applyFinished(group, 1, 1, 'dead_lettered', 1, null)
      state.applyClaim(group, 0, 1, 1000, [{ offset: 2, count: 4, attempt: 1 }])
    }
    state.applyRetained(stream, 4, 0)
    state.applyRetained(other, 4, 0)
    state.applyGroupDeleted(second!)
    assert.equal(second!.queue.leasedCount, 2)
    const left = RECORDS - 4
    assert.deepEqual(state.groupSums(TENANT), { lag: 4 * left, leased: 6, delayed: 0, deadLetters: 0 })
    state.applyRetained(stream, 5, 0)
    state.applyStreamDeleted(stream)
    assert.equal(first!.queue.leasedCount, 1)
    assert.deepEqual(state.groupSums(TENANT), { lag: left, leased: 2, delayed: 0, deadLetters: 0 })
    assert.deepEqual([state.totals, state.groupCount], [{ leased: 2, delayed: 0 }, 1])
    assert.deepEqual([...state.groupsOf(TENANT)], [fifth])
    assert.deepEqual(state.dueGroups(5000), [fifth])
  })
})

const step = fc.record({
  kind: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom('claim', 'finish', 'release', 'raise') },
    { weight: 2, arbitrary: fc.constantFrom('renew', 'wait', 'seek', 'catch up', 'copy') },
    { weight: 1, arbitrary: fc.constantFrom('create group', 'delete group', 'delete stream', 'damage') },
  ),
  look: fc.oneof(
    { weight: 5, arbitrary: fc.constant('nothing') },
    { weight: 1, arbitrary: fc.constantFrom('group', 'counts', 'sums', 'due', 'copy') },
  ),
  place: fc.nat(),
  offset: fc.nat(RECORDS - 1),
  count: fc.integer({ min: 1, max: 6 }),
  ms: fc.nat(20),
  outcome: fc.constantFrom('ack', 'nack', 'dead_lettered', 'stopped'),
})
type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never

/** A checkpoint that is being made, and what its groups were when it was begun. */
interface Begun {
  readonly copy: StateCopy
  readonly floors: readonly (number | undefined)[]
  readonly naive: ReadonlyMap<number, NaiveGroup>
}

class History {
  readonly #state = new BrokerState()
  /** By number. */
  readonly #naive = new Map<number, NaiveGroup>()
  /** Offsets that are damaged, in both streams. */
  readonly #holes = new Set<number>()
  #begun: Begun | null = null
  #nowMs = 1000

  constructor() {
    for (const name of ['orders', 'other']) addStream(this.#state, name, GROUPS)
    for (const { number } of this.#groups()) this.#naive.set(number, new NaiveGroup())
  }

  async run(each: Step): Promise<void> {
    const groups = this.#groups()
    const group = groups[each.place % groups.length]
    if (group !== undefined) this.#apply(each, group)
    await this.#look(each.look, group)
  }

  async checkAll(): Promise<void> {
    for (const look of ['sums', 'due', 'copy']) await this.#look(look, undefined)
    for (const group of this.#groups()) {
      this.#checkQueue(group.queue, this.#naive.get(group.number)!)
      await this.#look('counts', group)
    }
  }

  #groups(): Group[] {
    return this.#state.groups.flatMap((group) => group ?? [])
  }

  #apply({ kind, offset, count, ms, outcome }: Step, group: Group): void {
    const state = this.#state
    const nowMs = this.#nowMs
    const { stream, number } = group
    const naive = this.#naive.get(number)!
    const attempt = Math.max(1, naive.deliveries.get(offset)?.attempt ?? 0)
    const isExpired = naive.find(offset, attempt, nowMs).kind === 'expired'
    switch (kind) {
      case 'claim': {
        const runs = naive.plan(Math.max(offset, naive.floor), RECORDS, count, new Set())
        const claimNumber = group.nextClaimNumber
        state.applyClaim(group, claimNumber, nowMs, nowMs + 5 + ms, runs)
        return naive.applyClaim(claimNumber, nowMs, nowMs + 5 + ms, runs)
      }
      case 'finish':
        if (outcome === 'ack' || outcome === 'nack') {
          state.applyResolution(group, { verb: outcome, offset, attempt, atMs: nowMs, valueMs: 0 })
          return naive.applyFinish(offset, attempt, `${outcome}ed`, false)
        }
        state.applyFinished(group, offset, attempt, outcome, nowMs, 'no')
        return naive.applyFinish(offset, attempt, outcome, isExpired, 'no')
      case 'release': {
        const valueMs = ms < 8 ? 0 : nowMs + ms
        state.applyResolution(group, { verb: 'release', offset, attempt, atMs: nowMs, valueMs, reason: 'later' })
        return naive.applyRelease(offset, attempt, valueMs, isExpired, 'later')
      }
      case 'renew':
        if (isExpired) return
        state.applyResolution(group, { verb: 'renew', offset, attempt, atMs: nowMs, valueMs: nowMs + 9 })
        return naive.applyRenew(offset, attempt, nowMs + 9)
      case 'raise': {
        const floor = Math.min(RECORDS, stream.floor + count)
        state.applyRetained(stream, floor, count)
        for (const { number: each } of stream.groups.values()) this.#naive.get(each)!.dropBelow(floor)
        return
      }
      case 'wait':
        this.#nowMs += ms
        return
      case 'seek':
        if (offset < stream.floor) return
        state.applySought(group, offset)
        return naive.reopenFrom(offset)
      case 'catch up':
        state.catchUpSome()
        return
      case 'copy':
        this.#begin()
        return
      case 'create group': {
        const created = state.applyGroupCreated(state.groups.length, stream, `new ${state.groups.length}`)
        const fresh = new NaiveGroup()
        fresh.dropBelow(stream.floor)
        this.#naive.set(created.number, fresh)
        return
      }
      case 'damage':
        this.#holes.add(offset)
        return state.applyDamage(0, PLACE_BYTES * offset, PLACE_BYTES * (offset + 1))
      case 'delete group':
        return state.applyGroupDeleted(group)
      case 'delete stream':
        return state.applyStreamDeleted(stream)
    }
  }

  #begin(): void {
    if (this.#begun !== null) return
    const naive = new Map<number, NaiveGroup>()
    for (const { number } of this.#groups()) {
      const { floor, deliveries } = this.#naive.get(number)!
      const copied = new NaiveGroup()
      copied.floor = floor
      for (const [offset, delivery] of structuredClone(deliveries)) copied.deliveries.set(offset, delivery)
      naive.set(number, copied)
    }
    const floors = this.#state.streams.map((stream) => stream?.floor)
    this.#begun = { copy: new StateCopy(this.#state), floors, naive }
  }

  async #look(look: string, group: Group | undefined): Promise<void> {
    const naive = group && this.#naive.get(group.number)!
    switch (look) {
      case 'group':
        if (naive) this.#checkQueue(group.queue, naive)
        return
      case 'counts': {
        if (!naive || this.#state.groups[group.number] !== group) return // one that is deleted counts for nothing
        assert.equal(lagOf(group), this.#lagOf(group))
        assert.equal(group.counted.delayed, naive.delayed().length)
        return
      }
      case 'sums':
        return this.#checkSums()
      case 'due':
        return this.#expire()
      case 'copy':
        return this.#checkCopy()
    }
  }

  #checkQueue(queue: GroupState, naive: NaiveGroup): void {
    const nowMs = this.#nowMs
    assert.deepEqual(queue.leases(nowMs, true, Infinity).entries, naive.leases(nowMs, true))
    assert.deepEqual(queue.delayed(Infinity).entries, naive.delayed())
    assert.equal(queue.inFlight(nowMs), naive.leases(nowMs, false).length)
    assert.equal(queue.progressOffset(), naive.progressOffset())
    assert.equal(queue.nextDueMs, naive.nextDueMs())
    assert.deepEqual(queue.plan(0, RECORDS, Infinity, null), naive.plan(0, RECORDS, Infinity, new Set()))
    for (let offset = 0; offset < RECORDS; offset++) {
      for (const attempt of [1, 2])
        assert.deepEqual(queue.find(offset, attempt, nowMs), naive.find(offset, attempt, nowMs))
    }
  }

  #checkSums(): void {
    const expected = { lag: 0, leased: 0, delayed: 0, deadLetters: 0 }
    for (const group of this.#groups()) {
      const naive = this.#naive.get(group.number)!
      expected.lag += this.#lagOf(group)
      for (const { status } of naive.deliveries.values()) {
        if (status === 'leased') expected.leased += 1
        else if (status === 'delayed') expected.delayed += 1
        else if (status === 'dead_lettered') expected.deadLetters += 1
      }
    }
    assert.deepEqual(this.#state.groupSums(TENANT), expected)
    assert.deepEqual(this.#state.totals, { leased: expected.leased, delayed: expected.delayed })
  }

  #lagOf({ number, stream }: Group): number {
    const naive = this.#naive.get(number)!
    let lag = 0
    for (let offset = stream.floor; offset < RECORDS; offset++) {
      if (!this.#holes.has(offset) && !naive.isFinished(offset)) lag += 1
    }
    return lag
  }

  /** What a tick of the broker does. */
  #expire(): void {
    const nowMs = this.#nowMs
    const due = this.#state.dueGroups(nowMs)
    const dueNumbers = this.#groups().filter(({ number }) => this.#naive.get(number)!.due(nowMs).length > 0)
    assert.deepEqual(new Set(due), new Set(dueNumbers))
    for (const group of due) {
      const met = this.#state.expire(group, nowMs, Infinity)
      assert.equal(met, this.#naive.get(group.number)!.expire(nowMs, Infinity, false).due)
    }
  }

  async #checkCopy(): Promise<void> {
    if (this.#begun === null) return
    const { copy, floors, naive } = this.#begun
    this.#begun = null
    const restored = atOnce(decodeCheckpoint(Buffer.concat(await copy.finish(async () => {}))))
    assert.deepEqual(
      Array.from(restored.streams, (stream) => stream?.floor),
      floors,
    )
    const groups = restored.groups.flatMap((group) => group ?? [])
    assert.deepEqual(
      groups.map(({ number }) => number),
      [...naive.keys()],
    )
    for (const { number, queue } of groups) {
      assert.equal(queue.floor, naive.get(number)!.floor)
      this.#checkQueue(queue, naive.get(number)!)
    }
  }
}

describe('groups that catch up when they are looked at', () => {
  it('agree with naive ones that forgot at once, and so do checkpoints with the moment they began at', async () => {
    const history = fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const lived = new History()
      for (const each of steps) await lived.run(each)
      await lived.checkAll()
    })
    await fc.assert(history, { numRuns: 300 })
  })
})
