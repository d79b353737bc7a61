import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { readFrame } from '../../src/log/read.ts'
import { Arena } from '../../src/pipeline/arena.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

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

  it('are dropped though a sidecar is written there meanwhile: the log goes on, and what is left goes at the next start', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ segmentBytes: 4096 })
    const writer = openWriter(log)
    for (let n = 0; n < 20; n += 1) appended(writer, payloadOf(n, 1000))
    world.step()
    const dropped = () => world.files.list('/data/segments')!.filter((name) => name.startsWith('dropped-'))
    world.files.faults = { fills: (path) => path.includes('/dropped-') }
    log.dropBefore(log.segments[1]!.base)
    world.files.faults = {}
    assert.equal(dropped().length, 1)
    const stored = appended(writer, payloadOf(20, 1000))
    world.step()
    assert.deepEqual([log.state.kind, log.committed], ['ok', stored.end])
    await log.close()
    const reopened = await world.open({ segmentBytes: 4096 })
    assert.deepEqual([dropped(), reopened.incidents], [[], []])
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
      await nextTurn()
      return asked
    }
    assert.deepEqual([await askedAfter(), await askedAfter()], [1, 1])
    for (let n = 0; n < 4; n += 1) await askedAfter()
    assert.equal(asked, 2, 'once for each segment')
  })

  it('give their space back when they go, though a reader has their files open', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ segmentBytes: 8192, reserveBytes: 0 })
    const writer = openWriter(log)
    for (let n = 0; n < 30; n += 1) {
      appended(writer, payloadOf(n, 1000))
      world.step()
    }
    const held = log.segments.map(({ recordsPath }) => world.files.open(recordsPath, 'read'))
    assert(held.length > 4)
    log.dropBefore(log.segments.at(-1)!.base)
    const kept = world.files.list('/data/segments')!.filter((name) => name.startsWith('spare'))
    const isEmpty = held.map((file) => file.size() === 0)
    assert.equal(isEmpty.filter((each) => !each).length, kept.length + 1, 'but for spares, and the segment that stays')
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
    await nextTurn()
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
    await nextTurn()
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
      await nextTurn()
    }
    assert.equal(log.state.kind, 'read-only')
  })

  for (const count of [1, 60]) {
    it(`for the last time leaves a log that shows all that is stored when it says so: ${count} frames that main did not hear of`, async () => {
      const world = new World({ seed: 1 })
      const log = await world.open()
      const writer = openWriter(log)
      for (let death = 0; death < 5; death += 1) {
        world.lanes[0]!.die()
        await nextTurn()
      }
      const frames = Array.from({ length: count }, (_, n) => appended(writer, payloadOf(n, 300)))
      const seen: number[] = []
      log.onStateChange(({ kind }) => {
        if (kind === 'read-only') seen.push(replay(log, world.files).frames.length)
      })
      const lane = world.lanes[0]!
      lane.stepWithoutNotice()
      lane.vanish()
      lane.die()
      await nextTurn()
      assert.deepEqual(
        frames.map((frame) => log.outcome(frame.end, frame.generation)),
        frames.map(() => 'stored'),
      )
      assert.deepEqual(seen, [count])
    })
  }
})
