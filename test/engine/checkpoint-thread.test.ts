import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CheckpointThread } from '../../src/engine/checkpoint-thread.ts'
import { readNewestCheckpoint } from '../support/checkpoints.ts'
import { SimFiles } from '../support/sim-files.ts'

const DIRECTORIES = ['/primary', '/one', '/two'] as const

class World {
  readonly files = new SimFiles({ seed: 1 })
  readonly thread = new CheckpointThread(this.files)

  constructor() {
    for (const directory of DIRECTORIES) this.files.makeDirectory(directory)
  }

  begin(position: number): void {
    this.thread.run({ kind: 'begin', directories: DIRECTORIES, position })
    this.thread.run({ kind: 'part', bytes: Uint8Array.of(position) })
  }

  write(position: number): void {
    this.begin(position)
    this.thread.run({ kind: 'end' })
  }

  newest(): (number | undefined)[] {
    return DIRECTORIES.map((directory) => readNewestCheckpoint(this.files, [directory], 1000)?.position)
  }
}

describe('the thread that writes checkpoints into several directories', () => {
  it('writes one after the other', () => {
    const world = new World()
    for (const position of [8, 16, 24]) {
      world.write(position)
      assert.deepEqual(world.newest(), [position, position, position])
    }
  })

  it('gives up one that was begun, and leaves nothing of it', () => {
    const world = new World()
    world.begin(8)
    world.write(16)
    assert.deepEqual(world.newest(), [16, 16, 16])
    for (const directory of DIRECTORIES) assert.equal(world.files.list(directory)!.length, 1)
  })

  it('goes on without a directory that fails, and takes it again for the next one', () => {
    const world = new World()
    world.files.faults = { write: (path) => (path.startsWith('/one/') ? 'EIO' : null) }
    world.write(8)
    world.files.faults = {}
    assert.deepEqual(world.newest(), [8, undefined, 8])
    world.write(16)
    assert.deepEqual(world.newest(), [16, 16, 16])
  })

  it('throws what the primary one meets, and begins anew', () => {
    const world = new World()
    world.files.faults = { sync: (path) => (path.startsWith('/primary/') ? 'EIO' : null) }
    assert.throws(() => world.write(8), { code: 'EIO' })
    world.files.faults = {}
    world.write(16)
    assert.deepEqual(world.newest(), [16, 16, 16])
  })
})
