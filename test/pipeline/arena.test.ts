import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import * as fc from 'fast-check'
import { Arena } from '../../src/pipeline/arena.ts'

describe('an arena', () => {
  it('hands out contiguous space at block boundaries and counts whole blocks', () => {
    const arena = Arena.create(1024, 64)
    assert.equal(arena.allocate(1), 0)
    assert.equal(arena.allocate(65), 64)
    assert.equal(arena.allocate(0), 192)
    assert.equal(arena.usedBytes, 4 * 64)
  })

  it('says -1 when no free run is long enough, though the sum of free blocks would be', () => {
    const arena = Arena.create(256, 64)
    const [first, , third] = [arena.allocate(64), arena.allocate(64), arena.allocate(64), arena.allocate(64)]
    arena.free(first)
    arena.free(third)
    assert.equal(arena.allocate(128), -1)
    assert.notEqual(arena.allocate(64), -1)
  })

  it('finds one long run again after its parts were freed in any order', () => {
    const arena = Arena.create(256, 64)
    const offsets = [0, 1, 2, 3].map(() => arena.allocate(64))
    for (const i of [2, 0, 3, 1]) arena.free(offsets[i]!)
    assert.equal(arena.usedBytes, 0)
    assert.equal(arena.allocate(256), 0)
  })

  it('catches a second free and a free of an offset it never gave out', () => {
    const arena = Arena.create(1024, 64)
    const offset = arena.allocate(200)
    assert.throws(() => arena.free(offset + 64), assert.AssertionError)
    assert.throws(() => arena.free(offset + 1), assert.AssertionError)
    arena.free(offset)
    assert.throws(() => arena.free(offset), assert.AssertionError)
    assert.throws(() => arena.free(4096), assert.AssertionError)
  })

  it('is only a view for threads that attach', () => {
    const arena = Arena.create(256, 64)
    const view = Arena.attach(arena.shared)
    arena.bytes.write('hello', arena.allocate(5))
    assert.equal(view.bytes.toString('utf8', 0, 5), 'hello')
    assert.throws(() => view.allocate(1), assert.AssertionError)
  })
})

test('an arena agrees with a map of its blocks: no overlap, no leak, and it refuses only when no run is free', () => {
  const blocks = 24
  const steps = fc.array(
    fc.oneof(fc.record({ take: fc.integer({ min: 1, max: 9 }) }), fc.record({ free: fc.nat(), twice: fc.boolean() })),
    { maxLength: 200 },
  )
  fc.assert(
    fc.property(steps, (steps) => {
      const arena = Arena.create(blocks * 8, 8)
      const used = Array.from({ length: blocks }, () => false)
      const live: { first: number; count: number }[] = []
      for (const step of steps) {
        if ('take' in step) {
          const offset = arena.allocate(step.take * 8)
          const free = used.map((u) => (u ? 'u' : 'f')).join('')
          assert.equal(offset >= 0, free.includes('f'.repeat(step.take)))
          if (offset < 0) continue
          const first = offset / 8
          assert.equal(first, free.indexOf('f'.repeat(step.take)), 'not the lowest')
          for (let i = first; i < first + step.take; i++) {
            assert.equal(used[i], false, 'overlap')
            used[i] = true
          }
          live.push({ first, count: step.take })
        } else if (live.length > 0) {
          const [run] = live.splice(step.free % live.length, 1)
          arena.free(run!.first * 8)
          used.fill(false, run!.first, run!.first + run!.count)
          if (step.twice) assert.throws(() => arena.free(run!.first * 8))
        }
        assert.equal(arena.usedBytes, used.filter(Boolean).length * 8)
      }
    }),
    { numRuns: 500 },
  )
})
