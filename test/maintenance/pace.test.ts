import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { paceOf } from '../../src/maintenance/pace.ts'

/** A clock that moves only during sleep. */
class Clock {
  ms = 0
  slept = 0
  nowMs = (): number => this.ms
  sleep = (ms: number): void => {
    this.ms += ms
    this.slept += ms
  }
}

describe('a pace', () => {
  it('lets no more bytes pass than wanted, whatever the sizes of pieces', () => {
    const clock = new Clock()
    const pace = paceOf(1000, clock)
    for (const bytes of [100, 900, 1, 499, 500, 2000]) pace(bytes)
    assert.equal(clock.ms, 2000) // the time of the last piece is not taken yet
    pace(1)
    assert.equal(clock.ms, 4000)
  })

  it('does not wait for what took its time by itself, nor make up for it', () => {
    const clock = new Clock()
    const pace = paceOf(1000, clock)
    pace(1000)
    clock.ms = 5000
    pace(1000)
    assert.equal(clock.slept, 0)
    pace(1000)
    assert.equal(clock.slept, 1000)
  })

  it('without a bound never waits', () => {
    const clock = new Clock()
    const pace = paceOf(null, clock)
    pace(1e12)
    pace(1e12)
    assert.equal(clock.slept, 0)
  })
})
