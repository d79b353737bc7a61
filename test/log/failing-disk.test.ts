import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { Arena } from '../../src/pipeline/arena.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

describe('a failing disk', () => {
  for (const [what, faults] of [
    ['fdatasync', { sync: () => 'EIO' }],
    ['write', { write: () => 'EIO' }],
    ['fdatasync of a full disk', { sync: () => 'ENOSPC' }],
  ] as const) {
    it(`that fails one ${what} makes the log read-only: nothing waiting is committed, nothing more is accepted`, async () => {
      const world = new World({ seed: 1 })
      const log = await world.open()
      const writer = openWriter(log)
      const stored = appended(writer, payloadOf(1, 100))
      world.step()
      const states: string[] = []
      log.onStateChange(({ kind }) => states.push(kind))
      const waiting = appended(writer, payloadOf(2, 100))
      world.files.faults = faults
      world.step()
      world.files.faults = {}
      assert.deepEqual(states, ['read-only'])
      assert.match(log.state.kind === 'read-only' ? log.state.code : '', /EIO|ENOSPC/)
      assert.equal(log.committed, stored.end)
      assert.equal(log.outcome(waiting.end, waiting.generation), 'lost')
      assert.equal(append(writer, payloadOf(3, 100), { purpose: 'finish' }), 'read-only')
      world.step()
      assert.equal(log.committed, stored.end)
      await log.close()
      assert.ok((await world.open()).committed >= stored.end, 'opened anew it works')
    })
  }

  it('has given back the space of large external parts before it syncs', async () => {
    const world = new World({ seed: 1 })
    const arena = Arena.create(4 << 20)
    const log = await world.open({ arena: arena.shared, segmentBytes: 8 << 20 })
    const writer = openWriter(log)
    appended(writer, payloadOf(1, 100)) // opens a segment
    world.step()
    const heard: (readonly [state: string, released: number])[] = []
    log.onProgress(() => heard.push([log.state.kind, log.released]))
    world.files.faults = { sync: () => 'EIO' }
    const offset = arena.allocate(4 << 20)
    assert.equal(writer.tryBegin(9, 0, offset, 4 << 20, 'sync', 'admit'), 'ok')
    writer.publish(crc32(arena.bytes))
    world.step()
    assert.deepEqual(heard[0], ['ok', writer.end])
    assert.equal(log.state.kind, 'read-only')
    assert.ok(log.committed < writer.end)
  })

  it('never makes the producer wait: the ring is drained', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    while (typeof append(writer, payloadOf(1, 3000)) !== 'string');
    world.files.faults = { write: () => 'EIO' }
    world.step()
    assert.equal(append(writer, payloadOf(1, 3000)), 'read-only')
  })
})

describe('a disk that fills up', () => {
  it('refuses what is new, still takes what finishes something, and recovers by itself', async () => {
    const world = new World({ seed: 1, capacityBytes: 4 << 20 })
    const log = await world.open({ reserveBytes: 2 << 20, segmentBytes: 1 << 20 })
    const writer = openWriter(log)
    let admitted = 0
    let result = append(writer, payloadOf(1, 16_000))
    for (; typeof result !== 'string'; result = append(writer, payloadOf(1, 16_000))) {
      admitted += 1
      world.step()
    }
    assert.equal(result, 'no-space')
    assert.ok(admitted > 50)
    assert.ok(world.files.freeBytes('/') >= 2 << 20)
    appended(writer, payloadOf(2, 100), { purpose: 'finish' })
    world.step()
    assert.equal(log.state.kind, 'ok')

    const heard: boolean[] = []
    log.onFull((isFull) => heard.push(isFull))
    const look = (): void => {
      world.nowMs += 1000
      world.lanes[0]!.idle()
      for (const tick of world.timers) tick()
    }
    look()
    assert.deepEqual([heard, log.roomFor('admit') < 1 << 20], [[true], true])
    log.dropBefore(log.segments.at(-1)!.base)
    look()
    assert.deepEqual(heard, [true])
    world.files.capacityBytes = 64 << 20
    look()
    assert.deepEqual(heard, [true, false])
    appended(writer, payloadOf(1, 16_000))
    world.step()
    assert.equal(log.state.kind, 'ok')
  })

  it('refuses even what finishes something before a write would fail', async () => {
    const world = new World({ seed: 1, capacityBytes: 4 << 20 })
    const log = await world.open({ reserveBytes: 2 << 20, segmentBytes: 1 << 20 })
    const writer = openWriter(log)
    let result = append(writer, payloadOf(1, 16_000), { purpose: 'finish' })
    while (typeof result !== 'string') {
      world.step()
      result = append(writer, payloadOf(1, 16_000), { purpose: 'finish' })
    }
    assert.equal(result, 'no-space')
    assert.equal(log.state.kind, 'ok')
  })

  it('before anybody looks at its free space: what does not fit is lost, and the log goes on by itself when there is room', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const stored = appended(writer, payloadOf(1, 100))
    world.step()
    const written = appended(writer, payloadOf(2, 100), { durability: 'append' })
    world.step()
    const states: string[] = []
    log.onStateChange(({ kind }) => states.push(kind))
    world.files.faults = { free: () => 0 }
    const waiting = [3, 4].map((n) => appended(writer, payloadOf(n, 5000)))
    world.step()
    assert.equal(append(writer, payloadOf(5, 100)), 'read-only')
    await nextTurn()
    assert.deepEqual(states, ['restarting', 'ok'])
    assert.equal(append(writer, payloadOf(5, 100)), 'no-space')
    for (const { end, generation } of waiting) assert.equal(log.outcome(end, generation), 'lost')

    world.files.faults = {}
    world.nowMs += 1000
    world.lanes[0]!.idle()
    const next = appended(writer, payloadOf(6, 100))
    world.step()
    assert.equal(log.committed, next.end)
    assert.deepEqual(
      replay(log, world.files).frames.map(({ payload }) => payload),
      [stored, written, next].map(({ payload }) => payload),
    )
  })

  for (const code of ['ENOSPC', 'EDQUOT']) {
    it(`though it says that there is room (${code}): takes nothing until room is found, then goes on within what was found`, async () => {
      const world = new World({ seed: 1 })
      const log = await world.open()
      const writer = openWriter(log)
      const stored = appended(writer, payloadOf(1, 100))
      world.step()
      const states: string[] = []
      log.onStateChange(({ kind }) => states.push(kind))
      const pass = async (ms: number): Promise<void> => {
        world.nowMs += ms
        for (const lane of world.lanes) lane.idle()
        for (const tick of world.timers) tick()
        await nextTurn()
      }
      let framesRefused = 0
      const refuses = (path: string): boolean => path.endsWith('.tmp') || framesRefused++ === 0 // recovery overwrites, which needs no space
      world.files.faults = { write: (path) => (refuses(path) ? code : null) }
      const lost = appended(writer, payloadOf(2, 100))
      world.step()
      await nextTurn()
      assert.deepEqual(states, ['restarting', 'ok'])
      assert.equal(log.outcome(lost.end, lost.generation), 'lost')
      for (let ms = 0; ms < 120_000; ms += 250) {
        assert.equal(append(writer, payloadOf(3, 100)), 'no-space')
        assert.equal(append(writer, payloadOf(3, 100), { purpose: 'finish' }), 'no-space')
        await pass(250)
      }
      assert.deepEqual(states, ['restarting', 'ok'], 'it is not tried with what clients send')
      assert.deepEqual(
        world.files.paths().filter((path) => path.endsWith('.tmp')),
        [],
      )

      world.files.faults = {}
      for (let ms = 0; ms < 10_000; ms += 250) await pass(250)
      const next = appended(writer, payloadOf(4, 100))
      world.step()
      assert.equal(log.committed, next.end)
      assert.ok(log.roomFor('admit') < 2 << 20, 'what was found, less the reserve')
      for (let n = 0; n < 500; n += 1) {
        appended(writer, payloadOf(5, 10_000))
        world.step()
        await pass(250)
      }
      assert.deepEqual(states, ['restarting', 'ok'])
      assert.deepEqual(
        replay(log, world.files)
          .frames.slice(0, 2)
          .map(({ payload }) => payload),
        [stored, next].map(({ payload }) => payload),
      )
    })
  }

  it('though it says that there is room: what may be written is kept below what there is', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ reserveBytes: 2 << 20 })
    const writer = openWriter(log)
    const capacityBytes = 8 << 20
    const used = (): number =>
      world.files.paths().reduce((sum, path) => sum + world.files.contentOf(path).byteLength, 0)
    const pass = async (): Promise<void> => {
      world.nowMs += 250
      for (const lane of world.lanes) lane.idle()
      await nextTurn()
    }
    world.files.capacityBytes = capacityBytes // a quota: writes fail although the disk shows free space
    world.files.faults = { shown: 1 << 30 }
    let restarts = 0
    log.onStateChange(({ kind }) => (restarts += kind === 'restarting' ? 1 : 0))
    const fill = async (): Promise<void> => {
      for (let refused = 0; refused < 100;) {
        if (typeof append(writer, payloadOf(1, 16_000)) === 'string') {
          refused += 1
          await pass()
        }
        world.step()
        await nextTurn()
      }
    }
    await fill()
    assert.equal(restarts, 1)
    log.dropBefore(log.segments.at(-1)!.base)
    for (const lane of world.lanes) lane.step()
    world.files.capacityBytes = capacityBytes + (4 << 20)
    await fill()
    assert.equal(restarts, 1, 'its word is not believed again')
    assert.ok(world.files.capacityBytes - used() > 1 << 20, 'the reserve is kept')
    appended(writer, payloadOf(2, 100), { purpose: 'finish' })
    world.step()
    assert.equal(restarts, 1)
  })

  it('which does not say how much room there is: counts as full, not as a thread that died', async (t) => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const reasons: string[] = []
    log.onStateChange((state) => {
      if (state.kind === 'restarting') reasons.push(state.message)
    })
    world.files.faults = { write: (path) => (path.endsWith('/records.log') ? 'ENOSPC' : null) }
    const freeBytes = t.mock.method(world.files, 'freeBytes', () => {
      throw Object.assign(new Error('the test fails statfs'), { code: 'EIO' })
    })
    appended(writer, payloadOf(1, 100))
    world.step()
    freeBytes.mock.restore()
    assert.equal(reasons.length, 1)
    assert.match(reasons[0]!, /ENOSPC/)
  })

  it('though it says that there is room, also when room was found: is tried less and less often', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    world.files.faults = { write: (path) => (path.endsWith('/records.log') ? 'ENOSPC' : null) }
    const restartedMs: number[] = []
    log.onStateChange(({ kind }) => {
      if (kind === 'restarting') restartedMs.push(world.nowMs)
    })
    while (world.nowMs < 600_000) {
      append(writer, payloadOf(1, 100))
      world.step()
      await nextTurn()
      world.nowMs += 250
      for (const lane of world.lanes) lane.idle()
    }
    assert.equal(log.state.kind, 'ok')
    assert.ok(restartedMs.length >= 10 && restartedMs.length <= 30, `${restartedMs.length} restarts`)
    assert.ok(restartedMs.at(-1)! - restartedMs.at(-2)! >= 30_000)
  })

  it('while it is recovered in place: the recovery is tried again until there is room', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const stored = appended(writer, payloadOf(1, 100))
    world.step()
    world.files.faults = { write: () => 'EDQUOT', free: () => 0 }
    appended(writer, payloadOf(2, 100))
    world.step()
    for (let n = 0; n < 10; n += 1) {
      await nextTurn()
      assert.notEqual(log.state.kind, 'read-only')
      for (const tick of Array.from(world.timers)) tick()
    }
    world.files.faults = {}
    for (const tick of Array.from(world.timers)) tick()
    await nextTurn()
    assert.equal(log.state.kind, 'ok')
    assert.equal(log.committed, stored.end)
  })
})
