import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'

const KIB = 1024
const pieceAt = (at: number, bytes: number) => ({ at, bytes, rawBytes: 0, crc: 0 })

describe('what was made of pieces', () => {
  it('is kept up to the bytes that it takes in memory', () => {
    /** How many of `count` pieces are still in the cache after they were made one after the other. */
    const kept = (count: number, stored: number, make: () => object): number => {
      const cache = new PieceCache((6 / 5) * 64 * KIB) // a sixth is for records
      const owner = cache.newOwner()
      let made = 0
      const ask = (at: number) => cache.get(owner, pieceAt(at, stored), () => (made++, make()))
      for (let at = 0; at < count; at++) ask(at)
      assert.equal(made, count)
      for (let at = count - 1; at >= 0; at--) ask(at)
      return 2 * count - made
    }
    assert.equal(
      kept(6, 10 * KIB, () => new Uint32Array((10 * KIB) / 4)),
      6,
      'a view is counted once',
    )
    assert.equal(
      kept(5, 10, () => ({ heldBytes: 30 * KIB })),
      2,
      'small when it is stored',
    )
    assert.equal(
      kept(6, 10 * KIB, () => ({})),
      3,
      'about what it was made of',
    )
  })

  it('is found mostly by rounds through a little more than has room, and comes in when it is asked for again and again', () => {
    const cache = new PieceCache((6 / 5) * 100 * 11 * KIB)
    const owner = cache.newOwner()
    let made = 0
    const ask = (at: number) => cache.get(owner, pieceAt(at, 10 * KIB), () => (made++, new Uint32Array((10 * KIB) / 4)))
    for (let round = 0; round < 10; round++) {
      made = 0
      for (let at = 0; at < 120; at++) ask(at)
    }
    assert(made < 40, `${made} of 120 were made again`)
    for (let times = 0; times < 8; times++) ask(1000)
    made = 0
    ask(1000)
    assert.equal(made, 0)
  })

  /** Asks for records of this length one after the other. @returns the ones that had to be made */
  const askRecords = (cache: PieceCache, owner: number, ats: readonly number[]): number[] => {
    const made: number[] = []
    for (const at of ats) {
      cache.getRecords(owner, pieceAt(at, 10), () => {
        made.push(at)
        return { heldBytes: 10 * KIB }
      })
    }
    return made
  }

  it('is kept during a question, if it is records, and the last of it for the next one', () => {
    const cache = new PieceCache(240 * KIB)
    const owner = cache.newOwner()
    const ats = [1, 2, 3, 4, 5, 6, 7, 8]
    cache.beginQuestion()
    assert.deepEqual(askRecords(cache, owner, ats), ats)
    assert.deepEqual(askRecords(cache, owner, [3, 1, 8, 1]), [])
    cache.beginQuestion()
    assert.deepEqual(askRecords(cache, owner, [1, 8, 3]), [])
    assert.deepEqual(askRecords(cache, owner, [2, 4]), [2, 4])
  })

  it('is kept if it is the records that were used last, however long they are', () => {
    const cache = new PieceCache(0)
    const owner = cache.newOwner()
    assert.deepEqual(askRecords(cache, owner, [1, 1, 2, 3, 1]), [1, 2, 3])
    cache.drop(owner)
    assert.deepEqual(askRecords(cache, owner, [1]), [1])
  })

  it('is found by its file', () => {
    const cache = new PieceCache(240 * KIB)
    const owners = [cache.newOwner(), cache.newOwner()] as const
    for (const owner of owners) assert.deepEqual(askRecords(cache, owner, [1, 2]), [1, 2])
    cache.drop(owners[0])
    assert.deepEqual(askRecords(cache, owners[1], [1, 2]), [])
  })

  it('leaves no garbage that only a full collection frees', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as NodeJS.GCFunction // what the flag defines, in contexts made after it
    const cache = new PieceCache(600 * KIB)
    const owner = cache.newOwner()
    const before = process.memoryUsage().arrayBuffers
    for (let at = 0; at < 600; at++) {
      cache.beginQuestion()
      cache.getRecords(owner, pieceAt(at, 100 * KIB), () => ({ bytes: new Uint8Array(200 * KIB) }))
      for (let left = at % 30 === 0 ? 2 : 0; left > 0; left--) collect({ type: 'minor' }) // the second one promotes what is left
    }
    assert(process.memoryUsage().arrayBuffers - before < 30 * 1024 * KIB)
  })
})

describe('what files were looked at last', () => {
  it('is kept for few of them', () => {
    const cache = new PieceCache(0)
    const forgotten: number[] = []
    const lookers = Array.from({ length: 18 }, (_, number) => ({ dropLastRead: () => void forgotten.push(number) }))
    for (const looker of lookers.slice(0, 16)) cache.noteReader(looker)
    cache.noteReader(lookers[0]!)
    cache.drop(cache.newOwner(), lookers[5])
    cache.noteReader(lookers[16]!)
    assert.deepEqual(forgotten, [])
    cache.noteReader(lookers[17]!)
    assert.deepEqual(forgotten, [1])
  })
})
