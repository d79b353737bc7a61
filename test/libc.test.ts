import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { getPriority, release } from 'node:os'
import { describe, it } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { decompressZstd, setTimeSlice } from '../src/libc.ts'

describe('zstd into memory of the caller', () => {
  const text = Buffer.from('order 17 was paid. '.repeat(500))
  const frame = zstdCompressSync(text)
  const into = (byteLength: number): Buffer => Buffer.alloc(byteLength, 0xff)

  it('writes what was compressed, and nothing behind it', () => {
    const memory = into(text.byteLength + 10)
    assert.equal(decompressZstd(frame, memory), text.byteLength)
    assert.deepEqual(memory, Buffer.concat([text, into(10)]))
  })

  it('begins anew with each call, also after one that failed', () => {
    const cut = frame.subarray(0, frame.byteLength - 1)
    for (const each of [cut, frame, cut, frame]) {
      const memory = into(text.byteLength)
      assert.equal(decompressZstd(each, memory), each === frame ? text.byteLength : null)
    }
  })

  it('says that the memory is too short', () => assert.equal(decompressZstd(frame, into(text.byteLength - 1)), null))

  it('says that a frame is damaged', () => assert.equal(decompressZstd(Buffer.from('no frame'), into(100)), null))
})

describe('the slice of time of a thread', () => {
  /** Time slice of this thread in nanoseconds; null: the kernel does not show it, or has one slice for all threads. */
  function shownSlice(): number | null {
    const [major, minor] = release().split('.').map(Number)
    const hasOwn = major! > 6 || (major === 6 && minor! >= 12)
    const path = '/proc/thread-self/sched'
    if (!hasOwn || !existsSync(path)) return null
    return Number(/^se\.slice\s*:\s*(\d+)$/m.exec(readFileSync(path, 'utf8'))?.[1] ?? NaN)
  }

  it('is what was asked for, then again what the system gives, and the niceness stays', () => {
    const given = shownSlice()
    const niceness = getPriority()
    assert.equal(setTimeSlice(300, niceness), null)
    if (given !== null) assert.equal(shownSlice(), 300_000)
    assert.equal(setTimeSlice(0, niceness), null)
    assert.equal(shownSlice(), given)
    assert.equal(getPriority(), niceness)
  })
})
