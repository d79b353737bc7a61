/** Folders of a data directory that belong to no log: what a file system keeps where it is mounted, and an unfinished copy of another node's log. */
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { Files } from '../../src/log/files.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import { backUp } from '../../src/maintenance/backup.ts'
import { openDirectoryTarget } from '../../src/maintenance/directory-target.ts'
import { inspect } from '../../src/maintenance/inspect.ts'
import { restore } from '../../src/maintenance/restore.ts'
import { World, appended, openWriter, payloadOf } from '../support/log-harness.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { MemoryTarget } from '../support/memory-target.ts'
import type { SimFiles } from '../support/sim-files.ts'

/** A data directory with two logs, each in a folder of its own. */
async function stored(): Promise<World> {
  const world = new World({ seed: 1 })
  world.files.makeDirectory('/data')
  for (const directory of ['/data/broker', '/data/objectstore']) {
    const log = await world.open({ directory })
    appended(openWriter(log), payloadOf(1, 100))
    world.step()
    await log.close()
  }
  return world
}

/** Files of a process that may not read these directories. */
const withoutAccess = (files: SimFiles, ...directories: readonly string[]): Files =>
  new Proxy(files, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown
      if (typeof member !== 'function') return member
      return (...given: unknown[]) => {
        const isRefused = name === 'list' && directories.some((directory) => directory === given[0])
        if (isRefused) throw Object.assign(new Error(`scandir '${String(given[0])}'`), { code: 'EACCES' })
        return (member as (...given: unknown[]) => unknown).apply(target, given)
      }
    },
  })

async function placesOfBackup(files: Files, target: MemoryTarget, dataDirectory = '/data'): Promise<readonly string[]> {
  const options = { files, dataDirectory, replicas: [], target, keep: null, isLocked: true }
  const { snapshot } = await backUp({ ...options, nowMs: () => 0, pace: () => {} })
  return snapshot.logs.map(({ place }) => place)
}

describe('a data directory where a file system is mounted', () => {
  it('is backed up and inspected by a user who may not read lost+found', async () => {
    const { files } = await stored()
    for (const path of ['/data/lost+found', '/data/broker/lost+found']) files.makeDirectory(path)
    const seen = withoutAccess(files, '/data/lost+found', '/data/broker/lost+found')
    assert.deepEqual(await placesOfBackup(seen, new MemoryTarget()), ['broker', 'objectstore'])
    assert.deepEqual(await placesOfBackup(seen, new MemoryTarget(), '/data/broker'), [''])
    const inspected = inspect(seen, '/data')
    assert.deepEqual(
      inspected.map(({ place, problems }) => [place, problems]),
      [
        ['broker', []],
        ['objectstore', []],
      ],
    )
  })

  it('is refused to a user who may not read the folder of a service', async () => {
    const { files } = await stored()
    await assert.rejects(placesOfBackup(withoutAccess(files, '/data/broker'), new MemoryTarget()), /scandir/)
  })

  it('counts as empty for a restore and a first backup when it has nothing but lost+found', async () => {
    const { files } = await stored()
    const target = new MemoryTarget()
    await placesOfBackup(files, target)
    files.makeDirectory('/mounted')
    files.makeDirectory('/mounted/lost+found')
    const options = { files, target, dataDirectory: '/mounted', place: null, sequence: null, position: null }
    assert.equal((await restore(options)).length, 2)
    const place = temporaryDirectory()
    mkdirSync(`${place}/lost+found`)
    await (await openDirectoryTarget(nodeFiles, place, 'create')).close()
  })
})

describe('a data directory with an unfinished copy of the log of another node', () => {
  it('is backed up and inspected without that copy', async () => {
    const { files } = await stored()
    for (const path of ['catch-up', 'catch-up/segments', 'catch-up/segments/0000000000000000'])
      files.makeDirectory(`/data/broker/${path}`)
    files.create('/data/broker/catch-up/segments/0000000000000000/records.log').close()
    assert.deepEqual(await placesOfBackup(files, new MemoryTarget()), ['broker', 'objectstore'])
    assert.deepEqual(await placesOfBackup(files, new MemoryTarget(), '/data/broker'), [''])
    assert.deepEqual(
      inspect(files, '/data').map(({ place, problems }) => [place, problems]),
      [
        ['broker', []],
        ['objectstore', []],
      ],
    )
  })
})
