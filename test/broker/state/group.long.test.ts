import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { planWithin } from '../../../src/broker/state/claim-plan.ts'
import { GroupState } from '../../../src/broker/state/group.ts'
import { IntervalSet } from '../../../src/broker/interval-set.ts'

const claim = (group: GroupState, offset: number, count: number, attempt: number, expiresAtMs: number): void =>
  group.applyClaim(1, 0, expiresAtMs, [{ offset, count, attempt }])

describe('a claim', () => {
  it('takes the lowest available offsets and leaves out what is leased, delayed, finished or unreadable', () => {
    const group = GroupState.create()
    claim(group, 0, 4, 1, 100)
    group.applyFinish(0, 1, 'acked')
    group.applyRelease(1, 1, 50)
    group.applyRelease(2, 1, 0)
    const holes = new IntervalSet()
    holes.add(5, 7)
    assert.deepEqual(group.plan(0, 10, 4, holes), [
      { offset: 2, count: 1, attempt: 2 },
      { offset: 4, count: 1, attempt: 1 },
      { offset: 7, count: 2, attempt: 1 },
    ])
    assert.deepEqual(group.plan(0, 10, 0, null), [])
    assert.deepEqual(group.plan(3, 4, 10, null), [])
  })

  it('takes again what expired, as the next attempt, also when nobody noticed the expiry before', () => {
    const group = GroupState.create()
    claim(group, 0, 1, 1, 100)
    claim(group, 0, 1, 2, 300)
    assert.deepEqual(group.find(0, 1, 200), { kind: 'expired' })
    assert.deepEqual(group.find(0, 2, 200), { kind: 'active', claimNumber: 1, leasedAtMs: 0, expiresAtMs: 300 })
    assert.equal(group.inFlight(200), 1)
  })

  it('of a finished offset, or of an attempt that was given before, changes nothing', () => {
    const group = GroupState.create()
    claim(group, 0, 3, 2, 100)
    group.applyFinish(1, 2, 'nacked')
    group.applyRelease(2, 2, 0)
    claim(group, 0, 3, 2, 200)
    assert.equal(group.find(1, 2, 0).kind, 'resolved')
    assert.equal(group.find(2, 2, 0).kind, 'resolved')
    assert.equal(group.nextDueMs, 100)
    assert.deepEqual(group.plan(0, 3, 3, null), [{ offset: 2, count: 1, attempt: 3 }])
  })
})

describe('a plan within a bound', () => {
  const plan = [
    { offset: 2, count: 3, attempt: 1 },
    { offset: 7, count: 2, attempt: 4 },
  ]
  const within = (bytesMax: number): ReturnType<typeof planWithin> => {
    let bytes = 0
    return planWithin(plan, bytesMax, () => (bytes += 10))
  }

  it('ends where the next offset would be too much', () => {
    assert.deepEqual(within(50), plan)
    assert.deepEqual(within(49), [plan[0], { offset: 7, count: 1, attempt: 4 }])
    assert.deepEqual(within(39), [plan[0]])
    assert.deepEqual(within(29), [{ offset: 2, count: 2, attempt: 1 }])
  })

  it('has one offset, however much that is', () => {
    assert.deepEqual(within(0), [{ offset: 2, count: 1, attempt: 1 }])
  })
})

describe('an expired lease', () => {
  it('is available again when expire has met it, the earliest first, as many as asked for', () => {
    const group = GroupState.create()
    claim(group, 5, 2, 1, 100)
    claim(group, 0, 2, 1, 200)
    assert.equal(group.expire(99, 10), 0)
    assert.equal(group.expire(200, 3), 3)
    assert.deepEqual(group.plan(0, 7, 10, null), [
      { offset: 0, count: 1, attempt: 2 },
      { offset: 2, count: 3, attempt: 1 },
      { offset: 5, count: 2, attempt: 2 },
    ])
    assert.equal(group.nextDueMs, 200)
  })

  it('is not in flight, whether expire has met it or not', () => {
    const group = GroupState.create()
    claim(group, 0, 2, 1, 100)
    claim(group, 2, 1, 1, 200)
    assert.equal(group.inFlight(99), 3)
    assert.equal(group.inFlight(100), 1)
    group.expire(100, 1)
    assert.equal(group.inFlight(100), 1)
    assert.equal(group.find(0, 1, 100).kind, 'expired')
    assert.equal(group.find(1, 1, 100).kind, 'expired')
  })

  it('that is reported stays unavailable until the failure policy has spoken, and is reported once', () => {
    const group = GroupState.create()
    claim(group, 0, 3, 1, 100)
    group.applyRelease(2, 1, 100)
    const reported: number[][] = []
    const report = (offset: number, attempt: number): void => {
      reported.push([offset, attempt])
    }
    assert.equal(group.expire(100, 10, report), 3)
    assert.equal(group.expire(100, 10, report), 0)
    assert.deepEqual(reported, [
      [0, 1],
      [1, 1],
    ])
    assert.deepEqual(group.plan(0, 3, 3, null), [{ offset: 2, count: 1, attempt: 2 }])
    assert.equal(group.nextDueMs, Infinity)

    group.applyFinish(0, 1, 'stopped', true)
    group.applyRelease(1, 1, 0, true)
    assert.deepEqual(group.plan(0, 2, 3, null), [{ offset: 1, count: 1, attempt: 2 }])
    assert.equal(group.find(0, 1, 100).kind, 'expired')
    assert.equal(group.find(1, 1, 100).kind, 'expired')
  })

  it('that is reported may be finished by whoever it is reported to', () => {
    const group = GroupState.create()
    claim(group, 0, 1000, 1, 100)
    group.expire(100, 1000, (offset, attempt) => group.applyFinish(offset, attempt, 'dead_lettered', true))
    assert.equal(group.progressOffset(), 1000)
  })

  it('that is reported is reported again by a group that was stored meanwhile', () => {
    const group = GroupState.create()
    claim(group, 7, 1, 1, 100)
    group.expire(100, 10, () => {})
    const again: number[] = []
    reopened(group).expire(100, 10, (offset) => again.push(offset))
    assert.deepEqual(again, [7])
  })
})

describe('an attempt', () => {
  it('that expired is told from one that was resolved, for the last 32 attempts, before and after the offset is finished', () => {
    const group = GroupState.create()
    for (let attempt = 1; attempt <= 40; attempt++) {
      claim(group, 0, 1, attempt, attempt)
      if (attempt % 3 === 0) group.applyRelease(0, attempt, 0)
    }
    const check = (): void => {
      for (let attempt = 1; attempt < 40; attempt++) {
        const remembered = attempt > 40 - 32 && attempt % 3 !== 0
        assert.equal(group.find(0, attempt, 0).kind, remembered ? 'expired' : 'resolved', `attempt ${attempt}`)
      }
      assert.equal(group.find(0, 41, 0).kind, 'unknown')
      assert.equal(group.find(0, 0, 0).kind, 'unknown')
    }
    check()
    group.applyFinish(0, 40, 'acked')
    check()
    assert.equal(group.find(0, 40, 0).kind, 'resolved')
  })

  it('that expired is remembered of the newest 100 000 finished offsets where one did', () => {
    const group = GroupState.create()
    claim(group, 0, 100_001, 1, 10)
    claim(group, 0, 100_001, 2, 20)
    for (let offset = 0; offset <= 100_000; offset++) group.applyFinish(offset, 2, 'acked')
    assert.equal(group.find(0, 1, 20).kind, 'resolved')
    assert.equal(group.find(1, 1, 20).kind, 'expired')
    assert.equal(group.find(100_000, 1, 20).kind, 'expired')
  })
})

describe('what retention dropped', () => {
  it('is unknown, never given out, and not waited for', () => {
    const group = GroupState.create()
    claim(group, 0, 4, 1, 100)
    group.applyFinish(2, 1, 'acked')
    group.applyRelease(3, 1, 50)
    group.dropBelow(5)
    assert.equal(group.find(2, 1, 0).kind, 'unknown')
    assert.equal(group.find(0, 1, 0).kind, 'unknown')
    assert.equal(group.nextDueMs, Infinity)
    assert.equal(group.progressOffset(), 5)
    assert.equal(group.finishedBetween(0, 5), 0)
    assert.deepEqual(group.plan(0, 6, 9, null), [{ offset: 5, count: 1, attempt: 1 }])
    claim(group, 3, 3, 1, 100)
    assert.equal(group.inFlight(0), 1)
  })

  it('leaves nothing behind in a checkpoint', () => {
    const group = GroupState.create()
    const empty = Buffer.concat(group.encode()).length
    for (const offset of [0, 2, 4]) claim(group, offset, 1, 1, 100)
    for (const offset of [0, 2, 4]) claim(group, offset, 1, 2, 200)
    group.applyFinish(2, 2, 'acked')
    group.applyRelease(4, 2, 300)
    group.dropBelow(5)
    assert.equal(Buffer.concat(group.encode()).length, empty)
  })
})

describe('inspection', () => {
  it('lists the lowest active leases, and says that there are more', () => {
    const group = GroupState.create()
    for (const offset of [9, 1, 7, 3, 5]) claim(group, offset, 1, 1, 100 + offset)
    const { entries, truncated } = group.leases(101, false, 2)
    assert.deepEqual(entries, [
      { offset: 3, attempt: 1, state: 'active', claimNumber: 1, leasedAtMs: 0, expiresAtMs: 103, reason: null },
      { offset: 5, attempt: 1, state: 'active', claimNumber: 1, leasedAtMs: 0, expiresAtMs: 105, reason: null },
    ])
    assert.equal(truncated, true)
    assert.equal(group.leases(101, false, 4).truncated, false)
  })

  it('with completed ones lists the active leases, and the highest offsets of those that ended', () => {
    const group = GroupState.create()
    claim(group, 0, 5, 1, 100)
    group.applyFinish(0, 1, 'acked')
    group.applyFinish(3, 1, 'nacked')
    group.applyRelease(4, 1, 0)
    group.applyRenew(2, 1, 200)
    const states = (max: number): string[] =>
      group.leases(100, true, max).entries.map(({ offset, state }) => `${offset} ${state}`)
    assert.deepEqual(states(10), ['0 acked', '1 expired', '2 active', '3 nacked', '4 released'])
    assert.deepEqual(states(2), ['2 active', '3 nacked', '4 released'])
    assert.deepEqual(states(0), [])
    assert.equal(group.leases(100, true, 4).truncated, false)
    assert.equal(group.leases(100, true, 3).truncated, true)
  })

  it('with completed ones hides no active lease, however many offsets above it ended', () => {
    const group = GroupState.create()
    claim(group, 0, 3, 1, 1000)
    claim(group, 3, 5, 2, 100)
    for (let offset = 3; offset < 6; offset++) group.applyFinish(offset, 1, 'acked')
    const { entries, truncated } = group.leases(100, true, 2)
    assert.deepEqual(
      entries.map(({ offset, state }) => `${offset} ${state}`),
      ['0 active', '1 active', '6 expired', '7 expired'],
    )
    assert.equal(truncated, true)
  })

  it('remembers the reasons of the 10 000 offsets that were given back last', () => {
    const group = GroupState.create()
    for (let offset = 0; offset <= 10_000; offset++) group.applyRelease(offset, 1, 0, false, `r${offset}`)
    group.applyRelease(1, 2, 0, false, 'again')
    group.applyRelease(10_001, 1, 0, false, 'new')
    const { entries } = group.leases(0, true, 20_000)
    const without = entries.filter(({ reason }) => reason === null).map(({ offset }) => offset)
    assert.deepEqual(without, [0, 2])
    assert.equal(entries[1]!.reason, 'again')
    group.dropBelow(10_000)
    const left = reopened(group).leases(0, true, 10)
    assert.deepEqual(
      left.entries.map(({ reason }) => reason),
      ['r10000', 'new'],
    )
  })

  it('counts the claims that hold an active lease', () => {
    const group = GroupState.create()
    group.applyClaim(1, 0, 100, [{ offset: 0, count: 2, attempt: 1 }])
    group.applyClaim(2, 0, 200, [{ offset: 2, count: 2, attempt: 1 }])
    assert.equal(group.activeClaims(99), 2)
    assert.equal(group.activeClaims(100), 1)
    group.applyFinish(2, 1, 'acked')
    assert.equal(group.activeClaims(100), 1)
    group.applyFinish(3, 1, 'acked')
    assert.equal(group.activeClaims(100), 0)
  })
})

describe('memory', () => {
  it('is at most 64 bytes for each of a million leases', () => {
    const group = GroupState.create()
    for (let first = 0; first < 1_000_000; first += 1000) claim(group, first, 1000, 1, 100 + first)
    assert.equal(group.inFlight(0), 1_000_000)
    assert.ok(group.bytes <= 64 * 1_000_000, `${group.bytes} bytes`)
  })

  it('does not grow with what was finished in order', () => {
    const group = GroupState.create()
    const finish = (from: number, to: number): void => {
      for (let first = from; first < to; first += 100) {
        claim(group, first, 100, 1, 100)
        for (let offset = first; offset < first + 100; offset++) group.applyFinish(offset, 1, 'acked')
      }
    }
    finish(0, 1000)
    const { bytes } = group
    finish(1000, 500_000)
    assert.equal(group.bytes, bytes)
    assert.equal(group.progressOffset(), 500_000)
  })
})

describe('a checkpoint', () => {
  it('of another version or length is refused, not misread', () => {
    const group = GroupState.create()
    claim(group, 0, 3, 1, 100)
    const bytes = Buffer.concat(group.encode())
    const refused = { name: 'StoreError', kind: 'corrupt', code: 'group_checkpoint_unreadable' }
    assert.throws(() => GroupState.decode(bytes.subarray(0, bytes.length - 1)), refused)
    assert.throws(() => GroupState.decode(bytes.subarray(0, 20)), refused)
    assert.throws(() => GroupState.decode(new Uint8Array()), refused)
    bytes[0] = 2
    assert.throws(() => GroupState.decode(bytes), refused)
  })

  it('without reasons is as before there were any', () => {
    const group = GroupState.create()
    claim(group, 0, 3, 1, 100)
    const bytes = Buffer.concat(group.encode())
    assert.deepEqual([bytes.readUInt8(1), bytes.length], [0, 48 + 3 * 41 + 16])
    group.applyRelease(1, 1, 0, false, 'no')
    const reasoned = Buffer.concat(group.encode())
    assert.equal(reasoned.readUInt8(1), 1)
    const refused = { code: 'group_checkpoint_unreadable' }
    assert.throws(() => GroupState.decode(reasoned.subarray(0, reasoned.length - 1)), refused)
  })

  it('is read wherever it begins in a buffer', () => {
    const group = GroupState.create()
    claim(group, 2 ** 40, 3, 7, 100)
    const bytes = Buffer.concat([Buffer.alloc(3), ...group.encode()])
    assert.equal(GroupState.decode(bytes.subarray(3)).find(2 ** 40 + 2, 7, 0).kind, 'active')
  })

  it('does not change with the group', () => {
    const group = GroupState.create()
    claim(group, 0, 3, 1, 100)
    const parts = group.encode()
    group.applyFinish(1, 1, 'acked')
    assert.equal(GroupState.decode(Buffer.concat(parts)).find(1, 1, 0).kind, 'active')
  })
})

function reopened(group: GroupState): GroupState {
  return GroupState.decode(Buffer.concat(group.encode()))
}
