import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { freeMemory } from '../src/free-memory.ts'

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
    freeMemory(bytes) // Buffer.from takes it from the pool
    assert.equal(other.toString(), 'kept')
  })
})
