import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreError } from '../../src/errors.ts'
import { Health } from '../../src/observability/health.ts'
import { ReadErrors } from '../../src/observability/read-errors.ts'

const HOUR_MS = 3_600_000

describe('read errors', () => {
  it('are all counted, logged at most every ten seconds, and degrade for an hour', () => {
    let nowMs = 0
    const logged: object[] = []
    const errors = new ReadErrors(() => nowMs, { error: (details) => void logged.push(details) })
    assert.deepEqual(errors.degradations(), [])
    for (let n = 0; n < 3; n++) errors.note('segment a: EIO')
    assert.deepEqual(logged, [{ reason: 'segment a: EIO', errors: 1 }])
    nowMs = 10_000
    errors.note('segment b: EIO')
    assert.deepEqual(logged.slice(1), [{ reason: 'segment b: EIO', errors: 3 }])
    assert.equal(errors.count, 4)
    nowMs += HOUR_MS - 1
    assert.match(errors.degradations()[0]!.reason, /^4 reads .*segment b: EIO/)
    nowMs += 1
    assert.deepEqual([errors.degradations(), errors.count], [[], 4])
  })

  it('are none of jobs that were not begun', () => {
    const errors = new ReadErrors(() => 0, { error: () => {} })
    errors.noteFailed('records', new StoreError('unavailable', 'jobs_closed', 'the pool is closing'))
    errors.noteFailed('records', new StoreError('overloaded', 'jobs_queue_full', 'busy'))
    assert.equal(errors.count, 0)
    errors.noteFailed('records', new StoreError('unavailable', 'job_timed_out', 'took longer than 30000 ms'))
    assert.equal(errors.count, 1)
  })
})

describe('what a service is degraded by', () => {
  it('stands since it was first seen, and anew when it was gone', () => {
    let nowMs = 5
    let isLost = true
    const health = new Health(() => nowMs)
    health.addDegradations(() => (isLost ? [{ kind: 'replica_lost', reason: 'r', action: 'a' }] : []))
    const since = (): readonly number[] => health.degradations().map(({ sinceMs }) => sinceMs)
    assert.deepEqual(since(), [5])
    nowMs = 6
    assert.deepEqual(since(), [5])
    isLost = false
    assert.deepEqual(since(), [])
    isLost = true
    assert.deepEqual(since(), [6])
  })
})
