import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { SharedCopies } from '../../../src/objectstore/engine/shared-copies.ts'
import type { SharedCopy } from '../../../src/objectstore/engine/shared-copies.ts'

interface Kept {
  readonly copy: SharedCopy
  readonly expected: Buffer
}

/** Whether a copy still has its bytes. Later copies may overwrite only memory that was given back. */
const isWhole = ({ copy, expected }: Kept): boolean => copy.bytes.equals(expected)

describe('shared copies', () => {
  const steps = fc.array(
    fc.record({
      length: fc.oneof(fc.nat(300), fc.integer({ min: 3000, max: 20_000 })),
      givesBack: fc.option(fc.nat(), { freq: 2 }),
    }),
    { maxLength: 80 },
  )

  it('keep what they were made of until they are given back, whatever comes behind them', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const copies = new SharedCopies()
        const source = Buffer.alloc(20_000)
        const kept: Kept[] = []
        for (const [i, { length, givesBack }] of all.entries()) {
          const copy = copies.copyOf(source.fill(i + 1).subarray(0, length))
          kept.push({ copy, expected: Buffer.alloc(length, i + 1) })
          if (givesBack !== null) copies.release(kept.splice(givesBack % kept.length, 1)[0]!.copy)
          assert.ok(kept.every(isWhole))
        }
      }),
      { numRuns: 50 },
    )
  })

  it('stand in the same memory again when all of it was given back', () => {
    const copies = new SharedCopies()
    const body = Buffer.alloc(4096, 'x')
    const buffers = new Set<ArrayBufferLike>()
    for (let round = 0; round < 200; round++) {
      const made = Array.from({ length: 20 }, () => copies.copyOf(body))
      for (const { bytes } of made) buffers.add(bytes.buffer)
      for (const copy of made) copies.release(copy)
    }
    assert.ok(buffers.size <= 3, `${buffers.size}`)
  })
})
