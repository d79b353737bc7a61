import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreError } from '../../src/errors.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

const REPLICAS = ['/replica-1', '/replica-2']
const OPTIONS = { replicas: REPLICAS, writeQuorum: 2 }

/** Some time passes without a write. */
function idle(world: World): void {
  world.nowMs += 1000
  for (const lane of world.lanes) lane?.idle()
  for (const tick of world.timers) tick()
}

describe('a log whose replica directories vanish while it is open', () => {
  it('names the first while it goes on, though nothing is written', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    appended(openWriter(log), payloadOf(1, 100))
    world.step()
    world.files.removeDirectory('/replica-2')
    idle(world)
    assert.equal(log.state.kind, 'degraded')
    assert.deepEqual(
      log.lostReplicas.map(({ directory }) => directory),
      ['/replica-2'],
    )
    assert.match(log.lostReplicas[0]!.reason, /is gone/)
  })

  it('is read-only after the second, for that reason: the disk is not full', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    let isSaidFull = false
    log.onFull((isFull) => (isSaidFull = isFull))
    const writer = openWriter(log)
    appended(writer, payloadOf(1, 100))
    world.step()
    for (const directory of REPLICAS) {
      world.files.removeDirectory(directory)
      idle(world)
    }
    idle(world)
    assert.equal(append(writer, payloadOf(2, 100)), 'read-only')
    assert.equal(log.state.kind, 'read-only')
    const message = log.state.kind === 'read-only' ? log.state.message : ''
    for (const text of ['1 of 3', 'quorum is 2', ...REPLICAS]) assert(message.includes(text), message)
    assert.equal(isSaidFull, false)
  })
})

describe('a log that opens', () => {
  /** A closed log whose replica directories in `unusable` are gone and cannot be created. */
  async function withUnusable(unusable: readonly string[]): Promise<World> {
    const world = new World({ seed: 2 })
    const log = await world.open(OPTIONS)
    appended(openWriter(log), payloadOf(1, 100))
    world.step()
    await log.close()
    world.end('kill')
    const { files } = world
    const makeDirectory = files.makeDirectory.bind(files)
    for (const directory of unusable) files.removeDirectory(directory)
    files.makeDirectory = (path) => {
      if (unusable.includes(path)) throw Object.assign(new Error(`EACCES: ${path}`), { code: 'EACCES' })
      makeDirectory(path)
    }
    return world
  }

  it('does so without a replica that cannot be used, names it, and keeps what it is given', async () => {
    const world = await withUnusable(['/replica-1'])
    const log = await world.open(OPTIONS)
    assert.equal(log.state.kind, 'degraded')
    assert.deepEqual(
      log.lostReplicas.map(({ directory }) => directory),
      ['/replica-1'],
    )
    assert.match(log.lostReplicas[0]!.reason, /EACCES/)
    const { end } = appended(openWriter(log), payloadOf(2, 100))
    for (const lane of world.lanes) lane?.step()
    assert.equal(log.committed, end)
    assert.equal(replay(log, world.files).frames.length, 2)
  })

  it('is refused without a quorum of directories, and names those that cannot be used', async () => {
    const world = await withUnusable(REPLICAS)
    await assert.rejects(world.open(OPTIONS), (error: unknown) => {
      assert(error instanceof StoreError)
      assert.equal(error.code, 'log_quorum_unavailable')
      for (const directory of REPLICAS) assert(error.message.includes(directory), error.message)
      return true
    })
  })

  it('does not take the directory in when it restarts in place', async () => {
    const world = await withUnusable(['/replica-1'])
    const log = await world.open(OPTIONS)
    world.lanes[0]!.die()
    await nextTurn()
    assert.deepEqual([log.state.kind, log.lostReplicas.length], ['degraded', 1])
  })

  it('says which directories it makes anew', async () => {
    const world = new World({ seed: 3 })
    const remade: string[] = []
    const options = { ...OPTIONS, onRemade: (directory: string) => void remade.push(directory) }
    const log = await world.open(options)
    assert.deepEqual(remade, [], 'all of them are new')
    appended(openWriter(log), payloadOf(1, 100))
    world.step()
    await log.close()
    world.end('kill')
    world.files.removeDirectory('/replica-2')
    assert.equal((await world.open(options)).state.kind, 'ok')
    assert.deepEqual(remade, ['/replica-2'])
  })

  it('brings the oldest segment back that one directory lost, and has no incident', async () => {
    for (const lost of ['/data', '/replica-1']) {
      const world = new World({ seed: 4 })
      const small = { ...OPTIONS, segmentBytes: 4096 }
      const log = await world.open(small)
      const writer = openWriter(log)
      for (let n = 0; n < 20; n += 1) {
        appended(writer, payloadOf(n, 700))
        world.step()
      }
      await log.close()
      world.end('kill')
      world.files.removeDirectory(log.segments[0]!.directory.replace('/data', lost))
      const again = await world.open(small)
      assert.deepEqual([again.state.kind, again.incidents], ['ok', []])
      assert.equal(replay(again, world.files).frames.length, 20)
      assert(world.files.exists(log.segments[0]!.recordsPath.replace('/data', lost)))
    }
  })
})
