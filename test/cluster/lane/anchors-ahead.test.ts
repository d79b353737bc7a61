import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { STREAM_BEGIN } from '../../../src/cluster/history.ts'
import type { Anchor } from '../../../src/cluster/history.ts'
import { AnchorsAhead } from '../../../src/cluster/lane/anchors-ahead.ts'

const KIB = 1024

const anchorAt = (sequence: number, position: number): Anchor => ({
  ...STREAM_BEGIN,
  sequence,
  end: { position, chain: sequence },
})

describe('anchors that may be written when the log has synced enough', () => {
  it('are the newest of which everything is synced', () => {
    const ahead = new AnchorsAhead(STREAM_BEGIN)
    for (let n = 1; n <= 50; n += 1) ahead.add(anchorAt(n, n * 100 * KIB))
    assert.equal(ahead.newest(0), null)
    assert.equal(ahead.newest(99 * KIB), null)
    assert.equal(ahead.newest(750 * KIB)?.sequence, 7)
    assert.equal(ahead.newest(Infinity)?.sequence, 50)
  })

  it('are few, however many messages come, and the last one is among them', () => {
    const ahead = new AnchorsAhead(STREAM_BEGIN)
    for (let n = 1; n <= 10_000; n += 1) ahead.add(anchorAt(n, n * KIB))
    const found = new Set(Array.from({ length: 10_001 }, (_, n) => ahead.newest(n * KIB)?.sequence))
    assert.ok(found.size < 10_000 / 60, String(found.size))
    const gaps = [...found].map((sequence) => sequence ?? 0)
    for (const [i, sequence] of gaps.slice(1).entries()) assert.ok(sequence - gaps[i]! <= 128)
    assert.equal(ahead.newest(10_000 * KIB)?.sequence, 10_000)
  })

  it('have the one that main waits for until it is written, however near the next ones are', () => {
    const ahead = new AnchorsAhead(anchorAt(1, 100 * KIB))
    ahead.add(anchorAt(2, 110 * KIB))
    ahead.await(110 * KIB)
    for (let n = 3; n <= 20; n += 1) ahead.add(anchorAt(n, (110 + n) * KIB))
    assert.ok(ahead.isAwaited)
    const awaited = ahead.newest(110 * KIB)
    assert.equal(awaited?.sequence, 2)
    ahead.reached(awaited)
    assert.ok(!ahead.isAwaited)
    assert.equal(ahead.newest(130 * KIB)?.sequence, 20)
  })

  it('have the newest that ends where main waits', () => {
    const ahead = new AnchorsAhead(anchorAt(1, 100 * KIB))
    ahead.add(anchorAt(2, 110 * KIB))
    ahead.await(110 * KIB)
    ahead.add(anchorAt(3, 110 * KIB))
    ahead.add(anchorAt(4, 111 * KIB))
    assert.equal(ahead.newest(110 * KIB)?.sequence, 3)
  })

  it('go on where nothing but beats comes', () => {
    const ahead = new AnchorsAhead(anchorAt(5, KIB))
    for (const sequence of [6, 7, 8]) ahead.add(anchorAt(sequence, KIB))
    assert.equal(ahead.newest(KIB)?.sequence, 8)
  })

  it('are given up with those that were written', () => {
    const ahead = new AnchorsAhead(STREAM_BEGIN)
    for (let n = 1; n <= 5; n += 1) ahead.add(anchorAt(n, n * 100 * KIB))
    ahead.reached(anchorAt(3, 300 * KIB))
    assert.equal(ahead.newest(399 * KIB), null)
    assert.equal(ahead.newest(400 * KIB)?.sequence, 4)
    ahead.add(anchorAt(2, 200 * KIB))
    assert.equal(ahead.newest(300 * KIB), null)
  })
})
