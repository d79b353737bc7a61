import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CollectedMemory, freeMemory } from '../src/free-memory.ts'

describe('memory that is freed by hand', () => {
  it('is empty in every view', () => {
    const bytes = new Uint8Array(100_000)
    const view = bytes.subarray(10, 20)
    freeMemory(bytes)
    assert.deepEqual([bytes.byteLength, view.byteLength], [0, 0])
  })

  it('is never that of the pool, which others have a part of', () => {
    const bytes = Buffer.from('freed')
    const other = Buffer.from('kept')
    freeMemory(bytes) // Buffer.from takes the memory from the pool
    assert.equal(other.toString(), 'kept')
  })
})

describe('memory that is collected', () => {
  it('is collected for every so many bytes, not for each', () => {
    let collections = 0
    const memory = new CollectedMemory(4 * 1024 * 1024, () => void collections++)
    for (let i = 0; i < 1024; i++) memory.received(16 * 1024)
    assert.equal(collections, 4)
  })

  it('is free after a collection', () => {
    const memory = new CollectedMemory()
    const before = process.memoryUsage().arrayBuffers
    for (let i = 0; i < 64; i++) memory.received(Buffer.allocUnsafeSlow(1024 * 1024).byteLength)
    assert(process.memoryUsage().arrayBuffers - before < 16 * 1024 * 1024)
  })
})
