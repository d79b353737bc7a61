/**
 * How a history calls the broker, and which answers are allowed.
 *
 * H1  an operation is answered once everything is stored that was on its way to the disk when it was called (except volatile publishes and
 *     pages), or it is refused because of a loss
 * H2  a refused operation has left nothing behind; an answered one has for ever exactly the effect that its answer says
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
  /** Code of the refusal when the log does not take or keep the frames. */
  readonly failure:
    | 'internal_error'
    | 'queue_state_persistence_failed'
    | 'quarantine_storage_failed'
    | 'replica_apply_failed'
  readonly run: () => Promise<T>
  /** The allowed outcome in the reference's present state; an array: any of them. 'either': it depends on reads, or on other operations. */
  readonly expected: () => Expected | readonly Expected[]
  /** Checks an answer, if nothing was lost since the call. */
  readonly check?: (value: T, frames: readonly TracedFrame[]) => void
  /** Called on every refusal. */
  readonly checkRefused?: () => void
  /** The operation is answered when it is taken, before it is stored. */
  readonly unconfirmed?: boolean
  readonly cause?: Partial<Omit<Cause, 'frames'>>
}

interface Asked {
  readonly name: string
  readonly expected: () => Expected | readonly Expected[]
  /** Frames that were on their way to the disk at the call. */
  readonly before: readonly TracedFrame[]
  /** Outcomes allowed at the call, or when the broker may have decided again after a loss. */
  possible: Expected[]
  /** Something was lost since the call. */
  isTroubled: boolean
}

export class Asking {
  readonly world: BrokerWorld
  readonly trace: Trace
  /** Calls so far. */
  operations = 0
  readonly #pending = new Set<Asked>()

  constructor(world: BrokerWorld, trace: Trace) {
    this.world = world
    this.trace = trace
    trace.changed = (isLoss) => {
      for (const asked of this.#pending) {
        if (isLoss) asked.isTroubled = true
        const isAgain = isLoss && asked.before.some(({ state, wasStored }) => state === 'lost' && !wasStored)
        if (isAgain) asked.possible = [] // the first decision was never told
        if (asked.isTroubled) asked.possible = asked.possible.concat(asked.expected())
      }
    }
  }

  /** Names of operations without an answer. */
  get pending(): readonly string[] {
    return Array.from(this.#pending, ({ name }) => name)
  }

  /** The process has ended: answers to its operations no longer count. */
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
      if (!this.#pending.delete(asked)) return // called in an earlier life of the process
      this.trace.attempt(() => {
        const isLost = before.some(({ state }) => state === 'lost')
        const isSettled = before.every(({ wasStored }) => wasStored)
        const { outcome } = pending
        const { possible } = asked
        const isJudgedAnew = losses < this.trace.losses // what the expectation is based on may be lost
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
          assert.ok(isSettled || isLost, `${name} was refused for what is not stored`) // isLost: decided again after a loss
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

/** The calls of one kind of client. */
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

  /** Calls so far. */
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

  /** Number of audit events among the frames of an operation. */
  protected auditedBy(frames: readonly TracedFrame[]): number {
    return frames.filter(({ type, payload }) => {
      if (type === FRAME_DEAD_LETTER || type === FRAME_REDRIVE) return true
      const change = decodeChange(payload)
      return change !== null && 'audit_offset' in change && change.audit_offset !== null
    }).length
  }
}

/** Codes for what the broker finds only after it has read records, or that come true meanwhile. */
const MAY_TURN_OUT: ReadonlySet<string> = new Set([
  'lease_expired',
  'lease_not_active',
  'delivery_not_found',
  'missing_stream',
  'stream_not_found',
])

/** Names a frame in messages of failures. */
const nameOf = ({ type, payload, state }: TracedFrame): string =>
  `${decodeChange(payload)?.kind ?? `type ${type}`}, ${state}`

/** Frames that only prepare for others: no client sees their effect. */
function isPreparation({ payload }: TracedFrame): boolean {
  const change = decodeChange(payload)
  return change?.kind === 'group_created' || (change?.kind === 'stream_created' && change.audit_offset === null)
}

/** Frames that do not matter to the answer: preparations, notes beside it, what became due, and claims that waited for the new records. */
const isAside = (frame: TracedFrame): boolean =>
  isPreparation(frame) ||
  frame.type === FRAME_CLAIM ||
  decodeChange(frame.payload)?.kind === 'observation' ||
  (frame.type === FRAME_DEAD_LETTER && decodeDeadLetter(frame.payload)?.cause === 'expiry') ||
  (frame.type === FRAME_RESOLVE && decodeResolve(frame.payload)!.every(isOfNobody))

/** The broker itself released the lease: it is over, or its record could not be read. */
const isOfNobody = ({ verb, reason }: ResolveEntry): boolean => verb === 'release' && reason === undefined

const describeError = (outcome: Outcome<unknown>): string =>
  outcome.kind === 'refused' && outcome.error instanceof Error ? (outcome.error.stack ?? '') : JSON.stringify(outcome)
