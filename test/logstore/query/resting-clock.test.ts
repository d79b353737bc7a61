import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RestingClock } from '../../../src/logstore/query/resting-clock.ts'

/** How often a thread rests in `workMs` of work. It looks at the clock after each eighth of a millisecond; tasks take `taskMs`, and a rest an eighth. */
function restsOf(workMs: number, othersSend: (nowMs: number) => boolean, taskMs = workMs): number {
  let eighths = 0
  let rests = 0
  const clock = new RestingClock(
    { readFor: (tenant) => assert.equal(tenant, 'a'), areSending: othersSend },
    () => eighths / 8,
    () => {
      eighths++
      rests++
    },
  )
  for (let worked = 0; worked < 8 * workMs; worked++) {
    if (worked % (8 * taskMs) === 0) clock.readFor('a')
    eighths++
    assert.equal(clock.nowMs(), eighths / 8)
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

test('a task that is shorter has no rest, whatever the thread did before it', () => {
  assert.equal(
    restsOf(10, () => true, 3 / 8),
    0,
  )
})
