import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AdmissionWindow } from '../../src/logstore/admission-window.ts'

const limits = { windowSeconds: 60, records: 100, bytes: 1000, concurrentRequests: 16 }

describe('a tenant window', () => {
  it('admits up to its limit and then says when the batch will fit', () => {
    const window = new AdmissionWindow(limits)
    assert.deepEqual(window.admit(0, 60, 10), { kind: 'admitted' })
    assert.deepEqual(window.admit(30_000, 40, 10), { kind: 'admitted' })
    const refused = window.admit(30_000, 1, 10)
    assert.equal(refused.kind, 'exceeded')
    assert(refused.kind === 'exceeded' && refused.waitMs >= 30_000 && refused.waitMs <= 30_000 + 60_000 / 256)
    assert.deepEqual(window.admit(30_000 + refused.waitMs, 60, 10), { kind: 'admitted' })
  })

  it('tells what can never fit from what does not fit now', () => {
    const window = new AdmissionWindow(limits)
    assert.deepEqual(window.admit(0, 101, 1), { kind: 'never', of: 'records' })
    assert.deepEqual(window.admit(0, 1, 1001), { kind: 'never', of: 'bytes' })
    assert.deepEqual(window.admit(0, 1, 1000), { kind: 'admitted' })
    assert.equal(window.admit(0, 1, 1).kind, 'exceeded')
  })

  it('is without effect for a batch that was taken back', () => {
    const window = new AdmissionWindow(limits)
    window.admit(0, 100, 1000)
    window.takeBack(100, 1000)
    assert.deepEqual(window.admit(0, 100, 1000), { kind: 'admitted' })
  })

  it('keeps what was used through a reload that changes only the amounts', () => {
    const window = new AdmissionWindow(limits)
    window.admit(0, 90, 10)
    window.applyLimits({ ...limits, records: 95 })
    assert.equal(window.admit(1, 6, 10).kind, 'exceeded')
    assert.equal(window.admit(1, 5, 10).kind, 'admitted')
  })

  it('keeps what was used through a reload that changes its length', () => {
    for (const windowSeconds of [1, 30, 61, 3600]) {
      const window = new AdmissionWindow(limits)
      const start = 1_000_000
      window.admit(start, 60, 900)
      window.admit(start + 30_000, 30, 10)
      window.applyLimits({ ...limits, windowSeconds })
      assert.equal(window.admit(start + 30_000, 11, 1).kind, 'exceeded')
      assert.equal(window.admit(start + 30_000, 1, 91).kind, 'exceeded')
      const verdict = window.admit(start + 30_000, 100, 90)
      assert(verdict.kind === 'exceeded')
      const sliceMs = (windowSeconds * 1000) / 256
      assert(
        verdict.waitMs >= windowSeconds * 1000 && verdict.waitMs <= windowSeconds * 1000 + 60_000 / 256 + 2 * sliceMs,
      )
      assert.equal(window.admit(start + 30_000 + verdict.waitMs, 100, 90).kind, 'admitted')
    }
  })

  it('never admits more than its limit in any 60 s, and admits what fits a slice later at most', () => {
    const steps = fc.array(
      fc.record({ afterMs: fc.integer({ min: 0, max: 40_000 }), records: fc.integer({ min: 1, max: 100 }) }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(steps, (history) => {
        const window = new AdmissionWindow(limits)
        const admitted: { at: number; records: number }[] = []
        const within = (now: number, ageMs: number) =>
          admitted.filter(({ at }) => at > now - ageMs).reduce((sum, { records }) => sum + records, 0)
        let now = 0
        for (const { afterMs, records } of history) {
          now += afterMs
          const verdict = window.admit(now, records, 1)
          if (verdict.kind === 'admitted') {
            admitted.push({ at: now, records })
            assert(within(now, 60_000) <= 100)
          } else {
            assert(within(now, 60_000 + 60_000 / 256) + records > 100)
          }
        }
      }),
    )
  })
})
