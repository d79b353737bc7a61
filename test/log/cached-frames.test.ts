import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { ReadMemory } from '../../src/libc.ts'
import { CachedFrames } from '../../src/log/cached-frames.ts'
import type { CachedFrame } from '../../src/log/cached-frames.ts'
import type { CachedFile } from '../../src/log/files.ts'
import type { Log } from '../../src/log/log.ts'
import { openCachedFile } from '../../src/log/node-files.ts'
import { World, appended, openWriter, payloadOf } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

const FRAME_BYTES_MAX = 2048
const HEADER_BYTES = 48

/** A log of some segments, and a page cache with as much of its files as the test sets. */
class Cache {
  readonly world: World
  readonly opened: string[] = []
  closed = 0
  memories = 0
  /** Number of bytes at the beginning of each file that are in memory. */
  inMemory = Infinity
  /** Whether the file system can tell what is in memory. */
  canTell = true
  asked = 0
  /** Files are open once this resolves. */
  opening = Promise.resolve()
  readonly log: Log
  readonly frames: CachedFrames

  static async open(): Promise<Cache> {
    const world = new World({ seed: 1 })
    return new Cache(world, await world.open({ segmentBytes: 4096 }))
  }

  private constructor(world: World, log: Log) {
    this.world = world
    this.log = log
    this.frames = new CachedFrames({
      log,
      open: async (path) => {
        const file = this.#open(path)
        await this.opening
        return file
      },
      memory: (byteLength) => {
        this.memories += 1
        return new ReadMemory(byteLength)
      },
      frameBytesMax: FRAME_BYTES_MAX,
      spareMax: 2,
    })
  }

  append(...sizes: readonly number[]): Written[] {
    const writer = openWriter(this.log)
    const written = sizes.map((bytes, n) => appended(writer, payloadOf(n, bytes)))
    this.world.step()
    return written
  }

  /** Reads like a caller, and tries again after a turn, as the first read only opens the file. */
  async read({ position, payload }: Written, expectBytes = HEADER_BYTES + payload.byteLength) {
    const early = this.frames.read(position, expectBytes)
    if (early !== null) return early
    await nextTurn()
    return this.frames.read(position, expectBytes)
  }

  #open(path: string): CachedFile {
    this.opened.push(path)
    const file = this.world.files.open(path, 'read')
    return {
      read: (into, at) => {
        this.asked += 1
        if (!this.canTell) return null
        const [from, bytes] = [into.from, Math.min(into.byteLength, Math.max(0, this.inMemory - at))]
        return file.read(into.bytes.subarray(from, from + bytes), at)
      },
      close: () => {
        this.closed += 1
        file.close()
      },
    }
  }
}

describe('a frame that the page cache has', () => {
  it('is read at once when its file is open, and memory that is given back is used for the next one', async () => {
    const cache = await Cache.open()
    const written = cache.append(10, 0, 700, 1500)
    assert.equal(cache.frames.read(written[0]!.position, 100), null)
    await nextTurn()
    for (const frame of written) {
      for (const expectBytes of [HEADER_BYTES, 500, FRAME_BYTES_MAX]) {
        const read = cache.frames.read(frame.position, expectBytes)!
        assert.equal(read.type, frame.type)
        assert.ok(read.payload.equals(frame.payload))
        cache.frames.release(read.memory)
      }
    }
    assert.equal(cache.opened.length, 1)
    assert.equal(cache.memories, 1)
  })

  it('stays as it is until its memory is given back', async () => {
    const cache = await Cache.open()
    const [first, second] = cache.append(300, 400)
    const held = (await cache.read(first!))!
    const other = (await cache.read(second!))!
    assert.ok(held.payload.equals(first!.payload))
    assert.ok(other.payload.equals(second!.payload))
    assert.equal(cache.memories, 2)
  })
})

describe('the files of a log that was cut', () => {
  it('are opened anew: others may stand under their names', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(300)
    assert.ok(await cache.read(frame!))
    await cache.log.cutTo(cache.log.written)
    assert.equal(cache.frames.read(frame!.position, HEADER_BYTES + 300), null)
    assert.equal(cache.closed, 1)
    assert.ok((await cache.read(frame!))?.payload.equals(frame!.payload))
    assert.equal(cache.opened.length, 2)
  })

  it('are closed at once when they were being opened, and opened once meanwhile', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(300)
    const read = (): CachedFrame | null => cache.frames.read(frame!.position, HEADER_BYTES + 300)
    let go = (): void => {}
    cache.opening = new Promise<void>((resolve) => (go = resolve))
    assert.equal(read(), null)
    await cache.log.cutTo(cache.log.written)
    assert.equal(read(), null)
    assert.equal(cache.opened.length, 1)
    go()
    await nextTurn()
    assert.equal(cache.closed, 1)
    assert.ok((await cache.read(frame!))?.payload.equals(frame!.payload))
    assert.equal(cache.opened.length, 2)
    await cache.frames.close()
    assert.equal(cache.closed, 2)
  })
})

describe('a frame that its reader keeps', () => {
  it('stays as it is for good, beside others', async () => {
    const cache = await Cache.open()
    const written = Array.from({ length: 400 }, (_, n) => cache.append(900 + n)[0]!)
    for (const { position } of written) cache.frames.readToKeep(position, 100)
    await nextTurn()
    const kept = written.map(({ position }, n) => cache.frames.readToKeep(position, n % 3 === 0 ? 2000 : 100))
    const opened = kept.map((frame, n) => [frame, written[n]!] as const).filter(([frame]) => frame !== null)
    assert.ok(opened.length > 100, 'those of the files that stay open')
    for (const [frame, { payload }] of opened) assert.ok(frame?.payload.equals(payload))
    assert.ok(cache.memories < 5, `${cache.memories} pieces of memory`)
  })

  it('is left to a thread when it is long', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(10)
    assert.equal(cache.frames.readToKeep(frame!.position, 81 * 1024), null)
    await nextTurn()
    assert.equal(cache.opened.length, 0)
  })
})

describe('a thread has to read', () => {
  it('everything where the file system cannot tell what is in memory, which is asked once', async () => {
    const cache = await Cache.open()
    const [first, second] = cache.append(300, 400)
    cache.canTell = false
    assert.equal(await cache.read(first!), null)
    assert.equal(await cache.read(second!), null)
    assert.equal(cache.frames.readToKeep(second!.position, 500), null)
    assert.equal(cache.asked, 1)
  })

  it('what is in memory in part or not at all', async () => {
    const cache = await Cache.open()
    const [first, second] = cache.append(300, 400)
    const segment = cache.log.segments[0]!
    cache.inMemory = second!.position - segment.base + 100
    assert.equal(await cache.read(second!), null)
    const read = (await cache.read(first!))!
    assert.ok(read.payload.equals(first!.payload))
    cache.frames.release(read.memory)
    cache.inMemory = 0
    assert.equal(await cache.read(first!), null)
    assert.equal(cache.memories, 1)
  })

  it('what does not hold', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(300)
    cache.world.files.damage(cache.log.segments[0]!.recordsPath, (content) => {
      content[content.indexOf(frame!.payload) + 7]! ^= 1
      return content
    })
    assert.equal(await cache.read(frame!), null)
  })

  it('what is longer than the memory, however long the caller takes it for', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(FRAME_BYTES_MAX)
    assert.equal(await cache.read(frame!), null)
    assert.equal(await cache.read(frame!, HEADER_BYTES), null)
    assert.equal(cache.memories, 1)
  })

  it('what is not in a segment, and what is no frame', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(300)
    assert.equal(cache.frames.read(frame!.end, HEADER_BYTES), null)
    assert.equal(cache.opened.length, 0)
    assert.equal(await cache.read({ ...frame!, position: frame!.position + 8 }), null)
  })

  it('what is in a file that cannot be opened', async () => {
    const cache = await Cache.open()
    const [frame] = cache.append(300)
    cache.world.files.removeFile(cache.log.segments[0]!.recordsPath)
    assert.equal(await cache.read(frame!), null)
    assert.equal(await cache.read(frame!), null)
  })
})

describe('files', () => {
  it('of dropped segments are closed, and all others at the end', async () => {
    const cache = await Cache.open()
    const written = cache.append(1500, 1500, 1500, 1500, 1500, 1500)
    for (const frame of written) {
      const read = await cache.read(frame)
      if (read !== null) cache.frames.release(read.memory)
    }
    assert.equal(cache.opened.length, 3)
    const [, second] = cache.log.segments
    cache.log.dropBefore(second!.base)
    const read = await cache.read(written.at(-1)!)
    assert.ok(read?.payload.equals(written.at(-1)!.payload))
    assert.equal(cache.closed, 1)
    await cache.frames.close()
    assert.equal(cache.closed, 3)
    assert.equal(await cache.read(written.at(-1)!), null)
  })
})

it('a file of this machine is read where its bytes are in memory', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'trilog-cached-'))
  try {
    const content = payloadOf(1, 10_000)
    writeFileSync(join(directory, 'file'), content)
    const file = await openCachedFile(join(directory, 'file'))
    const memory = new ReadMemory(4096)
    memory.point(100, 3000)
    const count = file.read(memory, 5000) ?? 0
    assert.ok(memory.bytes.subarray(100, 100 + count).equals(content.subarray(5000, 5000 + count)))
    assert.ok(count === 3000 || count === 0, 'all of what was just written, or a file system that cannot tell')
    assert.equal(file.read(memory, 10_000), 0)
    file.close()
    assert.equal(file.read(memory, 5000), 0)
    await assert.rejects(openCachedFile(join(directory, 'none')), { code: 'ENOENT' })
  } finally {
    rmSync(directory, { recursive: true })
  }
})
