import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { StoreError } from '../../src/errors.ts'
import type { Log } from '../../src/log/log.ts'
import { World, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'

/** Three sealed segments and an active one, in a log that was closed. */
async function closedLog(): Promise<{ world: World; written: Written[] }> {
  const world = new World({ seed: 7 })
  const log = await world.open({ segmentBytes: 4096 })
  const writer = openWriter(log)
  const written: Written[] = []
  for (let n = 0; n < 24; n += 1) {
    written.push(appended(writer, payloadOf(n, 300 + n * 11)))
    if (n % 3 === 0) world.step()
  }
  world.step()
  await log.close()
  world.end('kill')
  return { world, written }
}

async function reopen(world: World, seed: number): Promise<{ world: World; log: Log | StoreError }> {
  const copy = new World({ seed })
  copy.files = world.files
  try {
    return { world: copy, log: await copy.open({ segmentBytes: 4096 }) }
  } catch (error) {
    if (error instanceof StoreError) return { world: copy, log: error }
    throw error
  }
}

describe('a stored log with one bit flipped', () => {
  it('opens with everything else served and the damage reported, or is refused with a message', async () => {
    const { world, written } = await closedLog()
    const paths = world.files.paths()
    assert.ok(paths.filter((path) => path.endsWith('records.log')).length >= 4)
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...paths), fc.nat(), async (path, at) => {
        const damaged = new World({ seed: 1 })
        damaged.files = world.files.clone(1)
        let flippedAt = 0
        damaged.files.damage(path, (content) => {
          const bit = at % (content.byteLength * 8)
          flippedAt = bit >> 3
          content[flippedAt]! ^= 1 << (bit & 7)
          return content
        })
        const base = path.endsWith('records.log') ? Number.parseInt(path.split('/').at(-2)!, 16) : -Infinity
        const isHit = (frame: Written) => frame.position <= base + flippedAt && base + flippedAt < frame.end

        for (let start = 0; start < 3; start += 1) {
          const { log, world: opened } = await reopen(damaged, start)
          if (log instanceof StoreError) return
          const { frames, damage } = replay(log, opened.files)
          const expected = written.filter((frame) => !isHit(frame))
          assert.deepEqual(
            frames.filter((frame) => !isHit(frame)).map(({ position, payload }) => ({ position, payload })),
            expected.map(({ position, payload }) => ({ position, payload })),
          )
          for (const frame of frames) {
            const original = written.find(({ position }) => position === frame.position)
            assert.ok(original?.payload.equals(frame.payload), 'never a wrong payload')
          }
          if (frames.length < written.length) {
            assert.ok(damage.length > 0 || log.incidents.length > 0, 'a frame is missing without a word')
          }
          await log.close()
        }
      }),
      { numRuns: 400, includeErrorInReport: true },
    )
  })

  it('goes on behind the damage: what is appended afterwards is kept', async () => {
    const { world, written } = await closedLog()
    const last = written.at(-1)!
    const path = world.files.paths().findLast((name) => name.endsWith('records.log'))!
    const base = Number.parseInt(path.split('/').at(-2)!, 16)
    world.files.damage(path, (content) => {
      content[last.position - base + 60]! ^= 1
      return content
    })

    const first = await reopen(world, 1)
    assert.ok(first.log instanceof Object && !(first.log instanceof StoreError))
    const [incident] = first.log.incidents
    assert.deepEqual(
      [incident?.from, incident?.to, incident?.reason],
      [last.position, last.end, 'payload checksum'],
      'the last frame was durable, so it is damage and not a torn tail',
    )
    const added = appended(openWriter(first.log), payloadOf(99, 100))
    first.world.step()
    assert.ok(added.position >= last.end, 'positions are not given twice')
    assert.ok(first.log.committed >= added.end)
    await first.log.close()

    const second = await reopen(world, 2)
    assert.ok(!(second.log instanceof StoreError))
    assert.equal(second.log.incidents.length, 1, 'the incident is reported at every start')
    assert.deepEqual(replay(second.log, world.files).frames.at(-1)?.payload, added.payload)
  })
})

describe('damage in the middle of what was durable', () => {
  it('is an incident although good frames stand behind it, and a torn tail is cut without one', async () => {
    const world = new World({ seed: 3 })
    const log = await world.open({ segmentBytes: 1 << 20 })
    const writer = openWriter(log)
    const [first, second] = [0, 1].map((n) => {
      const written = appended(writer, payloadOf(n, 1000))
      world.step()
      return written
    })
    const third = appended(writer, payloadOf(2, 1000)) // names the second frame as durable
    world.step()
    const unsynced = appended(writer, payloadOf(3, 1000), { durability: 'append' })
    world.step()
    const { recordsPath } = log.segments[0]!
    world.end('kill')
    world.files.damage(recordsPath, (content) => {
      content.fill(0, second!.position, second!.position + 48)
      content.fill(0, unsynced.position + 512, unsynced.end)
      return content
    })

    const reopened = await world.open({ segmentBytes: 1 << 20 })
    assert.deepEqual(
      replay(reopened, world.files).frames.map(({ position }) => position),
      [first!.position, third.position],
    )
    assert.deepEqual(
      reopened.incidents.map(({ from, to }) => [from, to]),
      [[second!.position, second!.end]],
    )
    assert.equal(reopened.tornTail?.from, unsynced.position)
    assert.equal(reopened.committed, unsynced.position)
  })

  it('that a reader finds later is reported once, and again after a restart', async () => {
    const { world, written } = await closedLog()
    const { log } = await reopen(world, 1)
    assert.ok(!(log instanceof StoreError))
    const segment = log.segments[0]!
    const range = { from: written[0]!.position, to: written[0]!.end, reason: 'payload checksum' }
    log.reportDamage(segment, range)
    log.reportDamage(segment, range)
    assert.deepEqual(log.incidents, [{ segmentBase: 0, ...range }])
    await log.close()
    const again = await reopen(world, 2)
    assert.ok(!(again.log instanceof StoreError))
    assert.deepEqual(again.log.incidents, [{ segmentBase: 0, ...range }])
  })
})

describe('a log directory', () => {
  const opened = (change: (world: World) => void) => async () => {
    const { world } = await closedLog()
    change(world)
    return world.open()
  }

  it('of a newer format is refused with a message that says so', async () => {
    const newer = opened(({ files }) =>
      files.damage('/data/FORMAT', () => {
        const checksum = crc32('trilog-log 2 0000000a').toString(16).padStart(8, '0')
        return Buffer.from(`{"format":"trilog-log","version":2,"id":"0000000a","crc32":"${checksum}","more":1}`)
      }),
    )
    await assert.rejects(newer, { code: 'log_format_newer', message: /newer version.*upgrade/ })
  })

  it('with an unreadable FORMAT is refused', async () => {
    const unreadable = opened(({ files }) => files.damage('/data/FORMAT', () => Buffer.from('{')))
    await assert.rejects(unreadable, { code: 'log_format_unreadable' })
  })

  it('with segments and without FORMAT is refused', async () => {
    await assert.rejects(
      opened(({ files }) => files.removeFile('/data/FORMAT')),
      { code: 'log_format_missing' },
    )
  })

  it('whose segments are not where this service has them is refused: it may be of another one', async () => {
    await assert.rejects(
      opened(({ files }) => files.rename('/data/segments', '/data/wal')),
      { code: 'log_segments_missing', message: /another service/ },
    )
  })

  it('whose middle segment is gone opens and reports the missing range', async () => {
    const { world } = await closedLog()
    const [, gone, next] = world.files.list('/data/segments')!
    world.files.removeDirectory(`/data/segments/${gone!}`)
    const log = await world.open()
    const [from, to] = [gone!, next!].map((name) => Number.parseInt(name, 16))
    assert.deepEqual(
      log.incidents.map((incident) => [incident.from, incident.to]),
      [[from, to]],
    )
  })

  it('with an empty file, or an empty directory, for its newest segment opens as if that had not begun', async () => {
    for (const withFile of [true, false]) {
      const { world, written } = await closedLog()
      const log = await world.open()
      const next = (log.segments.at(-1)!.end + 64).toString(16).padStart(16, '0')
      openWriter(log).rotate()
      world.step()
      await log.close()
      world.end('kill')
      world.files.makeDirectory(`/data/segments/${next}`)
      if (withFile) world.files.create(`/data/segments/${next}/records.log`)
      const reopened = await world.open()
      assert.deepEqual(reopened.incidents, [])
      assert.equal(replay(reopened, world.files).frames.length, written.length)
      const added = appended(openWriter(reopened), payloadOf(1, 10))
      world.step()
      assert.ok(reopened.committed >= added.end)
    }
  })
})
