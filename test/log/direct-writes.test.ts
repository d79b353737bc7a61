import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { DirectWrites } from '../../src/log/direct-writes.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import { temporaryDirectory } from '../support/directories.ts'

const KIB = 1 << 10
const MIB = 1 << 20

const parts = fc.array(
  fc
    .tuple(fc.oneof({ weight: 3, arbitrary: fc.nat(5 * KIB) }, { weight: 1, arbitrary: fc.nat(2 * MIB) }), fc.nat(255))
    .map(([byteLength, first]) => Uint8Array.from({ length: byteLength }, (_, i) => first + i + (i >>> 8))),
  { minLength: 1, maxLength: 6 },
)

const failure = (code: string): Error => Object.assign(new Error(code), { code })

describe('writes of which large ones go past the page cache', () => {
  it('leave the bytes that other writes leave, wherever they begin and however they are cut', () => {
    const name = path.join(temporaryDirectory(), 'file')
    fc.assert(
      fc.property(fc.array(parts, { minLength: 1, maxLength: 3 }), fc.nat(3 * 4096), (writes, start) => {
        fs.rmSync(name, { force: true })
        const file = nodeFiles.create(name, 'short')
        let at = start
        for (const write of writes) {
          file.writev(write, at)
          for (const part of write) at += part.byteLength
        }
        file.fdatasync()
        file.close()
        assert(fs.readFileSync(name).subarray(start).equals(Buffer.concat(writes.flat())))
      }),
      { numRuns: 25 },
    )
  })

  it('are cut where the file was opened to cut them', () => {
    const name = path.join(temporaryDirectory(), 'file')
    fs.writeFileSync(name, '')
    for (const [cached, bytesMin] of [
      ['short', 256 * KIB],
      ['medium', MIB],
    ] as const) {
      const direct = DirectWrites.open(name, cached)!
      for (const bytes of [bytesMin - 1, bytesMin]) {
        const past = direct.writev([Buffer.alloc(bytes)], 0, () => assert.fail('there is no head'))
        assert.equal(past, bytes < bytesMin ? 0 : bytes)
      }
      direct.close()
    }
  })

  it('leave what stands around them in a file that is overwritten', () => {
    const name = path.join(temporaryDirectory(), 'file')
    fs.writeFileSync(name, Buffer.alloc(6 * MIB, 1))
    const file = nodeFiles.open(name, 'write', 'short')
    file.writev([Buffer.alloc(3 * MIB, 2)], 100)
    file.close()
    const bytes = fs.readFileSync(name)
    assert.equal(bytes.byteLength, 6 * MIB)
    assert(bytes.subarray(0, 100).every((byte) => byte === 1))
    assert(bytes.subarray(100, 3 * MIB + 100).every((byte) => byte === 2))
    assert(bytes.subarray(3 * MIB + 100).every((byte) => byte === 1))
  })
})

describe('the way past the page cache', () => {
  function opened(writeSync: typeof fs.writeSync): DirectWrites {
    const name = path.join(temporaryDirectory(), 'file')
    fs.writeFileSync(name, '')
    const system = { ...fs, openSync: () => fs.openSync(name, 'r+'), writeSync }
    return DirectWrites.open(name, 'medium', system)!
  }

  it('is none where the file system has none', () => {
    const openSync = (): number => {
      throw failure('EINVAL')
    }
    assert.equal(DirectWrites.open('file', 'short', { ...fs, openSync }), null)
  })

  it('ends where the file system refuses a write this way', () => {
    const direct = opened(() => {
      throw failure('EINVAL')
    })
    const heads: number[] = []
    assert.equal(
      direct.writev([Buffer.alloc(2 * MIB)], 4000, ([head]) => heads.push(head!.byteLength)),
      null,
    )
    assert.deepEqual(heads, [96])
    direct.close()
  })

  it('goes on after a short write, and passes on what fails', () => {
    let calls = 0
    const direct = opened(((...args: Parameters<typeof fs.writeSync>) => {
      calls += 1
      const [, , , length] = args as unknown as [number, Buffer, number, number] // the overload that is called
      if (calls === 4) throw failure('ENOSPC')
      return calls === 1 ? 512 : length
    }) as typeof fs.writeSync)
    assert.equal(
      direct.writev([Buffer.alloc(MIB + 10)], 0, () => assert.fail('there is no head')),
      MIB,
    )
    assert.equal(calls, 2)
    assert.throws(() => direct.writev([Buffer.alloc(3 * MIB)], 0, () => {}), { code: 'ENOSPC' })
    direct.close()
  })
})
