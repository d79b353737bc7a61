import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { modelRuns, testSeed } from '../support/seed.ts'
import type { Log } from '../../src/log/log.ts'
import type { LogWriter } from '../../src/log/log-writer.ts'
import { World, append, appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'
import type { Written } from '../support/log-harness.ts'
import { nextTurn } from '../support/next-turn.ts'

type Step =
  | { kind: 'append'; bytes: number; durability: 'volatile' | 'append' | 'sync'; purpose: 'admit' | 'finish' }
  | { kind: 'group' | 'rotate' | 'idle' | 'drop' }
  | { kind: 'failSync' | 'failWrite' | 'laneDies' }
  | { kind: 'reopen'; after: 'close' | 'kill' | 'crash' }
  | { kind: 'capacity'; freeBytes: number }

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      bytes: fc.oneof(fc.nat(64), fc.nat(3000), fc.constantFrom(0, 7, 8, 17_000)),
      durability: fc.constantFrom('volatile' as const, 'append' as const, 'sync' as const),
      purpose: fc.constantFrom('admit' as const, 'finish' as const),
    }),
  },
  { weight: 6, arbitrary: fc.constant({ kind: 'group' as const }) },
  { weight: 1, arbitrary: fc.constantFrom({ kind: 'rotate' as const }, { kind: 'idle' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'drop' as const }) },
  { weight: 1, arbitrary: fc.constantFrom({ kind: 'failSync' as const }, { kind: 'failWrite' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'laneDies' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('capacity' as const), freeBytes: fc.nat(4 << 20) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('reopen' as const),
      after: fc.constantFrom('close' as const, 'kill' as const, 'crash' as const, 'crash' as const),
    }),
  },
)

/** A log, beside a model of what it promises. */
class Model {
  readonly world: World
  log!: Log
  writer!: LogWriter
  /** Appended frames that may still be in the log, in order. */
  frames: Written[] = []
  #count = 0
  /** The test made something fail since the log was opened. */
  #mayFail = false

  constructor(seed: number) {
    this.world = new World({ seed })
  }

  async open(): Promise<void> {
    this.#mayFail = false
    this.log = await this.world.open()
    this.writer = openWriter(this.log)
  }

  async run(step: Step): Promise<void> {
    if (['failSync', 'failWrite', 'capacity', 'laneDies'].includes(step.kind)) this.#mayFail = true
    await this.#run(step)
    if (!this.#mayFail) assert.equal(this.#isReadOnly(), false, 'it does not fail on its own')
  }

  async #run(step: Step): Promise<void> {
    const { world } = this
    switch (step.kind) {
      case 'append':
        return this.#append(step)
      case 'group':
        return world.step()
      case 'rotate':
        return this.writer.rotate()
      case 'drop':
        return this.#drop()
      case 'laneDies':
        return this.#laneDies()
      case 'reopen':
        return this.#reopen(step.after)
      case 'idle':
        world.nowMs += 1000
        world.lanes[0]?.idle()
        for (const tick of world.timers) tick() // sometimes writes a segment in advance
        return
      case 'failSync':
        world.files.faults = { sync: () => 'EIO' }
        return
      case 'failWrite':
        world.files.faults = { write: (path) => (path.endsWith('.log') ? 'EIO' : null) }
        return
      case 'capacity':
        world.files.capacityBytes += step.freeBytes - world.files.freeBytes('/')
    }
  }

  #append({ bytes, durability, purpose }: Step & { kind: 'append' }): void {
    const result = append(this.writer, payloadOf(this.#count, bytes), { durability, purpose, type: this.#count % 256 })
    this.#count += 1
    if (typeof result !== 'string') this.frames.push(result)
  }

  /** Drops the older half of the sealed segments, whose files become later segments. */
  #drop(): void {
    if (this.#isReadOnly()) return // a read-only log drops nothing
    const { segments } = this.log
    const sealed = segments.filter((segment) => segment.sealed)
    const before = sealed[Math.floor(sealed.length / 2)]?.base ?? 0
    this.log.dropBefore(before)
    this.frames = this.frames.filter((frame) => frame.position >= before)
  }

  async #laneDies(): Promise<void> {
    if (this.#isReadOnly()) return
    this.world.files.faults = {}
    this.world.files.capacityBytes = 2 ** 40
    const { written } = this.log
    this.world.lanes[0]!.die()
    await nextTurn()
    if (this.#isReadOnly()) return // the lane died too often
    assert.equal(this.log.committed, written, 'what was written before the lane died is durable after')
    for (const frame of this.frames) {
      assert.equal(this.log.outcome(frame.end, frame.generation), frame.end <= written ? 'stored' : 'lost')
    }
    this.frames = this.frames.filter((frame) => frame.end <= written)
    this.check(this.frames.length, this.frames.length)
  }

  async #reopen(after: 'close' | 'kill' | 'crash'): Promise<void> {
    const failed = this.#isReadOnly() || Object.keys(this.world.files.faults).length > 0
    if (after === 'close') await this.log.close()
    const { committed, written } = this.log
    this.world.files.faults = {}
    this.world.files.capacityBytes = 2 ** 40
    this.world.end(after === 'crash' ? 'crash' : 'kill')
    await this.open()
    const certain = after === 'kill' && !failed ? written : committed
    const kept = this.frames.filter((frame) => frame.end <= certain).length
    const recovered = this.check(kept, this.frames.length)
    this.frames = this.frames.slice(0, recovered)
    assert.equal(this.log.committed, this.log.written)
  }

  #isReadOnly(): boolean {
    return this.log.state.kind === 'read-only'
  }

  /** Asserts that the log has the first n frames and nothing else, least <= n <= most. @returns n */
  check(least: number, most: number): number {
    assert.deepEqual(this.log.incidents, [])
    const { frames, damage } = replay(this.log, this.world.files)
    assert.deepEqual(damage, [])
    assert.ok(frames.length >= least, `${frames.length} frames recovered, ${least} were durable`)
    assert.ok(frames.length <= most, `${frames.length} frames recovered, ${most} were appended`)
    for (const [index, frame] of frames.entries()) {
      const expected = this.frames[index]!
      assert.equal(frame.position, expected.position)
      assert.equal(frame.type, expected.type)
      assert.ok(frame.payload.equals(expected.payload), `frame ${index} has another payload`)
    }
    return frames.length
  }
}

describe('a log after any history of appends, failures and crashes', () => {
  it('has every durable frame once, in order, byte for byte, and nothing that was not appended', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.array(steps, { minLength: 5, maxLength: 60 }), async (seed, history) => {
        const model = new Model(seed)
        await model.open()
        for (const step of history) await model.run(step)
        await model.run({ kind: 'reopen', after: 'crash' })
        await model.run({ kind: 'reopen', after: 'crash' })
      }),
      { seed: testSeed(), numRuns: modelRuns(150), includeErrorInReport: true },
    )
  })
})

describe('a log cut at any byte', () => {
  it('recovers exactly the frames that ended before the cut', async () => {
    const world = new World({ seed: 1 })
    const log = await world.open({ segmentBytes: 1 << 20 })
    const writer = openWriter(log)
    const written = Array.from({ length: 12 }, (_, n) => appended(writer, payloadOf(n, n * 13)))
    world.step()
    const path = log.segments[0]!.recordsPath
    world.end('kill')
    const whole = world.files.contentOf(path).byteLength

    for (let cut = 0; cut <= whole; cut += 3) {
      const copy = new World({ seed: cut })
      copy.files = world.files.clone(cut)
      copy.files.damage('/data/DURABLE', (mark) => mark.fill(0))
      copy.files.damage(path, (content) => content.subarray(0, cut))
      const reopened = await copy.open({ segmentBytes: 1 << 20 })
      const { frames, damage } = replay(reopened, copy.files)
      const expected = written.filter(({ end }) => end <= cut)
      assert.deepEqual(
        frames.map(({ payload }) => payload),
        expected.map(({ payload }) => payload),
      )
      assert.deepEqual([damage, reopened.incidents], [[], []])
    }
  })
})
