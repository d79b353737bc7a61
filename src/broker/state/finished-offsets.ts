/**
 * The offsets that a group has finished, with outcome and attempt. A group that acknowledged everything at its first attempt takes a
 * single interval.
 *
 * N1  an offset that was added stays, with its outcome and attempt, until retention drops it or it is to be processed again
 * N2  `deadLetterCount` is how many of them have that outcome
 * N3  the attempts that ended by expiry are remembered for the newest EXPIRIES_MAX of the offsets that have any
 */
import { TaggedIntervals } from './tagged-intervals.ts'

export type Outcome = 'acked' | 'nacked' | 'dead_lettered' | 'stopped'

interface Finished {
  readonly offset: number
  readonly attempt: number
  readonly outcome: Outcome
}

const EXPIRIES_MAX = 100_000
/** A tag is attempt * 4 + the outcome's index here, which is part of the checkpoint's format. */
const OUTCOMES: readonly Outcome[] = ['acked', 'nacked', 'dead_lettered', 'stopped']

export class FinishedOffsets {
  readonly #intervals: TaggedIntervals
  /** Offset to bits as in the delivery table, in the order of finishing. */
  readonly #expiredAttempts: Map<number, number>
  #firstUnfinished: number
  /** N2 */
  #deadLetterCount = 0

  constructor(floor = 0, intervals = new TaggedIntervals(), expiredAttempts = new Map<number, number>()) {
    this.#firstUnfinished = floor
    this.#intervals = intervals
    this.#expiredAttempts = expiredAttempts
    this.#countDeadLetters()
  }

  /** For the checkpoint. */
  get intervals(): TaggedIntervals {
    return this.#intervals
  }

  /** For the checkpoint. */
  get expiredAttempts(): ReadonlyMap<number, number> {
    return this.#expiredAttempts
  }

  get size(): number {
    return this.#intervals.size
  }

  /** N2 */
  get deadLetterCount(): number {
    return this.#deadLetterCount
  }

  get bytes(): number {
    return this.#intervals.bytes
  }

  has(offset: number): boolean {
    return this.#intervals.tagAt(offset) >= 0
  }

  /** 0 when the offset is not finished. */
  attemptAt(offset: number): number {
    const tag = this.#intervals.tagAt(offset)
    return tag < 0 ? 0 : attemptOf(tag)
  }

  /** Bit i: the finishing attempt - i ended by expiry. */
  expiredAttemptsAt(offset: number): number {
    return this.#expiredAttempts.get(offset) ?? 0
  }

  /** @param offset not finished */
  add(offset: number, attempt: number, outcome: Outcome, expiredAttempts: number): void {
    this.#intervals.set(offset, offset + 1, attempt * OUTCOMES.length + OUTCOMES.indexOf(outcome))
    if (outcome === 'dead_lettered') this.#deadLetterCount += 1
    if (expiredAttempts === 0) return
    this.#expiredAttempts.set(offset, expiredAttempts)
    if (this.#expiredAttempts.size <= EXPIRIES_MAX) return
    for (const oldest of this.#expiredAttempts.keys()) {
      this.#expiredAttempts.delete(oldest)
      break
    }
  }

  dropBelow(floor: number): void {
    this.#intervals.remove(0, floor)
    for (const offset of this.#expiredAttempts.keys()) if (offset < floor) this.#expiredAttempts.delete(offset)
    this.#firstUnfinished = Math.max(this.#firstUnfinished, floor)
    if (this.#deadLetterCount > 0) this.#countDeadLetters()
  }

  reopenFrom(from: number): void {
    this.#intervals.remove(from, Infinity)
    for (const offset of this.#expiredAttempts.keys()) if (offset >= from) this.#expiredAttempts.delete(offset)
    this.#firstUnfinished = Math.min(this.#firstUnfinished, from)
    if (this.#deadLetterCount > 0) this.#countDeadLetters()
  }

  /** First offset that is not finished, from the floor on. Only `reopenFrom` lowers it, so each interval is passed once. */
  firstUnfinished(): number {
    this.#firstUnfinished = this.#intervals.firstGap(this.#firstUnfinished)
    return this.#firstUnfinished
  }

  /** The lowest offset >= `offset` that is not finished. */
  firstUnfinishedFrom(offset: number): number {
    return this.#intervals.firstGap(offset)
  }

  /** Lowest finished offset >= from; Infinity when there is none. */
  next(from: number): number {
    return this.#intervals.nextCovered(from)
  }

  countBetween(from: number, to: number): number {
    return this.#intervals.coveredBetween(from, to)
  }

  /** The `max` highest ones, ascending. */
  newest(max: number): Finished[] {
    const newest: Finished[] = []
    for (const [from, to, tag] of this.#intervals.descending()) {
      const attempt = attemptOf(tag)
      const outcome = OUTCOMES[tag % OUTCOMES.length]!
      for (let offset = to - 1; offset >= from; offset--) {
        if (newest.length >= max) return newest.reverse()
        newest.push({ offset, attempt, outcome })
      }
    }
    return newest.reverse()
  }

  /** N2. Looks at every interval. */
  #countDeadLetters(): void {
    this.#deadLetterCount = 0
    for (const [from, to, tag] of this.#intervals.entries()) {
      if (OUTCOMES[tag % OUTCOMES.length] === 'dead_lettered') this.#deadLetterCount += to - from
    }
  }
}

const attemptOf = (tag: number): number => Math.floor(tag / OUTCOMES.length)
