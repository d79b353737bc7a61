/**
 * Every frame that an engine appends, in order, and the reference state after these frames. Tells what is in the log, what is on its way there, and
 * what a log that stopped may have kept or not.
 *
 * T1  if frames are lost, they are always the last ones that were appended
 * T2  after a start the log holds the first of the appended frames, and then the frames that the start itself appended; all that was
 *     certainly stored is among the first
 */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Decision } from '../../src/engine/decision.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { Log } from '../../src/log/log.ts'
import { replay } from './log-harness.ts'
import type { Written } from './log-harness.ts'
import type { SimFiles } from './sim-files.ts'

/** The operation that a frame was appended for, and all frames that were appended for it. */
export type CauseOf<About> = About & { readonly frames: TracedFrame<About>[] }

export interface TracedFrame<About> {
  readonly type: number
  readonly position: number
  /** Payload as far as the frame encodes it, without what the journal gathers from elsewhere. */
  readonly payload: Buffer
  readonly end: number
  generation: number
  readonly cause: CauseOf<About> | null
  state: 'waiting' | 'stored' | 'lost'
  /** Main was told that the frame is stored in its class. If the disk fails afterwards, a frame that was only written may still be lost. */
  wasStored: boolean
}

type Appended = Pick<Written, 'type' | 'position' | 'end' | 'payload'>

interface Followed {
  readonly log: Log
  readonly files: SimFiles
}

export abstract class FrameTrace<About, Reference> {
  reference: Reference
  /** Frames in the log, or on their way there. */
  frames: TracedFrame<About>[] = []
  losses = 0
  /** Failed checks. They are not thrown, because the engine would take them for failures of its own world. */
  readonly failures: unknown[] = []
  readonly #world: Followed
  readonly #causes = new AsyncLocalStorage<CauseOf<About>>()
  /** By frame: a frame may be appended in the turn of another operation than its own. */
  readonly #causeOf = new WeakMap<object, CauseOf<About>>()
  /** Frames lost by a log that is read-only now: the next start may find them. */
  #ghosts: TracedFrame<About>[] = []

  constructor(world: Followed) {
    this.#world = world
    this.reference = this.referenceOf([])
  }

  /** The reference state after these frames, all of them stored. */
  protected abstract referenceOf(frames: readonly TracedFrame<About>[]): Reference

  /** Whether the payload in the log is the one that was appended. */
  protected abstract holds(found: Buffer, appended: Buffer): boolean

  /** T2: checks the frames after a start that no operation appended. */
  protected abstract assertAppendedByStart(frames: readonly Appended[]): void

  /** T1: checks the frames that are lost. */
  protected abstract assertMayBeLost(frames: readonly TracedFrame<About>[]): void

  get waiting(): TracedFrame<About>[] {
    return this.frames.filter(({ state }) => state === 'waiting')
  }

  /** Runs `run`; `cause` becomes the cause of each frame that it, or anything that it starts, appends. */
  causedBy<T>(cause: CauseOf<About>, run: () => T): T {
    return this.#causes.run(cause, run)
  }

  attempt(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.failures.push(error)
    }
  }

  check(): void {
    if (this.failures.length > 0) throw this.failures[0]
  }

  /** T2: compares the log of an engine that was just opened with the known frames. @param certain position at which the certainly stored frames end */
  protected takeOver(certain: number): void {
    const { log, files } = this.#world
    const known = [...this.frames, ...this.#ghosts]
    const survived = known.filter(({ end }) => end <= log.committed)
    assert.deepEqual(survived, known.slice(0, survived.length))
    const required = known.filter(({ end }) => end <= certain)
    assert.ok(survived.length >= required.length, 'what was stored is there after a start')
    const { frames: found, damage } = replay(log, files)
    assert.deepEqual(damage, [])
    const oldest = log.segments[0]?.base ?? 0
    const expected = survived.filter(({ position }) => position >= oldest)
    for (const [i, { position, type, end, payload }] of expected.entries()) {
      assert.deepEqual([found[i]?.position, found[i]?.type, found[i]?.end], [position, type, end])
      assert.ok(this.holds(found[i]!.payload, payload), 'the log holds what was appended')
    }
    const atStart = found.slice(expected.length)
    this.assertAppendedByStart(atStart)
    const { generation } = log
    for (const frame of survived) frame.generation = generation
    this.#ghosts = []
    this.#keep([
      ...survived,
      ...atStart.map(({ type, position, payload, end }): TracedFrame<About> => {
        return { type, position, payload, end, generation, cause: null, state: 'stored', wasStored: true }
      }),
    ])
  }

  /** Follows an engine that was just opened. @param certain as for `takeOver` */
  protected follow<State, Change>(engine: Engine<State, Change>, certain: number): void {
    this.takeOver(certain)
    const run = engine.run.bind(engine)
    engine.run = (decide, answer, notStored) => {
      const cause = this.#causes.getStore()
      const decided = <Reply>(decision: Decision<Reply, Change>): Decision<Reply, Change> => {
        if (cause === undefined) return decision
        if (decision.kind === 'read') {
          const { read } = decision
          return { kind: 'read', read: () => read().then((later) => () => decided(later())) }
        }
        if (decision.kind !== 'change') return decision
        for (const frame of decision.before ?? []) this.#causeOf.set(frame, cause)
        this.#causeOf.set(decision.frame, cause)
        return decision
      }
      run((turnOfIt) => decided(decide(turnOfIt)), answer, notStored)
    }
    const append = engine.append.bind(engine)
    engine.append = (frame, waiter) => {
      const payload = Buffer.alloc(frame.payloadBytes)
      frame.encode(payload, 0)
      const traced = { current: null as TracedFrame<About> | null }
      const onTaken = (position: number): void => {
        const { end } = engine.appender
        const cause = this.#causeOf.get(frame) ?? this.#causes.getStore() ?? null
        traced.current = this.onAppended({ type: frame.type, position, end, payload }, cause)
        frame.onTaken?.(position)
      }
      const onStored = (): void => {
        this.onStored(traced.current!)
        frame.onStored?.()
      }
      const settled = (stored: boolean): void => {
        const isRight = stored || traced.current!.state === 'lost'
        this.attempt(() => assert.ok(isRight, 'whoever hears of a loss finds the state without it'))
        waiter.settled(stored)
      }
      const encode = (target: Buffer, at: number): void => frame.encode(target, at)
      return append({ ...frame, encode, onTaken, onStored }, { settled }) // the spread does not copy methods of a class
    }
    const replaceState = engine.replaceState.bind(engine)
    engine.replaceState = (state) => {
      replaceState(state)
      this.onLost()
    }
  }

  protected onAppended({ type, position, end, payload }: Appended, cause: CauseOf<About> | null): TracedFrame<About> {
    const { generation } = this.#world.log
    const frame: TracedFrame<About> = {
      type,
      position,
      payload,
      end,
      generation,
      cause,
      state: 'waiting',
      wasStored: false,
    }
    this.frames.push(frame)
    cause?.frames.push(frame)
    return frame
  }

  protected onStored(frame: TracedFrame<About>): void {
    frame.state = 'stored'
    frame.wasStored = true
  }

  protected onLost(): void {
    const { log } = this.#world
    const kept = this.frames.filter(({ end, generation }) => log.outcome(end, generation) === 'stored')
    const lost = this.frames.slice(kept.length)
    this.attempt(() => {
      assert.deepEqual(kept, this.frames.slice(0, kept.length))
      this.assertMayBeLost(lost)
    })
    for (const frame of lost) frame.state = 'lost'
    if (log.state.kind === 'read-only') this.#ghosts = lost
    this.losses += 1
    this.#keep(kept)
  }

  #keep(frames: TracedFrame<About>[]): void {
    this.frames = frames
    for (const frame of frames) frame.state = 'stored'
    this.reference = this.referenceOf(frames)
  }
}
