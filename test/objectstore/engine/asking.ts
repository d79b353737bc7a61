/**
 * How a history asks the object store, and what it may be answered.
 *
 * H1  an operation is answered when everything that was on its way to the disk when it was asked, and what it wrote, is stored
 * H2  what was refused has left nothing behind; what was answered is there, whole, until it is replaced or deleted, and then never again
 */
import assert from 'node:assert/strict'
import {
  FRAME_CHANGE,
  FRAME_EXTENT,
  FRAME_OBJECT,
  decodeChange,
  decodeCommit,
} from '../../../src/objectstore/engine/frames.ts'
import type { Bucket, ObjectSummary } from '../../../src/objectstore/operations.ts'
import { refuse } from '../../../src/objectstore/refusals.ts'
import { objectOf, summaryOf } from './reference.ts'
import type { RefObject, Reference } from './reference.ts'
import { holds } from './sent.ts'
import type { Condition, SentBodies } from './sent.ts'
import type { Cause, Trace, TracedFrame } from './trace.ts'
import type { StoreWorld } from './world.ts'

/** What an operation may be refused with when the disk, the journal or a lane fails. */
const FAILURES: ReadonlySet<string> = new Set(['InternalError', 'ServiceUnavailable'])

interface Operation<T> {
  readonly name: string
  readonly run: () => Promise<T>
  /** As the reference is now: 'effect', or the code of the refusal. */
  readonly expected: () => string
  /** Of an answer. */
  readonly check?: (value: T, frames: readonly TracedFrame[]) => void
  /** A question: only true of what was known when it was asked, if nothing was lost. */
  readonly judged?: boolean
  /** About one object, which may be stored when others are not. */
  readonly single?: boolean
  /** What went wrong since then excuses a failure: see `troubles`. */
  readonly since?: number
  readonly cause?: string
}

interface Asked {
  readonly name: string
  readonly expected: () => string
  readonly possible: Set<string>
}

export class Asking {
  readonly world: StoreWorld
  readonly trace: Trace
  /** What went wrong so far, counted. */
  troubles = 0
  diskIsLimited = false
  readonly #asked = new Set<Asked>()

  constructor(world: StoreWorld, trace: Trace) {
    this.world = world
    this.trace = trace
    trace.changed = () => {
      for (const { possible, expected } of this.#asked) possible.add(expected())
    }
  }

  /** Names of what is not answered. */
  get pending(): readonly string[] {
    return Array.from(this.#asked, ({ name }) => name)
  }

  /** The process has ended: nobody hears of what was asked. */
  forget(): void {
    this.#asked.clear()
  }

  /** H1, H2 */
  ask<T>({
    name,
    run,
    expected,
    check,
    judged = false,
    single = false,
    since = this.troubles,
    cause = 'other',
  }: Operation<T>): void {
    const { trace } = this
    const frames: TracedFrame[] = []
    const before = trace.waiting
    const { losses } = trace
    const asked: Asked = { name, expected, possible: new Set([expected()]) }
    this.#asked.add(asked)
    const about: Cause = { kind: cause, frames }
    const settle = (judge: () => void): void => {
      if (!this.#asked.delete(asked)) return // of an earlier life
      trace.attempt(() => {
        try {
          judge()
        } catch (error) {
          if (error instanceof Error) error.message = `${name}: ${error.message}`
          throw error
        }
      })
    }
    const isTroubled = (): boolean => this.troubles > since || this.diskIsLimited || this.world.log.state.kind !== 'ok'
    trace.causedBy(about, run).then(
      (value) =>
        settle(() => {
          assert.ok(asked.possible.has('effect'), `answered, but is ${[...asked.possible].join()}`)
          if (cause === 'clean') return
          const waiting = (single ? frames : [...before, ...frames]).filter(({ state }) => state === 'waiting')
          assert.equal(waiting.length, 0, 'H1: answered before the disk')
          assert.ok(
            frames.every(({ state }) => state === 'stored'),
            'H1: answered, and lost',
          )
          if (!judged || losses === trace.losses) check?.(value, frames)
        }),
      (error: unknown) =>
        settle(() => {
          const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
          const left = frames.filter(({ type, state }) => state !== 'lost' && type !== FRAME_EXTENT)
          assert.equal(left.length, 0, `H2: refused with ${code}, and left something behind`)
          if (asked.possible.has(code)) {
            assert.ok(
              before.every(({ state }) => state !== 'waiting'),
              'H1: refused for what is not stored',
            )
            return
          }
          const isExcused = FAILURES.has(code) && isTroubled()
          assert.ok(isExcused, `failed for no reason: ${error instanceof Error ? error.stack : String(error)}`)
        }),
    )
  }
}

/** What one kind of client asks for. */
export abstract class Steps {
  protected readonly bodies: SentBodies
  readonly #asking: Asking

  constructor(asking: Asking, bodies: SentBodies) {
    this.#asking = asking
    this.bodies = bodies
  }

  protected get world(): StoreWorld {
    return this.#asking.world
  }

  protected get trace(): Trace {
    return this.#asking.trace
  }

  protected get reference(): Reference {
    return this.#asking.trace.reference
  }

  protected get troubles(): number {
    return this.#asking.troubles
  }

  protected ask<T>(operation: Operation<T>): void {
    this.#asking.ask(operation)
  }

  protected expectedOfChange(bucket: Bucket, key: string, condition: Condition): string {
    const known = this.reference.buckets.get(bucket.number)
    if (known === undefined) return 'NoSuchBucket'
    return holds(condition, known.objects.get(key) ?? null) ? 'effect' : 'PreconditionFailed'
  }

  protected precondition(bucket: Bucket, key: string, condition: Condition) {
    return (current: ObjectSummary | null): Error | null => {
      const known = this.reference.buckets.get(bucket.number)?.objects.get(key)
      this.trace.attempt(() => assert.deepEqual(current, known === undefined ? null : summaryOf(known)))
      return holds(condition, current) ? null : refuse('PreconditionFailed')
    }
  }
}

/** The one frame that made an object what it is. */
export function committed(frames: readonly TracedFrame[], bucket: Bucket, key: string): RefObject {
  const commits = frames.filter(({ type }) => type === FRAME_OBJECT)
  assert.equal(commits.length, 1, 'one change')
  const frame = decodeCommit(commits[0]!.payload)
  assert.deepEqual([frame.bucket, frame.key.toString()], [bucket.number, key])
  return objectOf(frame, commits[0]!.position)
}

export const changesOf = (frames: readonly TracedFrame[]) =>
  frames.filter(({ type }) => type === FRAME_CHANGE).map(({ payload }) => decodeChange(payload))
