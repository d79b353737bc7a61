import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { AdmissionWindow } from '../../../src/logstore/tenants/admission-window.ts'
import { SmoothWindow } from '../../../src/logstore/tenants/smooth-window.ts'

const limits = { windowSeconds: 60, records: 600, bytes: 60_000, concurrentRequests: 16 }

describe('a window that refills steadily', () => {
  it('admits a burst up to its limit, and then what refills: a batch waits for itself alone', () => {
    const window = new SmoothWindow(limits)
    assert.deepEqual(window.admit(0, 600, 1), { kind: 'admitted' })
    assert.deepEqual(window.admit(0, 10, 1), { kind: 'exceeded', of: 'records', waitMs: 1000 })
    assert.deepEqual(window.admit(1000, 10, 1), { kind: 'admitted' })
    const bytes = new SmoothWindow(limits)
    bytes.admit(0, 1, 2)
    assert.deepEqual(bytes.admit(0, 1, 60_000), { kind: 'exceeded', of: 'bytes', waitMs: 2 })
  })

  it('goes on with what another kind of window held, and leaves it to another', () => {
    const limits = { records: 600, bytes: 60_000, windowSeconds: 60, concurrentRequests: 1 }
    const sliding = new AdmissionWindow(limits)
    sliding.admit(0, 300, 30_000)
    sliding.admit(30_000, 300, 30_000)
    const smooth = new SmoothWindow(limits)
    smooth.takeOver(45_000, sliding.used(45_000))
    assert.equal(smooth.admit(45_000, 1, 1).kind, 'exceeded')
    assert.equal(smooth.admit(75_000, 300, 1).kind, 'admitted')
    const again = new AdmissionWindow(limits)
    again.takeOver(75_000, smooth.used(75_000))
    assert.deepEqual(again.used(134_000).records, 600)
    assert.deepEqual(again.used(136_000).records, 0)
  })

  it('is full, and no fuller, when its limit is lowered below what was used: nobody waits longer than the window', () => {
    const lower = { ...limits, records: 5, bytes: 50 }
    const reloaded = new SmoothWindow(limits)
    reloaded.admit(0, 600, 60_000)
    reloaded.applyLimits(lower)
    const sliding = new AdmissionWindow(limits)
    sliding.admit(0, 600, 60_000)
    const switched = new SmoothWindow(lower)
    switched.takeOver(0, sliding.used(0))
    for (const window of [reloaded, switched]) {
      assert.deepEqual(window.admit(0, 1, 1), { kind: 'exceeded', of: 'records', waitMs: 12_000 })
      assert.deepEqual(window.admit(0, 5, 50), { kind: 'exceeded', of: 'records', waitMs: 60_000 })
      assert.equal(window.admit(60_000, 5, 50).kind, 'admitted')
    }
  })

  it('says never of what is more than its limit, gives back what was refused after all, and knows no limit that is lifted', () => {
    const window = new SmoothWindow(limits)
    assert.deepEqual(window.admit(0, 601, 1), { kind: 'never', of: 'records' })
    assert.deepEqual(window.admit(0, 1, 60_001), { kind: 'never', of: 'bytes' })
    assert.deepEqual(window.admit(0, 600, 1), { kind: 'admitted' })
    window.undoAdmit(600, 1)
    assert.deepEqual(window.admit(0, 600, 1), { kind: 'admitted' })
    window.applyLimits({ ...limits, records: Infinity })
    assert.deepEqual(window.admit(0, 1_000_000, 1), { kind: 'admitted' })
  })

  it('admits what it said would fit when it said so, and in any time no more than the limit and what refilled', () => {
    const batch = fc.record({ records: fc.integer({ min: 1, max: 600 }), afterMs: fc.integer({ min: 0, max: 5000 }) })
    fc.assert(
      fc.property(fc.array(batch, { minLength: 1, maxLength: 50 }), (batches) => {
        const window = new SmoothWindow(limits)
        let nowMs = 0
        let admitted = 0
        for (const { records, afterMs } of batches) {
          nowMs += afterMs
          const verdict = window.admit(nowMs, records, 1)
          if (verdict.kind === 'exceeded') {
            nowMs += verdict.waitMs + 1e-6
            assert.equal(window.admit(nowMs, records, 1).kind, 'admitted')
          }
          admitted += records
          assert(admitted <= limits.records * (1 + nowMs / 60_000) + 1e-6)
        }
      }),
    )
  })
})
