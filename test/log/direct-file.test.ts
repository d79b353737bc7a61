import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { DirectFile } from '../../src/log/direct-file.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import { temporaryDirectory } from '../support/directories.ts'

const KIB = 1 << 10
const FILE_BYTES = 1_500_001
const content = Buffer.from(Uint8Array.from({ length: FILE_BYTES }, (_, i) => i + (i >>> 8) + (i >>> 16)))

function written(): string {
  const name = path.join(temporaryDirectory(), 'file')
  fs.writeFileSync(name, content)
  return name
}

const failure = (code: string): Error => Object.assign(new Error(code), { code })

describe('reads of which long ones go past the page cache', () => {
  it('give the bytes that other reads give, wherever they begin and end', () => {
    const file = nodeFiles.open(written(), 'read', 'short')
    fc.assert(
      fc.property(fc.nat(FILE_BYTES + 5000), fc.nat(800 * KIB), (at, byteLength) => {
        const into = Buffer.alloc(byteLength)
        const count = file.read(into, at)
        assert(into.subarray(0, count).equals(content.subarray(at, at + byteLength)))
      }),
      { numRuns: 50 },
    )
    file.close()
  })

  it('go past it only when they are long', () => {
    const asked: number[] = []
    const readSync = (_descriptor: number, _into: unknown, _at: unknown, bytes: number): number => {
      asked.push(bytes)
      return 0
    }
    const direct = DirectFile.open(written(), { ...fs, readSync: readSync as typeof fs.readSync })!
    assert.equal(direct.read(Buffer.alloc(100 * KIB), 0), 0)
    assert.deepEqual(asked, [])
    assert.equal(direct.read(Buffer.alloc(200 * KIB), 5), 0)
    assert.deepEqual(asked, [204 * KIB])
    direct.close()
  })

  it('leave what cannot be read this way to the other one', () => {
    let left = 2
    const readSync = ((...read: Parameters<typeof fs.readSync>) => {
      if (left === 0) throw failure('EINVAL')
      left -= 1
      return fs.readSync(...read)
    }) as typeof fs.readSync // the overload that is called
    const direct = DirectFile.open(written(), { ...fs, readSync })!
    const into = Buffer.alloc(1000 * KIB)
    assert.equal(direct.read(into, 0), 512 * KIB)
    assert(into.subarray(0, 512 * KIB).equals(content.subarray(0, 512 * KIB)))
    direct.close()
  })

  it('are none where the file system has none', () => {
    const openSync = (): number => {
      throw failure('EINVAL')
    }
    assert.equal(DirectFile.open('file', { ...fs, openSync }), null)
  })
})
