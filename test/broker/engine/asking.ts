/**
 * How a history asks the broker, and what it may be answered.
 *
 * H1  an operation is answered when everything that was on its way to the disk when it was asked is stored (volatile publishes and pages
 *     apart), or is refused because of a loss
 * H2  what was refused has left nothing behind; what was answered has, for ever, exactly what the answer says
 */
import assert from 'node:assert/strict'
import {
  FRAME_CLAIM,
  FRAME_DEAD_LETTER,
  FRAME_REDRIVE,
  FRAME_RESOLVE,
  decodeDeadLetter,
  decodeResolve,
} from '../../../src/broker/frames.ts'
import type { ResolveEntry } from '../../../src/broker/frames.ts'
import { decodeChange } from '../../../src/broker/frames/change.ts'
import { CALLER, Pending } from '../../support/broker-world.ts'
import type { BrokerWorld, Outcome } from '../../support/broker-world.ts'
import type { Reference } from './reference.ts'
import type { RefGroup, RefStream } from './reference-streams.ts'
import type { Cause, Trace, TracedFrame } from './trace.ts'

export const GROUPS = ['g1', 'g2'] as const

export type Expected = { readonly code: string } | 'effect' | 'either'

export interface Operation<T> {
  readonly name: string
  /** What it is refused with when the log does not take or keep its frames. */
  readonly failure:
    | 'internal_error'
    | 'queue_state_persistence_failed'
    | 'quarantine_storage_failed'
    | 'replica_apply_failed'
  readonly run: () => Promise<T>
  /** As the reference is now; 'either': it is known only when records have been read, or others were served. Several: any of them. */
  readonly expected: () => Expected | readonly Expected[]
  /** Of an answer, given while nothing has been lost since it was asked. */
  readonly check?: (value: T, frames: readonly TracedFrame[]) => void
  /** Of a refusal, whenever it is given. */
  readonly checkRefused?: () => void
  /** Answers when it is taken, not when it is stored. */
  readonly unconfirmed?: boolean
  readonly cause?: Partial<Omit<Cause, 'frames'>>
}

interface Asked {
  readonly name: string
  readonly expected: () => Expected | readonly Expected[]
  /** On their way when it was asked. */
  readonly before: readonly TracedFrame[]
  /** As it was asked, and as it may have been decided again. */
  possible: Expected[]
  /** Something was lost since it was asked. */
  isTroubled: boolean
}

export class Asking {
  readonly world: BrokerWorld
  readonly trace: Trace
  /** Asked so far. */
  operations = 0
  readonly #pending = new Set<Asked>()

  constructor(world: BrokerWorld, trace: Trace) {
    this.world = world
    this.trace = trace
    trace.changed = (isLoss) => {
      for (const asked of this.#pending) {
        if (isLoss) asked.isTroubled = true
        const isAgain = isLoss && asked.before.some(({ state, wasStored }) => state === 'lost' && !wasStored)
        if (isAgain) asked.possible = [] // what it had decided is told to nobody
        if (asked.isTroubled) asked.possible = asked.possible.concat(asked.expected())
      }
    }
  }

  /** Names of what is not answered. */
  get pending(): readonly string[] {
    return Array.from(this.#pending, ({ name }) => name)
  }

  /** The process has ended: nobody hears of what was asked. */
  forget(): void {
    this.#pending.clear()
  }

  get isWritable(): boolean {
    return this.world.log.state.kind === 'ok'
  }

  /** H1, H2 */
  ask<T>({ name, failure, run, expected, check, checkRefused, unconfirmed = false, cause = {} }: Operation<T>): void {
    this.operations += 1
    const frames: TracedFrame[] = []
    const before = this.trace.waiting
    const { losses } = this.trace
    const wasWritable = this.isWritable
    const asked: Asked = { name, expected, before, possible: [expected()].flat(), isTroubled: false }
    this.#pending.add(asked)
    const pending = this.trace.causedBy({ ...cause, frames }, () => new Pending(run()))
    const effect = frames.length > 0
    pending.onSettled(() => {
      if (!this.#pending.delete(asked)) return // of an earlier life
      this.trace.attempt(() => {
        const isLost = before.some(({ state }) => state === 'lost')
        const isSettled = before.every(({ wasStored }) => wasStored)
        const { outcome } = pending
        const { possible } = asked
        const isJudgedAnew = losses < this.trace.losses // what spoke for or against it may be lost
        if (outcome.kind === 'answered') {
          const mayBe = possible.includes('either') || possible.includes('effect') || isJudgedAnew
          assert.ok(mayBe, `${name} was not refused`)
          if (!unconfirmed) {
            assert.ok(isSettled || isLost, `${name} was answered before the disk was`)
            const unstored = frames.filter((frame) => !frame.wasStored && !isAside(frame))
            assert.deepEqual(unstored.map(nameOf), [], `${name} was answered and its frames are not stored`)
          }
          if (losses === this.trace.losses) check?.(outcome.value, frames)
          return
        }
        checkRefused?.()
        const { code } = pending
        const left = frames.filter((frame) => frame.state !== 'lost' && !isAside(frame))
        assert.deepEqual(left.map(nameOf), [], `${name} was refused (${String(code)}) and left something behind`)
        if (possible.some((each) => typeof each !== 'string' && each.code === code)) {
          assert.ok(isSettled || isLost, `${name} was refused for what is not stored`) // decided again after a loss
          return
        }
        if (possible.includes('either') && MAY_TURN_OUT.has(String(code))) return
        if (isJudgedAnew && !possible.includes('effect')) return
        assert.equal(code, failure, `${name}: ${describeError(outcome)}`)
        const excused = !wasWritable || losses < this.trace.losses || !effect
        assert.ok(excused, `${name} failed for no reason: ${describeError(outcome)}`)
      })
    })
  }
}

/** What one kind of client asks for. */
export abstract class Steps {
  readonly #asking: Asking

  constructor(asking: Asking) {
    this.#asking = asking
  }

  protected get world(): BrokerWorld {
    return this.#asking.world
  }

  protected get trace(): Trace {
    return this.#asking.trace
  }

  protected get reference(): Reference {
    return this.#asking.trace.reference
  }

  protected get isWritable(): boolean {
    return this.#asking.isWritable
  }

  /** Asked so far. */
  protected get operations(): number {
    return this.#asking.operations
  }

  protected ask<T>(operation: Operation<T>): void {
    this.#asking.ask(operation)
  }

  protected stream(name: string): RefStream | undefined {
    return this.reference.stream(CALLER.tenant, name)
  }

  protected group(stream: string, group: string): RefGroup | undefined {
    return this.stream(stream)?.groups.get(group)
  }

  /** Events that an operation's frames are. */
  protected auditedBy(frames: readonly TracedFrame[]): number {
    return frames.filter(({ type, payload }) => {
      if (type === FRAME_DEAD_LETTER || type === FRAME_REDRIVE) return true
      const change = decodeChange(payload)
      return change !== null && 'audit_offset' in change && change.audit_offset !== null
    }).length
  }
}

/** What comes to light only when records were read, or meanwhile. */
const MAY_TURN_OUT: ReadonlySet<string> = new Set([
  'lease_expired',
  'lease_not_active',
  'delivery_not_found',
  'missing_stream',
  'stream_not_found',
])

/** For people. */
const nameOf = ({ type, payload, state }: TracedFrame): string =>
  `${decodeChange(payload)?.kind ?? `type ${type}`}, ${state}`

/** Frames that only make room for others: nobody sees what they bring. */
function isPreparation({ payload }: TracedFrame): boolean {
  const change = decodeChange(payload)
  return change?.kind === 'group_created' || (change?.kind === 'stream_created' && change.audit_offset === null)
}

/** Of no importance to the answer: what is noted beside it, what time did, and claims of others that were waiting for what it brought. */
const isAside = (frame: TracedFrame): boolean =>
  isPreparation(frame) ||
  frame.type === FRAME_CLAIM ||
  decodeChange(frame.payload)?.kind === 'observation' ||
  (frame.type === FRAME_DEAD_LETTER && decodeDeadLetter(frame.payload)?.cause === 'expiry') ||
  (frame.type === FRAME_RESOLVE && decodeResolve(frame.payload)!.every(isOfNobody))

/** Of no client: a lease that is over, or whose record could not be read. */
const isOfNobody = ({ verb, reason }: ResolveEntry): boolean => verb === 'release' && reason === undefined

const describeError = (outcome: Outcome<unknown>): string =>
  outcome.kind === 'refused' && outcome.error instanceof Error ? (outcome.error.stack ?? '') : JSON.stringify(outcome)
