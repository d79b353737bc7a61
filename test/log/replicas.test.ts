import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { modelRuns, testSeed } from '../support/seed.ts'
import type { Log } from '../../src/log/log.ts'
import type { LogWriter } from '../../src/log/log-writer.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

const REPLICAS = ['/replica-1', '/replica-2']
const DIRECTORIES = ['/data', ...REPLICAS]
const OPTIONS = { replicas: REPLICAS, writeQuorum: 2 }

describe('a log in three directories with a write quorum of two', () => {
  it('commits when the primary has written and two directories have synced', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const { end } = appended(openWriter(log), payloadOf(1, 100), { durability: 'quorum' })
    const committedAfter = [1, 2, 0].map((lane) => {
      world.lanes[lane]!.step()
      return log.committed === end
    })
    assert.deepEqual(committedAfter, [false, false, true])
    assert.equal(log.released, end)
  })

  it('holds the same bytes in all of them', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    for (let n = 0; n < 30; n += 1) {
      appended(writer, payloadOf(n, n * 40))
      if (n % 4 === 0) world.lanes[n % 3]!.step()
    }
    await log.close()
    const contents = DIRECTORIES.map((directory) =>
      world.files
        .paths()
        .filter((path) => path.startsWith(`${directory}/segments/`))
        .map((path) => [path.slice(directory.length), world.files.contentOf(path)]),
    )
    assert.ok(contents[0]!.length > 2)
    assert.deepEqual(contents[1], contents[0])
    assert.deepEqual(contents[2], contents[0])
  })

  it('goes on, degraded, when a replica fails, and stops when the second does', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    const failing = new Set<string>()
    world.files.faults = { sync: (path) => (failing.has(`/${path.split('/')[1]!}`) ? 'EIO' : null) }
    failing.add('/replica-2')
    const first = appended(writer, payloadOf(1, 100))
    world.step()
    assert.equal(log.state.kind, 'degraded')
    assert.equal(log.committed, first.end)
    const second = appended(writer, payloadOf(2, 100))
    world.step()
    assert.equal(log.committed, second.end)
    assert.equal(log.released, second.end, 'what the failed replica holds of the arena is given back')

    failing.add('/replica-1')
    const third = appended(writer, payloadOf(3, 100))
    world.step()
    assert.equal(log.state.kind, 'read-only')
    assert.equal(log.committed, second.end)
    assert.equal(append(writer, payloadOf(4, 100)), 'read-only')
    assert.equal(log.outcome(third.end, third.generation), 'lost')
  })

  it('takes a directory that vanished for failed: it is not made anew, without what it held', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    appended(writer, payloadOf(1, 100))
    world.step()
    world.files.removeDirectory('/replica-2')
    log.seal()
    const behind = appended(writer, payloadOf(2, 100))
    world.step()
    assert.deepEqual([log.state.kind, log.committed], ['degraded', behind.end])
    assert.deepEqual(
      world.files.paths().filter((path) => path.startsWith('/replica-2/')),
      [],
    )

    world.files.removeDirectory('/data')
    log.seal()
    const lost = appended(writer, payloadOf(3, 100))
    world.step()
    assert.equal(log.state.kind, 'read-only')
    assert.equal(log.outcome(lost.end, lost.generation), 'lost')
  })

  it('goes on without a replica whose disk is full, and refuses before a write quorum is without room', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    const full = new Set<string>()
    const isFull = (path: string): boolean => full.has(`/${path.split('/')[1]!}`)
    world.files.faults = {
      free: (path) => (isFull(path) ? 0 : null),
      write: (path) => (isFull(path) && path.endsWith('/records.log') ? 'ENOSPC' : null), // other files do not grow
    }
    const fill = (directory: string): void => {
      full.add(directory)
      world.nowMs += 1000
      for (const lane of world.lanes) lane.idle()
    }
    fill('/replica-2')
    const first = appended(writer, payloadOf(1, 100))
    world.step()
    assert.deepEqual([log.state.kind, log.committed], ['degraded', first.end])
    fill('/replica-1')
    assert.equal(append(writer, payloadOf(2, 100)), 'no-space')
    full.delete('/replica-1')
    world.nowMs += 1000
    for (const lane of world.lanes) lane.idle()
    const second = appended(writer, payloadOf(2, 100))
    world.step()
    assert.equal(log.committed, second.end)
  })

  it('does not take a replica in again whose disk failed, when it restarts in place', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    world.files.faults = { sync: (path) => (path.startsWith('/replica-2/') ? 'EIO' : null) }
    appended(writer, payloadOf(1, 100))
    world.step()
    world.files.faults = {} // a sync that succeeds after one that failed proves nothing
    world.lanes[0]!.die()
    await nextTurn()
    assert.match(log.state.kind === 'degraded' ? log.state.message : '', /\/replica-2: .*EIO/)
    const second = appended(writer, payloadOf(2, 100))
    const committedAfter = [2, 0, 1].map((lane) => {
      world.lanes[lane]!.step()
      return log.committed === second.end
    })
    assert.deepEqual(committedAfter, [false, false, true])
  })

  it('is read-only when the primary failed, though a replica dies before that is heard', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    const stored = appended(writer, payloadOf(1, 100))
    world.step()
    const waiting = appended(writer, payloadOf(2, 100))
    world.files.faults = { sync: (path) => (path.startsWith('/data/') ? 'EIO' : null) }
    world.lanes[0]!.journal.runGroup()
    world.files.faults = {}
    world.lanes[1]!.die()
    await nextTurn()
    assert.deepEqual([log.state.kind, log.state.kind === 'read-only' && log.state.code], ['read-only', 'EIO'])
    assert.equal(append(writer, payloadOf(3, 100)), 'read-only')
    assert.deepEqual(
      [stored, waiting].map(({ end, generation }) => log.outcome(end, generation)),
      ['stored', 'lost'],
    )
  })

  it('drops a replica that does not keep up while the others do', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    world.lanes[2]!.stalled = true
    appended(writer, payloadOf(1, 100))
    for (let interval = 0; interval < 3; interval += 1) {
      world.step()
      for (const tick of world.timers) tick()
    }
    assert.equal(log.state.kind, 'degraded')
    const last = appended(writer, payloadOf(2, 100))
    world.step()
    assert.deepEqual([log.committed, log.released], [last.end, last.end])
  })

  it('waits for a replica while the primary does not keep up either, and drops it when only the primary does again', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open(OPTIONS)
    const writer = openWriter(log)
    const look = (): void => {
      world.step()
      for (const tick of world.timers) tick()
    }
    const stall = (...lanes: readonly number[]): void => {
      for (const [number, lane] of world.lanes.entries()) lane.stalled = lanes.includes(number)
    }
    stall(0, 2)
    const first = appended(writer, payloadOf(1, 100))
    for (let interval = 0; interval < 5; interval += 1) look()
    assert.equal(log.state.kind, 'ok')
    stall()
    look()
    assert.deepEqual([log.state.kind, log.committed], ['ok', first.end])

    stall(0, 2)
    appended(writer, payloadOf(2, 100))
    for (let interval = 0; interval < 5; interval += 1) look()
    stall(2)
    for (let interval = 0; interval < 3; interval += 1) look()
    assert.equal(log.state.kind, 'degraded')
  })

  it('refuses to open when too few directories are left, and directories of different logs', async () => {
    const world = new World({ seed: 1 })
    await (await world.open(OPTIONS)).close()
    await (await world.open({ directory: '/other' })).close()
    await assert.rejects(world.open({ replicas: ['/replica-1', '/other'], writeQuorum: 2 }), {
      code: 'log_replicas_differ',
    })
    const broken = (path: string) => path.startsWith('/replica')
    world.files.faults = { sync: (path) => (broken(path) ? 'EIO' : null) }
    for (const directory of REPLICAS) world.files.removeDirectory(`${directory}/FORMAT`)
    await assert.rejects(world.open(OPTIONS), { code: 'log_quorum_unavailable' })
  })

  for (const [what, wiped] of [
    ['the primary directory', '/data'],
    ['a replica directory', '/replica-1'],
  ] as const) {
    it(`has everything when ${what} was wiped`, async () => {
      const world = new World({ seed: 1 })
      const log = await world.open({ ...OPTIONS, segmentBytes: 4096 })
      const writer = openWriter(log)
      const written = Array.from({ length: 20 }, (_, n) => appended(writer, payloadOf(n, 700)))
      world.step()
      world.end('kill')
      world.files.removeDirectory(wiped)
      const reopened = await world.open({ ...OPTIONS, segmentBytes: 4096 })
      assert.deepEqual(reopened.state, { kind: 'ok' })
      assert.deepEqual(
        replay(reopened, world.files).frames.map(({ payload }) => payload),
        written.map(({ payload }) => payload),
      )
      appended(openWriter(reopened), payloadOf(100, 10))
      world.step()
      assert.equal(reopened.committed, reopened.written)
    })
  }
})

type Step =
  | { kind: 'append'; bytes: number }
  | { kind: 'group'; lane: number }
  | { kind: 'failSync'; lane: number }
  | { kind: 'reopen'; after: 'kill' | 'crash'; victim: number; damage: 'wipe' | 'flip' | 'cut' | 'none'; at: number }

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('append' as const), bytes: fc.nat(2000) }) },
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('group' as const), lane: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('failSync' as const), lane: fc.nat(2) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('reopen' as const),
      after: fc.constantFrom('kill' as const, 'crash' as const),
      victim: fc.nat(2),
      damage: fc.constantFrom('wipe' as const, 'flip' as const, 'cut' as const, 'none' as const),
      at: fc.nat(),
    }),
  },
)

class QuorumModel {
  readonly world: World
  #log!: Log
  #writer!: LogWriter
  #frames: Written[] = []
  #count = 0
  /** The directory that failed since the log was opened. Only one may fail, as the quorum is two of three. */
  #failed: number | null = null

  constructor(seed: number) {
    this.world = new World({ seed })
  }

  async open(): Promise<void> {
    this.#log = await this.world.open(OPTIONS)
    this.#writer = openWriter(this.#log)
    this.#failed = null
  }

  async run(step: Step): Promise<void> {
    const { files, lanes } = this.world
    if (step.kind === 'append') {
      const result = append(this.#writer, payloadOf((this.#count += 1), step.bytes))
      if (typeof result !== 'string') this.#frames.push(result)
    } else if (step.kind === 'group') lanes[step.lane]!.step()
    else if (step.kind === 'failSync') {
      const failed = (this.#failed ??= step.lane)
      files.faults = { sync: (path) => (path.startsWith(`${DIRECTORIES[failed]!}/`) ? 'EIO' : null) }
    } else await this.#reopen(step)
  }

  async #reopen({ after, victim, damage, at }: Step & { kind: 'reopen' }): Promise<void> {
    const { files } = this.world
    const { committed } = this.#log
    files.faults = {}
    this.world.end(after)
    const damaged = DIRECTORIES[this.#failed ?? victim]!
    if (damage === 'wipe') {
      files.removeDirectory(damaged)
      files.syncDirectory('/')
    } else if (damage !== 'none') {
      const paths = files.paths().filter((path) => path.startsWith(damaged) && files.contentOf(path).byteLength > 0)
      const path = paths[at % Math.max(1, paths.length)]
      if (path)
        files.damage(path, (content) =>
          damage === 'flip' ? flipped(content, at) : content.subarray(0, at % content.byteLength),
        )
    }
    await this.open()
    if (this.#reportDamage()) {
      await this.#log.close() // a start does not read sealed segments: it repairs what their readers have reported
      await this.open()
    }

    const { frames, damage: found } = replay(this.#log, files)
    const isLost = (frame: Written) =>
      [...found, ...this.#log.incidents].some(({ from, to }) => from < frame.end && frame.position < to)
    const end = frames.at(-1)?.end ?? 0
    const expected = this.#frames.filter((frame) => frame.end <= Math.max(end, committed))
    assert.deepEqual(
      frames.map(({ position, payload }) => ({ position, payload })),
      expected
        .filter((frame) => frame.end <= committed || !isLost(frame)) // an unacknowledged frame may be lost, but not silently
        .map(({ position, payload }) => ({ position, payload })),
    )
    this.#frames = expected.filter((frame) => !isLost(frame))
  }

  #reportDamage(): boolean {
    const { damage } = replay(this.#log, this.world.files)
    for (const range of damage) {
      const segment = this.#log.segments.findLast(({ base }) => base <= range.from)
      if (segment) this.#log.reportDamage(segment, range)
    }
    return damage.length > 0
  }
}

function flipped(content: Buffer, at: number): Buffer {
  const bit = at % (content.byteLength * 8)
  content[bit >> 3]! ^= 1 << (bit & 7)
  return content
}

describe('a log in three directories after any history in which one directory at a time is damaged', () => {
  it('has every acknowledged frame, in order, byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.array(steps, { minLength: 5, maxLength: 50 }), async (seed, history) => {
        const model = new QuorumModel(seed)
        await model.open()
        for (const step of history) await model.run(step)
        await model.run({ kind: 'reopen', after: 'crash', victim: 0, damage: 'wipe', at: 0 })
      }),
      { seed: testSeed(), numRuns: modelRuns(100), includeErrorInReport: true },
    )
  })
})
