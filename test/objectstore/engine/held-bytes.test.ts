import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { HeldBytes } from '../../../src/objectstore/engine/held-bytes.ts'

describe('bytes that are held', () => {
  it('come out as they came in, also when a part of what was taken is held again', () => {
    const steps = fc.array(
      fc.record({ added: fc.nat(100_000).map((length) => Buffer.alloc(length, length)), passed: fc.nat(12_000) }),
    )
    fc.assert(
      fc.property(steps, (all) => {
        const held = new HeldBytes()
        let expected = Buffer.alloc(0)
        for (const { added, passed } of all) {
          held.add(added)
          expected = Buffer.concat([expected, added])
          assert.equal(held.byteLength, expected.byteLength)
          const taken = held.take()
          assert.ok(taken.equals(expected))
          held.add(taken.subarray(passed))
          expected = expected.subarray(passed)
        }
        assert.ok(held.take().equals(expected))
        held.clear()
        assert.equal(held.byteLength, 0)
      }),
      { numRuns: 50 },
    )
  })
})
