import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, it } from 'node:test'
import { nodeFiles } from '../../src/log/node-files.ts'
import { probeDisk } from '../../src/objectstore/platform.ts'

describe('what a disk can do', () => {
  it('is tried, and leaves nothing behind', (context) => {
    const directory = mkdtempSync(`${tmpdir()}/trilog-test-`)
    context.after(() => rmSync(directory, { recursive: true }))
    const { device, atomicRename, flushBehavior } = probeDisk(directory)
    assert.match(device, /^\d+:\d+/)
    assert.deepEqual([atomicRename, flushBehavior], [true, 'fdatasync before every answer'])
    assert.deepEqual(readdirSync(directory), [])
    assert(nodeFiles.freeBytes(directory) > 0)
  })

  it('is not known where nothing can be written', () => {
    const { atomicRename, flushBehavior, directIo } = probeDisk('/proc') // no user can create files there, not even root
    assert.deepEqual([atomicRename, directIo], [false, false])
    assert.match(flushBehavior, /^unknown: /)
  })
})
