/**
 * Every frame that a broker appends, in order, with the reference that follows it: what is in the log, what is on its way there, and what a
 * read-only log may or may not have kept.
 *
 * T1  frames that are lost are a suffix of those that were appended; what was stored is never among them
 * T2  after a start the log holds the first frames of those that were appended, byte for byte, and no others; all that was stored in a class
 *     that outlives what happened is among them
 */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { replay } from '../../support/log-harness.ts'
import { Reference } from './reference.ts'
import type { Frame, Intent } from './reference.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'

/** What a frame was appended for. */
export interface Cause extends Intent {
  readonly frames: TracedFrame[]
}

export interface TracedFrame extends Frame {
  readonly end: number
  readonly generation: number
  readonly cause: Cause | null
  state: 'waiting' | 'stored' | 'lost'
  /** Main was told that it is stored in its class; a disk that fails afterwards may lose what was only written. */
  wasStored: boolean
}

export class Trace {
  reference = new Reference()
  /** In the log, or on their way there. */
  frames: TracedFrame[] = []
  losses = 0
  /** What claims asked for that are served when somebody else's frame is stored. */
  claimsAsked: NonNullable<Intent['claim']> = () => undefined
  readonly #world: BrokerWorld
  readonly #causes = new AsyncLocalStorage<Cause>()
  #failures: unknown[] = []
  /** Lost by a log that writes no more: the next start may find them. */
  #ghosts: TracedFrame[] = []

  constructor(world: BrokerWorld) {
    this.#world = world
  }

  /** What `run` and everything it goes on to do appends is known to be its. */
  causedBy<T>(cause: Cause, run: () => T): T {
    return this.#causes.run(cause, run)
  }

  get waiting(): TracedFrame[] {
    return this.frames.filter(({ state }) => state === 'waiting')
  }

  /** Throws what was found wrong while the broker ran, where throwing would have been taken for a failure of the broker's world. */
  check(): void {
    if (this.#failures.length > 0) throw this.#failures[0]
  }

  /** Follows the broker that was just opened. T2 */
  attach(kept: { readonly atLeast: number } = { atLeast: 0 }): void {
    const { core, log } = this.#world
    const known = [...this.frames, ...this.#ghosts]
    const { frames: found, damage } = replay(log, this.#world.files)
    assert.deepEqual(damage, [])
    const oldest = log.segments[0]?.base ?? 0
    const survived = known.filter(({ end }) => end <= log.committed)
    assert.deepEqual(survived, known.slice(0, survived.length))
    const certain = known.filter(({ end }) => end <= kept.atLeast)
    assert.ok(survived.length >= certain.length, 'what was stored is there after a start')
    const expected = survived.filter(({ position }) => position >= oldest)
    for (const [i, { position, type, payload }] of expected.entries()) {
      assert.deepEqual([found[i]?.position, found[i]?.type], [position, type])
      assert.ok(payload.equals(found[i]!.payload), 'the log holds what was appended')
    }
    const atStart = found.slice(expected.length).map(({ type, position, payload, end }): TracedFrame => ({
      type,
      position,
      payload,
      end,
      generation: log.generation,
      cause: null,
      state: 'stored',
      wasStored: true,
    }))
    this.#ghosts = []
    this.#keep([...survived, ...atStart])

    const { engine } = core
    const append = engine.append.bind(engine)
    engine.append = (frame, waiter) => {
      const payload = Buffer.alloc(frame.payloadBytes)
      frame.encode(payload, 0)
      const taken = { current: null as TracedFrame | null }
      const onStored = (): void => {
        this.#onStored(taken.current!)
        frame.onStored?.()
      }
      append({ ...frame, onStored }, waiter)
      taken.current = this.#onAppended(frame.type, payload)
    }
    const replaceState = core.replaceState.bind(core)
    core.replaceState = (state) => {
      replaceState(state)
      this.#onLost()
    }
  }

  #onAppended(type: number, payload: Buffer): TracedFrame {
    const { core, log } = this.#world
    const { position } = core.appender
    const end = position + frameBytes(payload.byteLength)
    const cause = this.#causes.getStore() ?? null
    const { generation } = log
    const frame: TracedFrame = {
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
    this.#attempt(() => this.reference.apply(frame, { claim: this.claimsAsked, ...cause }))
    return frame
  }

  #onStored(frame: TracedFrame): void {
    frame.state = 'stored'
    frame.wasStored = true
    this.#attempt(() => this.reference.stored(frame))
  }

  /** T1 */
  #onLost(): void {
    const { log } = this.#world
    const kept = this.frames.filter(({ end, generation }) => log.outcome(end, generation) === 'stored')
    const lost = this.frames.slice(kept.length)
    this.#attempt(() => {
      assert.deepEqual(kept, this.frames.slice(0, kept.length))
      assert.ok(lost.length > 0)
    })
    for (const frame of lost) frame.state = 'lost'
    if (log.state.kind === 'read-only') this.#ghosts = lost
    this.losses += 1
    this.#keep(kept)
  }

  #keep(frames: TracedFrame[]): void {
    this.frames = frames
    this.reference = new Reference()
    for (const frame of frames) {
      frame.state = 'stored'
      this.reference.apply(frame, { retryDelayMs: frame.cause?.retryDelayMs })
      this.reference.stored(frame)
    }
    this.reference.everythingStored()
  }

  #attempt(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#failures.push(error)
    }
  }
}
