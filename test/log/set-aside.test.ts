import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FRAME_HEADER_BYTES } from '../../native-free-codecs/frame.ts'
import type { Log } from '../../src/log/log.ts'
import { setAsideBehind } from '../../src/log/set-aside.ts'
import type { Aside } from '../../src/log/set-aside.ts'
import { World, appended, openWriter, payloadOf } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

const LOG = { directory: '/data', segmentsName: 'segments' }
const SEGMENT_BYTES = 2048

interface Stored {
  readonly world: World
  readonly log: Log
  readonly frames: readonly Written[]
}

/** A closed log of several segments. */
async function stored(): Promise<Stored> {
  const world = new World({ seed: 3 })
  const log = await world.open({ segmentBytes: SEGMENT_BYTES })
  const writer = openWriter(log)
  const frames = Array.from({ length: 12 }, (_, n) => {
    const frame = appended(writer, payloadOf(n, 300 + 8 * n))
    world.step()
    return frame
  })
  assert.ok(log.segments.length > 2)
  await log.close()
  return { world, log, frames }
}

async function setAside({ world }: Pick<Stored, 'world'>, from: number): Promise<Aside | null> {
  let found: Aside | null = null
  await setAsideBehind(from, { ...LOG, cluster: { onSetAside: (aside) => void (found = aside) } }, world)
  return found
}

function bytesOf({ world }: Pick<Stored, 'world'>, path: string): Buffer {
  const file = world.files.open(path, 'read')
  const bytes = Buffer.alloc(file.size())
  file.read(bytes, 0)
  file.close()
  return bytes
}

/** Bytes of the frames from a position on, as the segments have them. */
function framesBehind(given: Stored, from: number): Buffer {
  const { log, frames } = given
  const behind = frames.filter(({ position }) => position >= from)
  return Buffer.concat(
    behind.map(({ position, end }) => {
      const { base, recordsPath } = log.segments.findLast((segment) => segment.base < position)!
      return bytesOf(given, recordsPath).subarray(position - base, end - base)
    }),
  )
}

/** Header checksum of the first frame, which the next frame names. */
const chainOf = (bytes: Buffer): number => bytes.readUInt32LE(0)

describe('what is cut from the end of a log', () => {
  it('is kept as whole frames, over several segments', async () => {
    const given = await stored()
    for (const kept of [2, 5, 10]) {
      const from = given.frames[kept - 1]!.end
      const aside = await setAside(given, from)
      assert.ok(aside !== null)
      assert.deepEqual([aside.from, aside.to], [given.frames[kept]!.position, given.frames.at(-1)!.end])
      assert.ok(bytesOf(given, aside.path).equals(framesBehind(given, from)))
    }
  })

  it('is nothing when nothing whole stands there', async () => {
    const given = await stored()
    assert.equal(await setAside(given, given.frames.at(-1)!.end), null)
    const { base, recordsPath } = given.log.segments.at(-1)!
    const last = given.frames.at(-1)!
    given.world.files.damage(recordsPath, (content) => {
      content[last.position - base + FRAME_HEADER_BYTES] = content[last.position - base + FRAME_HEADER_BYTES]! ^ 1
      return content
    })
    assert.equal(await setAside(given, given.frames.at(-2)!.end), null)
    assert.equal(given.world.files.exists('/data/diverged'), false)
  })

  it('ends before a frame that is damaged', async () => {
    const given = await stored()
    const damaged = given.frames[9]!
    const { base, recordsPath } = given.log.segments.findLast((segment) => segment.base < damaged.position)!
    given.world.files.damage(recordsPath, (content) => {
      const at = damaged.position - base + FRAME_HEADER_BYTES
      content[at] = content[at]! ^ 1
      return content
    })
    const aside = await setAside(given, given.frames[7]!.end)
    assert.deepEqual([aside?.from, aside?.to], [given.frames[8]!.position, given.frames[8]!.end])
  })

  it('stays when the power goes', async () => {
    const given = await stored()
    const from = given.frames[4]!.end
    const whole = framesBehind(given, from)
    const aside = await setAside(given, from)
    given.world.end('crash')
    assert.ok(bytesOf(given, aside!.path).equals(whole))
  })

  it('is kept beside what was cut at the same place before, unless it has all of that', async () => {
    const given = await stored()
    const from = given.frames[4]!.end
    const whole = framesBehind(given, from)
    const first = await setAside(given, from)
    const damaged = given.frames[9]!
    const { base, recordsPath } = given.log.segments.findLast((segment) => segment.base < damaged.position)!
    given.world.files.damage(recordsPath, (content) => {
      const at = damaged.position - base + FRAME_HEADER_BYTES
      content[at] = content[at]! ^ 1
      return content
    })
    for (let n = 0; n < 2; n += 1) {
      const shorter = await setAside(given, from)
      assert.equal(shorter?.path, first!.path.replace('.frames', '-2.frames'))
      assert.equal(shorter.to, given.frames[8]!.end)
      assert.ok(whole.subarray(0, shorter.to - shorter.from).equals(bytesOf(given, shorter.path).subarray(0)))
    }
    assert.ok(bytesOf(given, first!.path).equals(whole))
  })

  it('is nothing where there is no log', async () => {
    assert.equal(await setAside({ world: new World({ seed: 1 }) }, 0), null)
  })
})

describe('frames that were set aside', () => {
  async function asideOf(): Promise<{ given: Stored; aside: Aside; chains: readonly [end: number, chain: number][] }> {
    const given = await stored()
    const cut = given.frames.slice(6)
    const aside = await setAside(given, given.frames[5]!.end)
    let at = 0
    const bytes = framesBehind(given, given.frames[5]!.end)
    const chains = cut.map(({ position, end }): [number, number] => {
      const chain = chainOf(bytes.subarray(at))
      at += end - position
      return [end, chain]
    })
    return { given, aside: aside!, chains }
  }

  it('are gone when the cluster has all of them', async () => {
    const { given, aside, chains } = await asideOf()
    for (const [end, chain] of chains.slice(0, -1)) assert.equal(aside.compare(end, chain), 'waiting')
    assert.ok(given.world.files.exists(aside.path))
    assert.equal(aside.compare(...chains.at(-1)!), 'same')
    assert.equal(given.world.files.exists(aside.path), false)
  })

  it('stay when the cluster has another frame in the place of one', async () => {
    const { given, aside, chains } = await asideOf()
    const [end, chain] = chains[2]!
    assert.equal(aside.compare(end, chain ^ 1), 'other')
    assert.ok(given.world.files.exists(aside.path))
  })

  it('stay when the frames of the cluster end elsewhere', async () => {
    const { given, aside, chains } = await asideOf()
    const [end, chain] = chains[0]!
    assert.equal(aside.compare(end + 8, chain), 'waiting')
    assert.equal(aside.compare(aside.to + 8, chain), 'other')
    assert.ok(given.world.files.exists(aside.path))
  })
})

describe('a log that is cut on a full disk', () => {
  async function cutting(): Promise<
    Stored & { readonly kept: Written; readonly told: string[]; readonly pass: () => Promise<void> }
  > {
    const world = new World({ seed: 3 })
    const log = await world.open()
    const writer = openWriter(log)
    const frames = [1, 2].map((n) => appended(writer, payloadOf(n, 100)))
    world.step()
    world.files.faults = { write: (path) => (path.includes('/diverged/') ? 'ENOSPC' : null) }
    const [kept] = frames as [Written]
    const told: string[] = []
    void log.cutTo(kept.end).then(() => told.push('cut'))
    const pass = async (): Promise<void> => {
      await nextTurn()
      for (const tick of world.timers.slice()) tick()
      await nextTurn()
    }
    for (let n = 0; n < 5; n += 1) await pass()
    return { world, log, frames, kept, told, pass }
  }

  it('has its old end until there is room for what is set aside, and says that it waits', async () => {
    const { world, log, frames, kept, told, pass } = await cutting()
    assert.deepEqual(told, [])
    assert.equal(log.written, frames.at(-1)!.end)
    assert.match(log.state.kind === 'restarting' ? log.state.message : '', /waits for room on the disk/)
    world.files.faults = {}
    await pass()
    assert.deepEqual(told, ['cut'])
    assert.deepEqual([log.state.kind, log.written], ['ok', kept.end])
    assert.deepEqual(world.files.list('/data/diverged')?.length, 1)
  })

  it('closes without waiting', async () => {
    const { log, told } = await cutting()
    await log.close()
    assert.deepEqual(told, ['cut'])
    assert.equal(log.state.kind, 'closed')
  })
})
