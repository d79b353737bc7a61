import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { publishFile, publishWritten, readWhole, syncedInTurns } from '../../src/log/files.ts'
import type { OpenFile } from '../../src/log/files.ts'
import { SimFiles } from '../support/sim-files.ts'

const MIB = 1 << 20

/** The file, and the number of bytes that each sync made durable. */
function countingSyncs(file: OpenFile): { readonly file: OpenFile; readonly synced: number[] } {
  const synced: number[] = []
  let waiting = 0
  const counting: OpenFile = {
    read: (into, at) => file.read(into, at),
    truncate: (bytes) => file.truncate(bytes),
    size: () => file.size(),
    close: () => file.close(),
    writev(parts, at) {
      for (const { byteLength } of parts) waiting += byteLength
      file.writev(parts, at)
    },
    fdatasync() {
      synced.push(waiting)
      waiting = 0
      file.fdatasync()
    },
  }
  return { file: counting, synced }
}

const COUNTING = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
const bytesFrom = (from: number, count: number): Buffer => Buffer.alloc(from + count, COUNTING).subarray(from)

describe('files of a log', () => {
  function withDirectory(): SimFiles {
    const files = new SimFiles({ seed: 1 })
    files.makeDirectory('/data')
    files.syncDirectory('/')
    return files
  }

  it('a long write never leaves more than a MiB to one sync, and writes what it was given', () => {
    const part = fc.record({ from: fc.nat(255), count: fc.oneof(fc.nat(100), fc.nat(2.5 * MIB)) })
    fc.assert(
      fc.property(fc.array(part, { maxLength: 4 }), fc.nat(3 * MIB), (specs, at) => {
        const parts = specs.map(({ from, count }) => bytesFrom(from, count))
        const { file, synced } = countingSyncs(withDirectory().create('/data/long'))
        syncedInTurns(file).writev(parts, at)
        file.fdatasync()
        const whole = Buffer.concat(parts)
        const written = Buffer.alloc(whole.byteLength)
        assert.equal(file.read(written, at), whole.byteLength)
        assert.ok(whole.equals(written))
        assert.equal(
          synced.reduce((sum, bytes) => sum + bytes, 0),
          whole.byteLength,
        )
        assert.ok(synced.every((bytes) => bytes <= MIB))
      }),
      { numRuns: 20 },
    )
  })

  it('one that is published leaves no more to a sync either, in whatever order its sections are written', () => {
    const files = withDirectory()
    const syncs: number[][] = []
    const counted = new Proxy(files, {
      get(target, name) {
        if (name !== 'create') return Reflect.get(target, name).bind(target) as unknown
        return (path: string) => {
          const { file, synced } = countingSyncs(target.create(path))
          syncs.push(synced)
          return file
        }
      },
    })
    const sections = [bytesFrom(1, 1.5 * MIB), bytesFrom(2, 0.7 * MIB), bytesFrom(3, 0.9 * MIB)]
    const [first, second, third] = sections
    const told = publishWritten(counted, '/data', 'sections', (file) => {
      file.writev([third!], first!.byteLength + second!.byteLength)
      file.writev([first!], 0)
      file.writev([second!], first!.byteLength)
      return 'written'
    })
    assert.equal(told, 'written')
    assert.equal(syncs.length, 1)
    assert.ok(syncs[0]!.every((bytes) => bytes <= MIB))
    assert.ok(readWhole(files, '/data/sections')!.equals(Buffer.concat(sections)))
  })

  it('a published file of several MiB is there whole after a power cut', () => {
    const files = withDirectory()
    const parts = [bytesFrom(1, 100), bytesFrom(2, 2.5 * MIB), bytesFrom(3, MIB)]
    publishFile(files, '/data', 'long', parts)
    files.crash()
    assert.ok(readWhole(files, '/data/long')!.equals(Buffer.concat(parts)))
  })
})
