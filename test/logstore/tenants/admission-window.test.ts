import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AdmissionWindow } from '../../../src/logstore/tenants/admission-window.ts'

const limits = { windowSeconds: 60, records: 100, bytes: 1000, concurrentRequests: 16 }

describe('a tenant window', () => {
  it('admits up to its limit and then says when the batch will fit', () => {
    const window = new AdmissionWindow(limits)
    assert.deepEqual(window.admit(0, 60, 10), { kind: 'admitted' })
    assert.deepEqual(window.admit(30_000, 40, 10), { kind: 'admitted' })
    const refused = window.admit(30_000, 1, 10)
    assert.equal(refused.kind, 'exceeded')
    assert.deepEqual(refused, { kind: 'exceeded', of: 'records', waitMs: 30_000 })
    assert.equal(window.admit(59_999, 1, 10).kind, 'exceeded')
    assert.deepEqual(window.admit(60_000, 60, 10), { kind: 'admitted' })
  })

  it('that was filled within a moment is free again when it is one window old, and nobody waits longer', () => {
    for (const windowSeconds of [1, 7, 60, 3600]) {
      const windowMs = windowSeconds * 1000
      for (const start of [0, 1, 233, 1_000_003]) {
        const window = new AdmissionWindow({ ...limits, windowSeconds })
        window.admit(start, 60, 10)
        window.admit(start + 3, 40, 10)
        const waiting = { kind: 'exceeded', of: 'records' }
        assert.deepEqual(window.admit(start + 3, 100, 1), { ...waiting, waitMs: windowMs })
        assert.deepEqual(window.admit(start + windowMs + 2, 100, 1), { ...waiting, waitMs: 1 })
        assert.deepEqual(window.admit(start + windowMs + 3, 100, 1), { kind: 'admitted' })
      }
    }
  })

  it('says when the batch will fit by its records and by its bytes', () => {
    const window = new AdmissionWindow(limits)
    window.admit(0, 99, 1)
    window.admit(30_000, 1, 999)
    assert.deepEqual(window.admit(40_000, 50, 500), { kind: 'exceeded', of: 'records', waitMs: 50_000 })
    assert.deepEqual(window.admit(60_000, 50, 500), { kind: 'exceeded', of: 'bytes', waitMs: 30_000 })
    assert.deepEqual(window.admit(90_000, 50, 500), { kind: 'admitted' })
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
    window.undoAdmit(100, 1000)
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
      assert.deepEqual(verdict, { kind: 'exceeded', of: 'records', waitMs: windowSeconds * 1000 })
      assert.equal(window.admit(start + 30_000 + windowSeconds * 1000, 100, 90).kind, 'admitted')
    }
  })

  it('never admits more than its limit in any of its length, admits what fits a slice later at most, and what waited as told', () => {
    const steps = fc.array(
      fc.record({
        afterMs: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 40_000 })),
        records: fc.integer({ min: 1, max: 100 }),
        bytes: fc.integer({ min: 1, max: 1000 }),
        waits: fc.boolean(),
      }),
      { maxLength: 60 },
    )
    const windowSeconds = fc.constantFrom(1, 7, 60, 61)
    fc.assert(
      fc.property(windowSeconds, steps, (windowSeconds, history) => {
        const windowMs = windowSeconds * 1000
        const window = new AdmissionWindow({ ...limits, windowSeconds })
        const admitted: { at: number; records: number; bytes: number }[] = []
        let now = 0
        /** Whether the limits hold for what was admitted less than `ageMs` ago, with these as well. */
        const holds = (ageMs: number, records: number, bytes: number): boolean => {
          const young = admitted.filter(({ at }) => at > now - ageMs)
          const sum = (of: 'records' | 'bytes'): number => young.reduce((total, batch) => total + batch[of], 0)
          return sum('records') + records <= limits.records && sum('bytes') + bytes <= limits.bytes
        }
        for (const { afterMs, records, bytes, waits } of history) {
          now += afterMs
          let verdict = window.admit(now, records, bytes)
          if (verdict.kind === 'exceeded') {
            assert(!holds(windowMs + windowMs / 256, records, bytes))
            assert(verdict.waitMs > 0 && verdict.waitMs <= windowMs)
            if (!waits) continue
            now += verdict.waitMs
            verdict = window.admit(now, records, bytes)
          }
          assert.equal(verdict.kind, 'admitted')
          assert(holds(windowMs, records, bytes))
          admitted.push({ at: now, records, bytes })
        }
      }),
    )
  })
})
