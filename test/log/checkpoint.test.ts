import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { contentOf as bytesOf, readNewestCheckpoint, writeCheckpoint } from '../support/checkpoints.ts'
import type { Checkpoint } from '../../src/log/checkpoint.ts'
import { SimFiles } from '../support/sim-files.ts'

describe('checkpoints', () => {
  const DIRECTORY = '/data'
  const contentOf = (position: number): Uint8Array<ArrayBuffer> => new TextEncoder().encode(`state at ${position}`)
  function withCheckpoints(...positions: number[]): SimFiles {
    const files = new SimFiles({ seed: 1 })
    files.makeDirectory(DIRECTORY)
    files.syncDirectory('/')
    for (const position of positions) {
      const content = contentOf(position)
      writeCheckpoint(files, DIRECTORY, position, [content.subarray(0, 3), content.subarray(3)])
    }
    return files
  }
  const shown = (read: Checkpoint | null) => read && { position: read.position, content: bytesOf(read).toString() }
  const checkpointPaths = (files: SimFiles): string[] => files.paths().filter((path) => path.includes('checkpoint'))

  it('keep the newest two', () => {
    const files = withCheckpoints(64, 4096, 65_536)
    assert.deepEqual(checkpointPaths(files), [
      '/data/checkpoint-0000000000001000.bin',
      '/data/checkpoint-0000000000010000.bin',
    ])
    files.crash()
    const newest = readNewestCheckpoint(files, [DIRECTORY], 1 << 20)
    assert.deepEqual(shown(newest), { position: 65_536, content: 'state at 65536' })
    assert.equal(bytesOf(newest!).byteOffset % 8, 0)
  })

  it('may have parts of no bytes, in memory of no bytes', () => {
    const files = withCheckpoints()
    writeCheckpoint(files, DIRECTORY, 64, [contentOf(64), new Uint8Array(new ArrayBuffer(0)), contentOf(1)])
    assert.equal(bytesOf(readNewestCheckpoint(files, [DIRECTORY], 64)!).toString(), 'state at 64state at 1')
  })

  it('are found in whichever directory has the newest', () => {
    const files = withCheckpoints(64)
    files.makeDirectory('/replica')
    writeCheckpoint(files, '/replica', 128, [contentOf(128)])
    assert.equal(readNewestCheckpoint(files, [DIRECTORY, '/replica'], 4096)?.position, 128)
    assert.equal(readNewestCheckpoint(files, [DIRECTORY, '/replica'], 127)?.position, 64)
  })

  it('that name the broker, as all older ones do, are read', () => {
    const files = withCheckpoints(64)
    files.damage(checkpointPaths(files)[0]!, (content) => {
      content.write('TLBRKCKP')
      return content
    })
    assert.deepEqual(shown(readNewestCheckpoint(files, [DIRECTORY], 64)), { position: 64, content: 'state at 64' })
  })

  it('of a log that lost its end are passed over, then removed', () => {
    const files = withCheckpoints(64, 4096)
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 4095)?.position, 64)
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 63), null)
    writeCheckpoint(files, DIRECTORY, 128, [contentOf(128)])
    assert.equal(readNewestCheckpoint(files, [DIRECTORY], 1 << 20)?.position, 128)
    assert.equal(checkpointPaths(files).length, 2)
  })

  it('give way to the one before when they are damaged, whichever bit is flipped and wherever they are cut', () => {
    const whole = withCheckpoints(64, 4096)
    const path = checkpointPaths(whole)[1]!
    fc.assert(
      fc.property(fc.nat(), fc.boolean(), (pick, cut) => {
        const files = whole.clone(1)
        files.damage(path, (content) => {
          if (cut) return content.subarray(0, pick % content.byteLength)
          content[(pick >> 3) % content.byteLength]! ^= 1 << (pick & 7)
          return content
        })
        const damaged: string[] = []
        const read = readNewestCheckpoint(files, [DIRECTORY], 4096, (name) => damaged.push(name))
        assert.deepEqual(shown(read), { position: 64, content: 'state at 64' })
        assert.deepEqual(damaged, ['checkpoint-0000000000001000.bin'])
      }),
    )
  })

  it('are there whole or not at all when the power fails while one is written, and leave nothing behind', () => {
    fc.assert(
      fc.property(fc.nat(), fc.constantFrom('write', 'sync', 'none'), (seed, fault) => {
        const files = withCheckpoints(64, 4096).clone(seed)
        if (fault !== 'none') files.faults = { [fault]: (path: string) => (path.endsWith('.tmp') ? 'EIO' : null) }
        const write = (): void => writeCheckpoint(files, DIRECTORY, 8192, [contentOf(8192)])
        if (fault === 'none') write()
        else assert.throws(write, { code: 'EIO' })
        files.faults = {}
        files.crash()
        const read = readNewestCheckpoint(files, [DIRECTORY], 1 << 20)
        const expected = fault === 'none' ? 8192 : 4096
        assert.deepEqual(shown(read), { position: expected, content: `state at ${expected}` })
        assert.ok(files.paths().every((path) => !path.endsWith('.tmp')))
      }),
    )
  })
})
