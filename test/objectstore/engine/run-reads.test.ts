import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import { ExtentList } from '../../../src/objectstore/engine/extent-list.ts'
import { EXTENT_BYTES } from '../../../src/objectstore/engine/frames.ts'
import type { FrameToRead, ReadOutcome } from '../../../src/objectstore/engine/read-protocol.ts'
import { RUN_BYTES } from '../../../src/objectstore/engine/run-memory.ts'
import { RUNS_MAX, RunReads } from '../../../src/objectstore/engine/run-reads.ts'
import type { Run, RunsOf } from '../../../src/objectstore/engine/run-reads.ts'

const KEY_BYTES = 3
const KEPT_RUNS = 24
const SEGMENT = { base: 0, end: 1e12, sealed: true, directory: '', recordsPath: '' }

/** Extents of each body, far from those of other bodies: enough for a run that is worth keeping. */
const EXTENTS = 2
const RUN_CONTENT_BYTES = EXTENTS * EXTENT_BYTES
const extentsOf = (n: number): ExtentList =>
  ExtentList.of([
    { position: n * 1_000_000, bytes: EXTENT_BYTES },
    { position: n * 1_000_000 + 500_000, bytes: EXTENT_BYTES },
  ])
const bodyOf = (n: number): RunsOf => ({ extents: extentsOf(n), keyBytes: KEY_BYTES, owner: n * 1_000_000 + 900_000 })

/** A disk whose runs are filled with the number of their body. Records jobs, and the memories that runs are read into. */
class Disk {
  fails = false
  readonly jobs: number[] = []
  readonly memories = new Set<SharedArrayBuffer>()
  /** `isAgain` of the last job. */
  isAgain = false
  readonly runs: RunReads

  constructor(keptBytesMax = KEPT_RUNS * RUN_BYTES) {
    const reads = { readAll: async (frames: readonly FrameToRead[]) => this.#read(frames) }
    this.runs = new RunReads({ segments: [SEGMENT] }, reads, keptBytesMax)
  }

  read(n: number): Promise<Run | null> | null {
    return this.runs.read(bodyOf(n), 0, RUN_CONTENT_BYTES)
  }

  /** Reads a run and gives it back, like the only reader of it. */
  async pass(n: number): Promise<void> {
    const run = (await this.read(n))!
    assert.equal(run.bytes[0], n % 256)
    this.runs.release(run)
  }

  #read(frames: readonly FrameToRead[]): readonly ReadOutcome[] {
    this.jobs.push(frames[0]!.place)
    this.isAgain = frames[0]!.isAgain
    if (this.fails) return frames.map(() => ({ cause: 'unavailable', reason: 'EIO' }))
    return frames.map(({ place, target }) => {
      const { memory, from, roomBytes } = target!
      this.memories.add(memory)
      const payload = new Uint8Array(memory, from + FRAME_HEADER_BYTES, roomBytes - FRAME_HEADER_BYTES)
      payload.fill(Math.floor(place / 1_000_000))
      return { type: 1, payload }
    })
  }
}

describe('a run that several read', () => {
  it('is read once, and stays as it is until the last has given it back', async () => {
    const disk = new Disk()
    const [first, second] = await Promise.all([disk.read(1), disk.read(1)])
    assert.equal(disk.jobs.length, 1)
    assert.equal(disk.runs.taken, 1)
    assert.equal(first, second)
    disk.runs.release(first!)
    assert.equal(disk.runs.taken, 1)
    for (let n = 2; n < 2 + 3 * KEPT_RUNS; n++) await disk.pass(n)
    assert.ok(second!.bytes.every((byte) => byte === 1))
    disk.runs.release(second!)
    assert.equal(disk.runs.taken, 0)
  })

  it('is another one where other extents follow the first', async () => {
    const disk = new Disk()
    const whole = (await disk.read(1))!
    const part = (await disk.runs.read(bodyOf(1), 0, EXTENT_BYTES))!
    assert.deepEqual([whole.bytes.byteLength, part.bytes.byteLength], [RUN_CONTENT_BYTES, EXTENT_BYTES])
    disk.runs.release(part)
    disk.runs.release(whole)
    assert.equal(disk.runs.taken, 0)
    assert.equal((await disk.read(1))!.bytes.byteLength, RUN_CONTENT_BYTES)
    assert.equal(disk.jobs.length, 2)
  })

  it("that cannot be read is nobody's, and is tried again by who comes later", async () => {
    const disk = new Disk()
    disk.fails = true
    assert.deepEqual(await Promise.all([disk.read(1), disk.read(1)]), [null, null])
    assert.equal(disk.runs.taken, 0)
    disk.fails = false
    await disk.pass(1)
    assert.equal(disk.jobs.length, 2)
  })
})

describe('runs that were given back', () => {
  it('are found again without being read', async () => {
    const disk = new Disk()
    for (let round = 0; round < 3; round++) for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(n)
    assert.equal(disk.jobs.length, KEPT_RUNS)
  })

  it('take the memory that is theirs, and none where there is none for them', async () => {
    for (const [bytesMax, kept] of [
      [0, 0],
      [RUN_BYTES - 1, 0],
      [3 * RUN_BYTES - 1, 2],
      [3 * RUN_BYTES, 3],
    ] as const) {
      const disk = new Disk(bytesMax)
      for (let n = 0; n < 5; n++) await disk.pass(n)
      assert.equal(disk.runs.keptBytes, kept * RUN_BYTES)
      for (let n = 0; n < kept; n++) await disk.pass(n)
      assert.equal(disk.jobs.length, 5)
    }
  })

  it('stay for a reader who reads more than fits, again and again', async () => {
    const disk = new Disk()
    const count = 2 * KEPT_RUNS
    for (let round = 0; round < 10; round++) for (let n = 0; n < count; n++) await disk.pass(n)
    assert.equal(disk.jobs.length, count + 9 * (count - KEPT_RUNS))
  })

  it('make way for what is read now, at its second time', async () => {
    const disk = new Disk()
    for (let round = 0; round < 5; round++) for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(n)
    for (let round = 0; round < 2; round++) for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(100 + n)
    const before = disk.jobs.length
    for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(100 + n)
    assert.equal(disk.jobs.length, before)
  })

  it('stay when others are read once', async () => {
    const disk = new Disk()
    for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(n)
    for (let n = 0; n < 3 * KEPT_RUNS; n++) await disk.pass(100 + n)
    const before = disk.jobs.length
    for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(n)
    assert.equal(disk.jobs.length, before)
  })

  it('go when their object is replaced, and leave their room to others', async () => {
    const disk = new Disk()
    for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(n)
    const used = (await disk.read(1))!
    for (let n = 0; n < KEPT_RUNS; n++) disk.runs.forget(bodyOf(n).owner)
    assert.equal(disk.runs.keptBytes, 0)
    assert.ok(
      used.bytes.every((byte) => byte === 1),
      'who reads it goes on',
    )
    disk.runs.release(used)
    for (let round = 0; round < 2; round++) for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(100 + n)
    assert.equal(disk.jobs.length, 2 * KEPT_RUNS)
    assert.equal(disk.memories.size, KEPT_RUNS)
  })

  it('are read through the page cache when they were used before', async () => {
    const disk = new Disk(0)
    await disk.pass(1)
    assert.equal(disk.isAgain, false)
    await disk.pass(1)
    assert.equal(disk.isAgain, true)
  })

  it('leave room for as many as are read at a time, and take no memory beyond that', async () => {
    const disk = new Disk()
    for (let n = 0; n < KEPT_RUNS; n++) await disk.pass(n)
    for (let round = 1; round <= 5; round++) {
      const taken = Array.from({ length: RUNS_MAX }, async (_, n) => disk.read(round * 100 + n))
      assert.equal(disk.runs.taken, RUNS_MAX)
      assert.equal(disk.read(round * 100 + RUNS_MAX), null)
      for (const run of await Promise.all(taken)) disk.runs.release(run!)
    }
    assert.equal(disk.memories.size, KEPT_RUNS + RUNS_MAX)
  })
})
