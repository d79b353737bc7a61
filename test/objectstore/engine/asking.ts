/**
 * How a history calls the object store, and which answers are allowed.
 *
 * H1  an operation is answered once its own frames are stored, and all frames that were on their way to the disk when it was called
 * H2  a refused operation has left nothing behind; the effect of an answered one is there, whole, until it is replaced or deleted, and never after
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
import { conditionHolds } from './sent.ts'
import type { Condition, SentBodies } from './sent.ts'
import type { Cause, Trace, TracedFrame } from './trace.ts'
import type { StoreWorld } from './world.ts'

/** Codes that may refuse an operation when the disk, the journal or a lane fails. */
const FAILURES: ReadonlySet<string> = new Set(['InternalError', 'ServiceUnavailable'])

interface Operation<T> {
  readonly name: string
  readonly run: () => Promise<T>
  /** The outcome in the reference's present state: 'effect', or the code of a refusal. */
  readonly expected: () => string
  /** Checks an answer. */
  readonly check?: (value: T, frames: readonly TracedFrame[]) => void
  /** The answer is that of the call's time: it is checked only if nothing was lost since. */
  readonly judged?: boolean
  /** The operation is about one object: its answer waits only for its own frames. */
  readonly single?: boolean
  /** Count of `troubles` from which a later trouble excuses a failure. Default: the count at the call. */
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
  /** Number of faults so far. */
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

  /** Names of operations without an answer. */
  get pending(): readonly string[] {
    return Array.from(this.#asked, ({ name }) => name)
  }

  /** The process has ended: answers to its operations no longer count. */
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
      if (!this.#asked.delete(asked)) return // called in an earlier life of the process
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

/** The calls of one kind of client. */
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
    return conditionHolds(condition, known.objects.get(key) ?? null) ? 'effect' : 'PreconditionFailed'
  }

  protected precondition(bucket: Bucket, key: string, condition: Condition) {
    return (current: ObjectSummary | null): Error | null => {
      const known = this.reference.buckets.get(bucket.number)?.objects.get(key)
      this.trace.attempt(() => assert.deepEqual(current, known === undefined ? null : summaryOf(known)))
      return conditionHolds(condition, current) ? null : refuse('PreconditionFailed')
    }
  }
}

/** The object that an operation wrote, by its only frame of an object. */
export function objectWrittenBy(frames: readonly TracedFrame[], bucket: Bucket, key: string): RefObject {
  const commits = frames.filter(({ type }) => type === FRAME_OBJECT)
  assert.equal(commits.length, 1, 'one change')
  const frame = decodeCommit(commits[0]!.payload)
  assert.deepEqual([frame.bucket, frame.key.toString()], [bucket.number, key])
  return objectOf(frame, commits[0]!.position)
}

export const changesOf = (frames: readonly TracedFrame[]) =>
  frames.filter(({ type }) => type === FRAME_CHANGE).map(({ payload }) => decodeChange(payload))
