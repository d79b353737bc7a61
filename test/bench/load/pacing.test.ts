import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Pacing } from '../../../bench/load/pacing.ts'

const open = { startMs: 1000, endMs: 2000, tasksMax: Infinity, intervalMs: 10 }
const closed = { ...open, intervalMs: null }

describe('the closed loop', () => {
  it('starts at once until the time is over', () => {
    const pacing = new Pacing(closed)
    assert.equal(pacing.take(1000), 1000)
    assert.equal(pacing.take(1999.5), 1999.5)
    assert.equal(pacing.take(2000), null)
    assert.equal(pacing.missed(2000), 0)
  })

  it('ends after the last request asked for', () => {
    const pacing = new Pacing({ ...closed, endMs: Infinity, tasksMax: 2 })
    assert.deepEqual([pacing.take(1), pacing.take(2), pacing.take(3)], [1, 2, null])
  })
})

describe('the open loop', () => {
  it('keeps to its schedule however late the connections come, and counts what never started', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 30, noNaN: true }), { maxLength: 200 }), (gapsMs) => {
        const pacing = new Pacing(open)
        let nowMs = open.startMs
        let taken = 0
        for (const gapMs of gapsMs) {
          const dueMs = pacing.take(nowMs)
          if (dueMs !== null) assert.equal(dueMs, open.startMs + taken++ * open.intervalMs)
          else assert(nowMs >= open.endMs || open.startMs + taken * open.intervalMs >= open.endMs)
          nowMs += gapMs
        }
        assert.equal(pacing.missed(open.endMs), 100 - taken)
      }),
    )
  })

  it('starts nothing more once stopped, and misses only what was due by then', () => {
    const pacing = new Pacing(open)
    assert.equal(pacing.take(1000), 1000)
    pacing.stop(1025)
    assert.equal(pacing.take(1025), null)
    assert.equal(pacing.missed(5000), 2) // the starts at 1010 and 1020
  })
})
