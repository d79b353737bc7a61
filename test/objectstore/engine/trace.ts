/**
 * Every frame that an object store appends, in order, with the reference that follows it: what is in the log, what is on its way there, and
 * what a log that stopped may or may not have kept.
 *
 * T1  frames that are lost are a suffix of those that were appended; what was stored is never among them
 * T2  after a start the log holds the first frames of those that were appended, and no others; all that was stored is among them
 */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { replay } from '../../support/log-harness.ts'
import { Reference } from './reference.ts'
import type { Frame } from './reference.ts'
import type { StoreWorld } from './world.ts'

/** What a frame was appended for. */
export interface Cause {
  readonly kind: string
  readonly frames: TracedFrame[]
}

export interface TracedFrame extends Frame {
  readonly end: number
  generation: number
  readonly cause: Cause | null
  state: 'waiting' | 'stored' | 'lost'
}

export class Trace {
  reference = new Reference()
  /** In the log, or on their way there. */
  frames: TracedFrame[] = []
  losses = 0
  /** Called before a frame is applied to the reference. */
  judge: (frame: TracedFrame) => void = () => {}
  /** Called when the reference has changed. */
  changed: () => void = () => {}
  readonly failures: unknown[] = []
  readonly #world: StoreWorld
  readonly #causes = new AsyncLocalStorage<Cause>()
  /** Lost by a log that writes no more: the next start may find them. */
  #ghosts: TracedFrame[] = []

  constructor(world: StoreWorld) {
    this.#world = world
  }

  causedBy<T>(cause: Cause, run: () => T): T {
    return this.#causes.run(cause, run)
  }

  get waiting(): TracedFrame[] {
    return this.frames.filter(({ state }) => state === 'waiting')
  }

  /** Follows the store that was just opened. T2 @param stored where what is certainly stored ends */
  attach(stored = 0): void {
    const { core, log } = this.#world
    const known = [...this.frames, ...this.#ghosts]
    const survived = known.filter(({ end }) => end <= log.committed)
    assert.deepEqual(survived, known.slice(0, survived.length))
    const certain = known.filter(({ end }) => end <= stored)
    assert.ok(survived.length >= certain.length, 'what was stored is there after a start')
    const { frames: found, damage } = replay(log, this.#world.files)
    assert.deepEqual(damage, [])
    const expected = survived.filter(({ position }) => position >= (log.segments[0]?.base ?? 0))
    assert.deepEqual(
      found.map(({ position }) => position),
      expected.map(({ position }) => position),
    )
    this.#ghosts = []
    for (const frame of survived) frame.generation = log.generation
    this.#keep(survived)

    const { engine } = core
    const append = engine.append.bind(engine)
    engine.append = (frame, waiter) => {
      const payload = Buffer.alloc(frame.payloadBytes)
      frame.encode(payload, 0)
      const traced = { current: null as TracedFrame | null }
      const onStored = (): void => {
        traced.current!.state = 'stored'
        frame.onStored?.()
      }
      const settled = (stored: boolean): void => {
        if (!stored) {
          this.attempt(() =>
            assert.equal(traced.current!.state, 'lost', 'whoever hears of a loss finds the state without it'),
          )
        }
        waiter.settled(stored)
      }
      append({ ...frame, onStored }, { settled })
      traced.current = this.#appended(frame.type, payload)
    }
    const replaceState = engine.replaceState.bind(engine)
    engine.replaceState = (state) => {
      replaceState(state)
      this.#lost()
    }
  }

  #appended(type: number, payload: Buffer): TracedFrame {
    const { position, end } = this.#world.core.appender
    const cause = this.#causes.getStore() ?? null
    const { generation } = this.#world.log
    const frame: TracedFrame = { type, position, payload, end, generation, cause, state: 'waiting' }
    this.frames.push(frame)
    cause?.frames.push(frame)
    this.attempt(() => {
      this.judge(frame)
      this.reference.apply(frame)
    })
    this.changed()
    return frame
  }

  /** T1 */
  #lost(): void {
    const { log } = this.#world
    const kept = this.frames.filter(({ end, generation }) => log.outcome(end, generation) === 'stored')
    const lost = this.frames.slice(kept.length)
    this.attempt(() => {
      assert.deepEqual(kept, this.frames.slice(0, kept.length))
      assert.ok(lost.every(({ state }) => state === 'waiting'))
    })
    for (const frame of lost) frame.state = 'lost'
    if (log.state.kind === 'read-only') this.#ghosts = lost
    this.losses += 1
    this.#keep(kept)
    this.changed()
  }

  #keep(frames: TracedFrame[]): void {
    this.frames = frames
    this.reference = new Reference()
    for (const frame of frames) {
      frame.state = 'stored'
      this.reference.apply(frame)
    }
  }

  /** What is found wrong where throwing would be taken for a failure of the store's world. */
  attempt(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.failures.push(error)
    }
  }
}
