import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { BrokerTime } from '../../../src/broker/state/broker-time.ts'
import { watchClock } from '../../../src/broker/engine/clock-watch.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const WALL_MS = 1_800_000_000_000
const SLEW = 500e-6

/** Clocks that the test moves. */
class TestClocks {
  now = 12.5
  wall = WALL_MS
  slept = 0

  readonly nowMs = (): number => this.now
  readonly wallMs = (): number => this.wall
  readonly uptimeMs = (): number => 50_000 + this.now + this.slept

  pass(ms: number): void {
    this.now += ms
    this.wall += ms
  }
}

test('broker time begins at the wall clock, but never before the log', () => {
  const clocks = new TestClocks()
  assert.equal(new BrokerTime(clocks, 0).nowMs(), WALL_MS)
  assert.equal(new BrokerTime(clocks, WALL_MS - 1).nowMs(), WALL_MS)
  assert.equal(new BrokerTime(clocks, WALL_MS + 4000).nowMs(), WALL_MS + 4000)
  assert.equal(new BrokerTime(clocks, WALL_MS + 4000).offsetMs, 4000)
})

test('broker time is whole milliseconds that never fall and differ from those that passed by 500 ppm at most, whatever the wall clock does', () => {
  const jumps = fc.array(
    fc.record({ elapsedMs: fc.double({ min: 0, max: HOUR_MS, noNaN: true }), wallJumpMs: fc.integer() }),
  )
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e9, noNaN: true }), jumps, (bootMs, steps) => {
      const clocks = new TestClocks()
      clocks.now = bootMs
      const time = new BrokerTime(clocks, 0)
      const begin = time.nowMs()
      let last = begin
      for (const { elapsedMs, wallJumpMs } of steps) {
        clocks.now += elapsedMs
        clocks.wall += wallJumpMs
        const passedMs = clocks.now - bootMs
        assert.ok(Number.isSafeInteger(time.nowMs()) && time.nowMs() >= last)
        assert.ok(Math.abs(time.nowMs() - begin - passedMs) <= 1 + passedMs * SLEW)
        assert.equal(time.wallMs(), clocks.wall)
        last = time.nowMs()
      }
    }),
  )
})

describe('a wall clock that is off', () => {
  for (const [side, aheadMs] of [
    ['behind', 10_000],
    ['ahead', -10_000],
  ] as const) {
    it(`${side} by ten seconds is reached by 500 ppm, and then followed`, () => {
      const clocks = new TestClocks()
      const time = new BrokerTime(clocks, 0)
      clocks.wall -= aheadMs
      for (let hour = 0; hour <= 6; hour += 1) {
        const left = Math.sign(aheadMs) * Math.max(0, 10_000 - hour * HOUR_MS * SLEW)
        assert.ok(Math.abs(time.offsetMs - left) <= 2, `${time.offsetMs} ms after ${hour} hours`)
        for (let second = 0; second < 3600; second += 1) {
          clocks.pass(1000)
          time.nowMs()
        }
      }
      assert.ok(Math.abs(time.offsetMs) <= 1)
    })
  }

  it('by a year at an earlier start leaves broker time ahead, and drawing near', () => {
    const clocks = new TestClocks()
    const time = new BrokerTime(clocks, WALL_MS + 365 * DAY_MS)
    for (let second = 0; second < 86_400; second += 1) {
      clocks.pass(1000)
      time.nowMs()
    }
    assert.ok(Math.abs(365 * DAY_MS - 43_200 - time.offsetMs) < 10)
  })
})

describe('a machine that sleeps', () => {
  it('has its sleep counted, as time that passed: the clocks agree again', () => {
    const clocks = new TestClocks()
    const time = new BrokerTime(clocks, 0)
    clocks.pass(5000)
    time.nowMs()
    clocks.slept += 8 * HOUR_MS
    clocks.wall += 8 * HOUR_MS
    clocks.pass(1000)
    assert.equal(time.nowMs(), WALL_MS + 6000 + 8 * HOUR_MS)
    assert.deepEqual([time.offsetMs, time.sleptMs], [0, 8 * HOUR_MS])
    clocks.pass(5000)
    assert.equal(time.nowMs(), WALL_MS + 11_000 + 8 * HOUR_MS)
    assert.equal(time.sleptMs, 8 * HOUR_MS)
  })

  it('is not taken for one whose wall clock was set, nor for one whose uptime is coarse', () => {
    const clocks = new TestClocks()
    const time = new BrokerTime(clocks, 0)
    clocks.wall += HOUR_MS
    clocks.slept += 900
    clocks.pass(1000)
    assert.equal(time.nowMs(), WALL_MS + 1000)
    clocks.slept -= 900
    clocks.pass(1000)
    assert.equal(time.nowMs(), WALL_MS + 2000)
    assert.equal(time.sleptMs, 0)
  })
})

describe('the log of the broker', () => {
  it('tells a difference of more than a second once, when it has changed by half, and when it is over; and a sleep', () => {
    const clocks = new TestClocks()
    const time = new BrokerTime(clocks, 0)
    const lines: [level: string, details: object][] = []
    let watch = (): void => assert.fail('not begun')
    const logger = {
      info: (details: object): void => void lines.push(['info', details]),
      warn: (details: object): void => void lines.push(['warn', details]),
    }
    const timers = {
      every: (_: number, task: () => void) => {
        watch = task
        return () => {}
      },
    }
    watchClock({ time, timers, logger })
    const pass = (wallJumpMs: number): object[] => {
      clocks.wall += wallJumpMs
      clocks.pass(1000)
      watch()
      return lines.splice(0)
    }
    assert.deepEqual(pass(0), [])
    assert.deepEqual(pass(1000), [])
    assert.deepEqual(pass(4000), [['warn', { offset_ms: -4999 }]])
    assert.deepEqual(pass(0), [])
    assert.deepEqual(pass(1500), [])
    assert.deepEqual(pass(HOUR_MS), [['warn', { offset_ms: time.offsetMs }]])
    assert.deepEqual(pass(time.offsetMs), [['info', { offset_ms: time.offsetMs }]])
    clocks.slept += HOUR_MS
    assert.deepEqual(pass(HOUR_MS), [['warn', { slept_ms: HOUR_MS }]])
  })
})
