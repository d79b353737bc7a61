import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'

const KIB = 1024
const pieceAt = (at: number, bytes: number) => ({ at, bytes, rawBytes: 0, crc: 0 })

describe('what was made of pieces', () => {
  it('is kept up to the bytes that it takes in memory', () => {
    const cache = new PieceCache(64 * KIB)
    let owner = 0
    /** How many are found again of some that are made one after the other. */
    const kept = (count: number, stored: number, make: () => object): number => {
      owner = cache.newOwner()
      let made = 0
      const ask = (at: number) => cache.get(owner, pieceAt(at, stored), () => (made++, make()))
      for (let at = 0; at < count; at++) ask(at)
      assert.equal(made, count)
      for (let at = count - 1; at >= 0; at--) ask(at)
      cache.drop(owner)
      return 2 * count - made
    }
    assert.equal(
      kept(6, 10 * KIB, () => new Uint32Array((10 * KIB) / 4)),
      6,
      'a view is counted once',
    )
    assert.equal(
      kept(6, 10, () => ({ heldBytes: 30 * KIB })),
      2,
      'small when it is stored',
    )
    assert.equal(
      kept(6, 10 * KIB, () => ({})),
      3,
      'about what it was made of',
    )
  })
})
