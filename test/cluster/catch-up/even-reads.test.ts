import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { EvenReads } from '../../../src/cluster/catch-up/even-reads.ts'
import { Loaded, NOTHING_LOADED } from '../../../src/log/direct-reads.ts'
import type { OpenFile } from '../../../src/log/files.ts'

const KIB = 1 << 10
/** 256 KiB every 10 ms. */
const BYTES_PER_SECOND = 256 * KIB * 100

/** @param isDirect the page cache has nothing. @param lateMs delay of every timer */
function reading({ isDirect = false, lateMs = 0 } = {}) {
  const clock = { nowMs: 1000 }
  const steps: { path: string; at: number; bytes: number; atMs: number }[] = []
  let path = (): string => ''
  const reads = new EvenReads({
    bytesPerSecond: BYTES_PER_SECOND,
    nowMs: () => clock.nowMs,
    after: (delayMs, run) => {
      clock.nowMs += delayMs + lateMs
      run()
    },
    direct: (pathOf) => {
      path = () => pathOf(0)
      return {
        async load([range]) {
          const { at, bytes } = range!
          steps.push({ path: path(), at, bytes, atMs: clock.nowMs })
          return isDirect ? new Loaded([{ base: 0, begin: at, bytes: Buffer.alloc(bytes, 1) }]) : NOTHING_LOADED
        },
        close: () => {},
      }
    },
  })
  return { clock, steps, reads }
}

/** A file whose bytes are all 2. */
function fileOf(fileBytes: number): OpenFile {
  const unused = (): never => assert.fail('the file is only read')
  return {
    read(into, at) {
      const count = Math.max(0, Math.min(into.byteLength, fileBytes - at))
      into.fill(2, 0, count)
      return count
    },
    size: () => fileBytes,
    writev: unused,
    fdatasync: unused,
    truncate: unused,
    close: unused,
  }
}

describe('what a node reads for others', () => {
  it('is read in small steps, evenly', async () => {
    const { steps, reads } = reading()
    const into = Buffer.alloc(600 * KIB)
    assert.equal(await reads.read(fileOf(1 << 20), 'a', into, 8), into.byteLength)
    assert(into.every((byte) => byte === 2))
    assert.deepEqual(steps, [
      { path: 'a', at: 8, bytes: 256 * KIB, atMs: 1000 },
      { path: 'a', at: 8 + 256 * KIB, bytes: 256 * KIB, atMs: 1010 },
      { path: 'a', at: 8 + 512 * KIB, bytes: 88 * KIB, atMs: 1020 },
    ])
  })

  it('is one step at a time of all that is asked for at once, each of its own file', async () => {
    const { steps, reads } = reading()
    const pieces = ['a', 'b'].map((path) => reads.read(fileOf(1 << 20), path, Buffer.alloc(512 * KIB), 0))
    await Promise.all(pieces)
    assert.deepEqual(
      steps.map(({ path, atMs }) => `${path} ${atMs}`),
      ['a 1000', 'b 1010', 'a 1020', 'b 1030'],
    )
  })

  it('keeps its rate when timers fire late, and makes up for 5 ms at most', async () => {
    const { clock, steps, reads } = reading({ lateMs: 2 })
    await reads.read(fileOf(1 << 20), 'a', Buffer.alloc(1 << 20), 0)
    assert.deepEqual(
      steps.map(({ atMs }) => atMs),
      [1000, 1012, 1022, 1032],
    )
    clock.nowMs = 2000
    await reads.read(fileOf(1 << 20), 'a', Buffer.alloc(512 * KIB), 0)
    assert.deepEqual(
      steps.slice(4).map(({ atMs }) => atMs),
      [2000, 2007],
    )
  })

  it('goes past the page cache where that has not got it', async () => {
    const { reads } = reading({ isDirect: true })
    const into = Buffer.alloc(300 * KIB)
    assert.equal(await reads.read(fileOf(1 << 20), 'a', into, 0), into.byteLength)
    assert(into.every((byte) => byte === 1))
  })

  it('ends where the file does, and goes on after a file that cannot be read', async () => {
    const { reads } = reading()
    const broken = { ...fileOf(1 << 20), read: () => assert.fail('a bad sector') }
    await assert.rejects(reads.read(broken, 'a', Buffer.alloc(8), 0), /a bad sector/)
    assert.equal(await reads.read(fileOf(100), 'b', Buffer.alloc(512 * KIB), 40), 60)
  })
})
