import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { readFrame } from '../../src/log/read.ts'
import { Arena } from '../../src/pipeline/arena.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'

describe('an append', () => {
  it('is committed when its group was synced, and main is woken once for the group', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    let wakes = 0
    log.onProgress(() => (wakes += 1))
    const group = [1, 2, 3].map((n) => appended(writer, payloadOf(n, 100)))
    assert.equal(log.committed, 0)
    world.step()
    assert.equal(log.committed, group.at(-1)!.end)
    assert.equal(wakes, 1)
    assert.deepEqual([log.counters().groups, log.counters().bytes], [1, log.committed - 64])
  })

  it('of class append is written and not synced until something needs it', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const { end } = appended(openWriter(log), payloadOf(1, 100), { durability: 'append' })
    const syncs = () => log.counters().syncs
    world.step()
    assert.equal(log.written, end)
    assert.equal(syncs(), 0)
    assert.ok(log.committed < end)
    await log.close()
    assert.ok(syncs() > 0)
    assert.equal(log.committed, end)
  })

  it('takes its external part from the arena, and reads back as one payload', async () => {
    const world = new World({ seed: 1 })
    const arena = Arena.create(1 << 20)
    const log = await world.open({ arena: arena.shared, segmentBytes: 1 << 20 })
    const writer = openWriter(log)
    const parts = [payloadOf(1, 20_000), payloadOf(2, 33_333)]
    const offset = arena.allocate(parts[1]!.byteLength)
    parts[1]!.copy(arena.bytes, offset)
    assert.equal(writer.tryBegin(9, parts[0]!.byteLength, offset, parts[1]!.byteLength, 'sync', 'admit', 5), 'ok')
    parts[0]!.copy(writer.bytes, writer.inlineOffset)
    const payload = Buffer.concat(parts)
    writer.publish(crc32(payload))
    const { segmentBase, segmentOffset, end, opensSegment } = writer
    const second = appended(writer, payloadOf(3, 5))
    assert.equal(log.released, 0)
    world.step()
    assert.equal(log.released, second.end)
    assert.ok(opensSegment && end === second.position)

    const file = world.files.open(log.segments[0]!.recordsPath, 'read')
    for (const expectBytes of [0, 4096, 100_000]) {
      const read = readFrame(file, log.id, segmentBase, segmentOffset, expectBytes)
      assert.ok(read.kind === 'frame')
      assert.ok(read.frame.payload.equals(payload))
      assert.deepEqual([read.frame.type, read.frame.flags], [9, 5])
    }
    assert.equal(readFrame(file, log.id, segmentBase, segmentOffset + 8).kind, 'corrupt')
    assert.equal(readFrame(file, log.id, segmentBase, 1 << 19).kind, 'none')
  })

  it('that finds the ring full is told so, and succeeds after the lane took what was there', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const stored: Buffer[] = []
    let result = append(writer, payloadOf(0, 3000))
    for (let n = 1; typeof result !== 'string'; n += 1) {
      stored.push(result.payload)
      result = append(writer, payloadOf(n, 3000))
    }
    assert.equal(result, 'full')
    assert.ok(stored.length > 10)
    world.step()
    stored.push(appended(writer, payloadOf(77, 3000)).payload)
    world.step()
    assert.deepEqual(
      replay(log, world.files).frames.map(({ payload }) => payload),
      stored,
    )
  })

  it('after the producer died is made by a writer attached anew, right behind what the first one published', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const first = appended(openWriter(log), payloadOf(1, 100))
    await log.recoverProducer()
    const second = appended(openWriter(log), payloadOf(2, 100))
    world.step()
    assert.equal(second.position, first.end)
    assert.equal(log.committed, second.end)
  })
})

describe('segments', () => {
  it('are rotated by size; sealed ones are reported and dropped from the front', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ segmentBytes: 4096 })
    const writer = openWriter(log)
    const sealed: number[] = []
    log.onSealed((segment) => sealed.push(segment.base))
    for (let n = 0; n < 20; n += 1) appended(writer, payloadOf(n, 1000))
    world.step()
    const before = log.segments
    assert.ok(before.length > 4)
    assert.deepEqual(
      sealed,
      before.slice(0, -1).map(({ base }) => base),
    )
    for (const segment of before) assert.ok(segment.end - segment.base + 64 <= 4096)

    log.dropBefore(before[2]!.base)
    assert.deepEqual(log.segments, before.slice(2))
    assert.equal(world.files.exists(before[0]!.directory), false)
    await log.close()
    const reopened = await world.open({ segmentBytes: 4096 })
    assert.deepEqual(
      reopened.segments.map(({ base, end, sealed: isSealed }) => ({ base, end, isSealed })),
      before.slice(2).map(({ base, end, sealed: isSealed }) => ({ base, end, isSealed })),
    )
    assert.deepEqual(reopened.incidents, [])
  })

  it('are sealed in the group that has their last frame, and that is committed', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const { end } = appended(writer, payloadOf(1, 10))
    writer.rotate()
    world.step()
    assert.deepEqual([log.state.kind, log.committed, log.segments[0]!.sealed], ['ok', end, true])
  })

  it('are sealed on request, also when nothing more is appended', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    appended(writer, payloadOf(1, 10))
    world.step()
    log.seal()
    writer.poll()
    world.step()
    assert.deepEqual(
      log.segments.map(({ sealed }) => sealed),
      [true],
    )
    log.seal()
    const next = appended(writer, payloadOf(2, 10))
    world.step()
    assert.equal(log.segments.length, 2)
    assert.equal(next.position, log.segments[1]!.base + 64)
  })

  it('are not written in advance again at once where the disk refused one', async () => {
    const world = new World({ seed: 1 })
    let asked = 0
    const environment = {
      ...world.environment,
      prepareFile: async () => {
        asked += 1
        throw Object.assign(new Error('EDQUOT'), { code: 'EDQUOT' })
      },
    }
    const log = await world.open({ segmentBytes: 8192, reserveBytes: 0, environment })
    const writer = openWriter(log)
    const askedAfter = async (): Promise<number> => {
      appended(writer, payloadOf(1, 3000))
      world.step()
      for (const tick of world.timers) tick()
      await new Promise(setImmediate)
      return asked
    }
    assert.deepEqual([await askedAfter(), await askedAfter()], [1, 1])
    for (let n = 0; n < 4; n += 1) await askedAfter()
    assert.equal(asked, 2, 'once for each segment')
  })

  it('take over the file of a dropped one, or one written in advance while little is appended', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ segmentBytes: 8192, reserveBytes: 0 })
    const writer = openWriter(log)
    const spares = () => world.files.list('/data/segments')!.filter((name) => name.startsWith('spare'))
    const written = Array.from({ length: 4 }, (_, n) => appended(writer, payloadOf(n, 1000)))
    world.step()
    for (const tick of world.timers) tick()
    assert.deepEqual(spares(), ['spare-0.log'])
    for (let n = 4; n < 20; n += 1) {
      written.push(appended(writer, payloadOf(n, 1000)))
      world.step()
    }
    assert.deepEqual(spares(), [])
    log.dropBefore(log.segments[1]!.base)
    assert.deepEqual(spares(), ['spare-0.log'])
    for (let n = 20; n < 26; n += 1) written.push(appended(writer, payloadOf(n, 1000)))
    world.step()
    assert.deepEqual(spares(), [])
    world.end('kill')

    const reopened = await world.open({ segmentBytes: 8192 })
    assert.deepEqual([reopened.incidents, reopened.tornTail], [[], null])
    const first = reopened.segments[0]!.base
    assert.deepEqual(
      replay(reopened, world.files).frames.map(({ payload }) => payload),
      written.filter(({ position }) => position > first).map(({ payload }) => payload),
    )
  })

  it('hold a frame longer than the segment size, alone', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ segmentBytes: 2048 })
    const writer = openWriter(log)
    for (const bytes of [10, 20_000, 10]) appended(writer, payloadOf(bytes, bytes))
    world.step()
    assert.equal(log.segments.length, 3)
    assert.equal(replay(log, world.files).frames.length, 3)
  })
})

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
    appended(writer, payloadOf(1, 100)) // opens the segment
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
    await new Promise(setImmediate)
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
        await new Promise(setImmediate)
      }
      let framesRefused = 0
      const refuses = (path: string): boolean => path.endsWith('.tmp') || framesRefused++ === 0 // recovery overwrites, which takes no room
      world.files.faults = { write: (path) => (refuses(path) ? code : null) }
      const lost = appended(writer, payloadOf(2, 100))
      world.step()
      await new Promise(setImmediate)
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
      await new Promise(setImmediate)
    }
    world.files.capacityBytes = capacityBytes // a quota
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
        await new Promise(setImmediate)
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
      await new Promise(setImmediate)
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
      await new Promise(setImmediate)
      assert.notEqual(log.state.kind, 'read-only')
      for (const tick of Array.from(world.timers)) tick()
    }
    world.files.faults = {}
    for (const tick of Array.from(world.timers)) tick()
    await new Promise(setImmediate)
    assert.equal(log.state.kind, 'ok')
    assert.equal(log.committed, stored.end)
  })
})

describe('a journal lane that dies', () => {
  it('is replaced: what was written before is kept, what was waiting is lost, and positions are given again', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const written = appended(writer, payloadOf(1, 100), { durability: 'append' })
    world.step()
    const waiting = appended(writer, payloadOf(2, 100))
    const states: string[] = []
    log.onStateChange(({ kind }) => states.push(kind))
    world.lanes[0]!.die()
    assert.equal(append(writer, payloadOf(3, 100)), 'read-only')
    await new Promise(setImmediate)
    assert.deepEqual(states, ['restarting', 'ok'])

    const next = appended(writer, payloadOf(4, 100))
    assert.equal(next.position, waiting.position)
    world.step()
    assert.deepEqual(
      [written, waiting, next].map((frame) => log.outcome(frame.end, frame.generation)),
      ['stored', 'lost', 'stored'],
    )
    assert.deepEqual(
      replay(log, world.files).frames.map(({ payload }) => payload),
      [written.payload, next.payload],
    )
  })

  it('is not heard any more when its word comes late', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    const writer = openWriter(log)
    const first = appended(writer, payloadOf(1, 100))
    world.step()
    const [lane] = world.lanes
    lane!.die()
    await new Promise(setImmediate)
    const before = log.segments
    lane!.say({ kind: 'sealed', base: 0, end: first.end })
    lane!.say({ kind: 'opened', base: 4096 })
    assert.deepEqual(log.segments, before)
    lane!.say({ kind: 'failed', code: 'EIO', message: 'late', isFull: false, showsRoom: false })
    assert.equal(log.state.kind, 'ok')
  })

  it('again and again makes the log read-only', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open()
    for (let death = 0; death < 6; death += 1) {
      world.lanes[0]!.die()
      await new Promise(setImmediate)
    }
    assert.equal(log.state.kind, 'read-only')
  })
})
