import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RestingClock } from '../../../src/logstore/query/resting-clock.ts'

/** A rest takes 0.1 ms. Looks at the clock each 0.1 ms of work, and returns how much of this was rest. */
function restsOf(workMs: number, othersSend: (nowMs: number) => boolean): number {
  let tenths = 0
  let rests = 0
  const clock = new RestingClock(
    { areSending: othersSend },
    () => tenths / 10,
    () => {
      tenths++
      rests++
    },
  )
  for (let worked = 0; worked < 10 * workMs; worked++) {
    tenths++
    assert.equal(clock.nowMs(), tenths / 10)
  }
  return rests
}

test('a thread rests after each half millisecond of work while another tenant sends', () => {
  assert.equal(
    restsOf(10, () => true),
    20,
  )
})

test('a thread does not rest while no other tenant sends', () => {
  assert.equal(
    restsOf(10, () => false),
    0,
  )
})

test('a thread begins to rest, and ends it, in the middle of its work', () => {
  const rests = restsOf(30, (nowMs) => nowMs > 10 && nowMs < 22)
  assert(rests >= 19 && rests <= 21, String(rests))
})
