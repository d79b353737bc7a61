import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { isCached } from '../../src/libc.ts'
import { DirectReads } from '../../src/log/direct-reads.ts'
import type { FileCalls, Range } from '../../src/log/direct-reads.ts'
import { temporaryDirectory } from '../support/directories.ts'

const FILE_BYTES = 3 * (1 << 20) + 777
const CONTENT = Buffer.from(Uint32Array.from({ length: FILE_BYTES / 4 + 1 }, (_, i) => i).buffer).subarray(
  0,
  FILE_BYTES,
)
const PAGE_BYTES = 4096

const failure = (code: string): Error => Object.assign(new Error(code), { code })

const directory = temporaryDirectory()
const pathOf = (base: number): string => path.join(directory, String(base))
for (const base of [0, 1]) fs.writeFileSync(pathOf(base), CONTENT)

/** A system with an empty page cache, which records reads. */
class System implements FileCalls {
  readonly reads: { readonly at: number; readonly bytes: number }[] = []
  cached: (at: number) => boolean | null = () => false
  openFailure: string | null = null
  readFailure: string | null = null
  openFiles = 0

  readonly openSync: typeof fs.openSync = (file, flags) => {
    if (flags !== 'r' && this.openFailure !== null) throw failure(this.openFailure)
    const descriptor = fs.openSync(file, 'r')
    this.openFiles += 1
    return descriptor
  }

  readonly closeSync = (descriptor: number): void => {
    this.openFiles -= 1
    fs.closeSync(descriptor)
  }

  async read(descriptor: number, into: Buffer, at: number): Promise<number> {
    assert.equal(at % PAGE_BYTES, 0)
    assert.equal(into.byteLength % PAGE_BYTES, 0)
    if (this.readFailure !== null) throw failure(this.readFailure)
    this.reads.push({ at, bytes: into.byteLength })
    return fs.readSync(descriptor, into, 0, into.byteLength, at)
  }

  isCached(_descriptor: number, at: number): boolean | null {
    return this.cached(at)
  }
}

const ranges = fc.array(
  fc.record({ base: fc.nat(1), at: fc.nat(FILE_BYTES), bytes: fc.integer({ min: 1, max: 300_000 }) }),
  { maxLength: 12 },
)

describe('reads past the page cache', () => {
  it('give the bytes that stand there, wherever they begin and however they overlap', async () => {
    const system = new System()
    const reads = new DirectReads(pathOf, system)
    const real = new DirectReads(pathOf)
    await fc.assert(
      fc.asyncProperty(ranges, async (asked: readonly Range[]) => {
        for (const each of [reads, real]) {
          const loaded = await each.load(asked)
          for (const { base, at, bytes } of asked) {
            const there = loaded.at(base, at, bytes)
            if (there !== null) assert.ok(there.equals(CONTENT.subarray(at, at + bytes)))
            else if (each === reads) assert.ok(at + bytes > FILE_BYTES, 'all of it is in the file, and was read')
          }
        }
      }),
      { numRuns: 50 },
    )
    reads.close()
    real.close()
    assert.equal(system.openFiles, 0)
  })

  it('make one of neighbours', async () => {
    const system = new System()
    const reads = new DirectReads(pathOf, system)
    await reads.load([
      { base: 0, at: 200_100, bytes: 100_000 },
      { base: 0, at: 100, bytes: 100_000 },
      { base: 0, at: 100_100, bytes: 100_000 },
      { base: 0, at: 1_000_000, bytes: 10 },
    ])
    assert.deepEqual(system.reads, [
      { at: 0, bytes: 303_104 },
      { at: 999_424, bytes: 4096 },
    ])
  })

  it('leave out what is in the page cache', async () => {
    const system = new System()
    system.cached = (at) => at < 1000
    const loaded = await new DirectReads(pathOf, system).load([
      { base: 0, at: 0, bytes: 500 },
      { base: 0, at: 500_000, bytes: 500 },
    ])
    assert.equal(loaded.at(0, 0, 500), null)
    assert.ok(loaded.at(0, 500_000, 500)?.equals(CONTENT.subarray(500_000, 500_500)))
  })

  it('load nothing where a file system or a kernel has no such way, and do not ask it again', async () => {
    for (const refuse of [
      (system: System) => void (system.openFailure = 'EINVAL'),
      (system: System) => void (system.readFailure = 'EINVAL'),
      (system: System) => void (system.cached = () => null),
    ]) {
      const system = new System()
      refuse(system)
      const reads = new DirectReads(pathOf, system)
      assert.equal((await reads.load([{ base: 0, at: 0, bytes: 500 }])).at(0, 0, 500), null)
      system.readFailure = system.openFailure = null
      system.cached = () => false
      assert.equal((await reads.load([{ base: 0, at: 0, bytes: 500 }])).at(0, 0, 500), null)
      reads.close()
      assert.equal(system.openFiles, 0)
    }
  })

  it('load nothing of what could not be read, and all that could be', async () => {
    const system = new System()
    system.readFailure = 'EIO'
    const reads = new DirectReads((base) => (base === 7 ? `${directory}/none` : pathOf(base)), system)
    const asked = [0, 7].map((base) => ({ base, at: 10, bytes: 500 }))
    assert.equal((await reads.load(asked)).at(0, 10, 500), null)
    system.readFailure = null
    const loaded = await reads.load(asked)
    assert.ok(loaded.at(0, 10, 500)?.equals(CONTENT.subarray(10, 510)))
    assert.equal(loaded.at(7, 10, 500), null)
    reads.close(1)
    assert.equal(system.openFiles, 0)
  })

  it('keep to a number of open files', async () => {
    const system = new System()
    const reads = new DirectReads(() => pathOf(0), system)
    for (let base = 0; base < 100; base++) {
      const loaded = await reads.load([{ base, at: 10, bytes: 500 }])
      assert.ok(loaded.at(base, 10, 500) !== null)
    }
    assert.ok(system.openFiles <= 64, `${system.openFiles}`)
  })
})

describe('what is in the page cache', () => {
  it('is told of a file that was just written, and not of bytes behind its end', () => {
    const descriptor = fs.openSync(pathOf(0), 'r')
    fs.readSync(descriptor, Buffer.alloc(FILE_BYTES))
    const answer = isCached(descriptor, 5000, 100_000)
    assert.ok(answer === true || answer === null, 'null before Linux 6.5')
    if (answer !== null) assert.equal(isCached(descriptor, 0, FILE_BYTES + 2 * PAGE_BYTES), false)
    fs.closeSync(descriptor)
  })
})
