import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { BrokerTime } from '../../../src/broker/engine/broker-time.ts'

const HOUR_MS = 3_600_000

test('broker time begins at the wall clock, but never before the log', () => {
  const clocks = { nowMs: () => 12.5, wallMs: () => 1000 }
  assert.equal(new BrokerTime(clocks, 0).nowMs(), 1000)
  assert.equal(new BrokerTime(clocks, 999).nowMs(), 1000)
  assert.equal(new BrokerTime(clocks, 5000).nowMs(), 5000)
})

test('broker time is whole milliseconds that go on with the monotonic clock, whatever the wall clock does', () => {
  const jumps = fc.array(
    fc.record({ elapsedMs: fc.double({ min: 0, max: HOUR_MS, noNaN: true }), wallJumpMs: fc.integer() }),
  )
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e9, noNaN: true }), jumps, (bootMs, steps) => {
      let nowMs = bootMs
      let wallMs = 1_800_000_000_000
      const time = new BrokerTime({ nowMs: () => nowMs, wallMs: () => wallMs }, 0)
      const begin = time.nowMs()
      let last = begin
      for (const { elapsedMs, wallJumpMs } of steps) {
        nowMs += elapsedMs
        wallMs += wallJumpMs
        assert.ok(Number.isSafeInteger(time.nowMs()) && time.nowMs() >= last)
        assert.ok(Math.abs(time.nowMs() - begin - (nowMs - bootMs)) <= 1)
        assert.equal(time.wallMs(), wallMs)
        last = time.nowMs()
      }
    }),
  )
})
