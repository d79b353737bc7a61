import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import { lockDirectory, lockToRead } from '../../src/log/lock.ts'
import { temporaryDirectory } from '../support/directories.ts'

const LOCKED = { code: 'data_directory_locked' }

describe('the lock of a data directory', () => {
  it('is shared by readers, who write nothing', async () => {
    const directory = temporaryDirectory()
    const readers = [await lockToRead(directory), await lockToRead(directory)]
    assert.deepEqual(readdirSync(directory), [])
    for (const reader of readers) await reader.release()
  })

  it('makes no directory: one that is gone is not hidden by a new one', async () => {
    const directory = `${temporaryDirectory()}/gone`
    await assert.rejects(lockDirectory(directory), { code: 'ENOENT' })
    assert(!existsSync(directory))
  })

  it('keeps a writer out while somebody reads, and readers while somebody writes', async () => {
    const directory = temporaryDirectory()
    const reader = await lockToRead(directory)
    await assert.rejects(lockDirectory(directory), LOCKED)
    await reader.release()
    const writer = await lockDirectory(directory)
    await assert.rejects(lockToRead(directory), LOCKED)
    await assert.rejects(lockDirectory(directory), LOCKED)
    await writer.release()
    await (await lockToRead(directory)).release()
  })
})
