import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LaneRests } from '../../../src/logstore/ingest/lane-rests.ts'

/** Serves requests of these tenants one after the other. Returns after which of them the lane rested. */
function restsAfter(tenants: readonly number[], eachMs: number, pauseMs = 0): number[] {
  const after: number[] = []
  let at = 0
  let nowMs = 0
  const rests = new LaneRests(() => after.push(at))
  for (const tenant of tenants) {
    rests.noteWork(tenant, nowMs, nowMs + eachMs)
    nowMs += eachMs + pauseMs
    at++
  }
  return after
}

describe('rests of the decode lane', () => {
  it('a tenant who sends alone has none', () => {
    assert.deepEqual(restsAfter(Array(100).fill(7), 1.3), [])
  })

  it('while another tenant sends, there is one after each millisecond of work', () => {
    assert.deepEqual(restsAfter([7, 8, 7, 7], 1.3), [1, 2, 3])
    assert.deepEqual(restsAfter([7, 8, ...Array(10).fill(7)], 0.25), [3, 7, 11])
  })

  it('they end a second after the other tenant was served', () => {
    const after = restsAfter([8, ...Array(30).fill(7)], 10, 90)
    assert.deepEqual(after, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  })
})
