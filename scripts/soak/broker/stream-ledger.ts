/**
 * What a client knows of one stream: which record stands at which offset, from answers to publishers and from what was shown.
 *
 *   offsets  | digests of whole blocks |  numbers of records  | … not known yet
 *            0                        base                verifiedEnd      storedEnd
 *
 * S1  an offset has one record for ever; a record was published once, so it stands at one offset
 * S2  offsets have no gaps: between the floor that retention left and the end every offset has its record
 * S3  what was acknowledged in a durable class, or was shown, is there after every start, and `next_offset` is behind it
 * S4  the floor only rises
 */
import assert from 'node:assert/strict'
import type { Random } from '../../../bench/load/random.ts'
import { BLOCK_OFFSETS, BlockDigests } from './block-digests.ts'
import type { Block } from './block-digests.ts'
import { OffsetColumn } from './offset-column.ts'
import type { StreamPlan } from './plan.ts'
import { RecordMaker } from './record-maker.ts'

export class StreamLedger {
  readonly plan: StreamPlan
  readonly name: string
  readonly maker: RecordMaker
  /** S4 */
  floor = 0
  /** Behind the highest offset that is known to be stored. */
  storedEnd = 0
  /** Every record below it was read, one after the other. */
  verifiedEnd = 0
  /** Records that were sent to the broker, stored or not. */
  sent = 0
  /** Below it only digests are left. */
  #base = 0
  /** Number of the record + 1. */
  readonly #numbers = new OffsetColumn()
  readonly #digests = new BlockDigests()
  /** Numbers of records that were refused in the end. */
  readonly #undone = new Set<number>()
  #seen = new Uint8Array(1024)

  constructor(plan: StreamPlan) {
    this.plan = plan
    this.name = plan.name
    this.maker = new RecordMaker(plan)
  }

  /** Numbers for so many records that will be published now; the first of them. */
  takeNumbers(count: number): number {
    this.sent += count
    return this.sent - count
  }

  /** So many records from a number on were not stored. */
  undone(first: number, count: number): void {
    for (let number = first; number < first + count; number++) this.#undone.add(number)
  }

  get base(): number {
    return this.#base
  }

  /** -1: not known. */
  numberAt(offset: number): number {
    return this.#numbers.get(offset) - 1
  }

  /** S1, S3: an answer said so, or it was shown. */
  stored(offset: number, number: number): void {
    this.storedEnd = Math.max(this.storedEnd, offset + 1)
    if (offset < this.#base) return
    const known = this.numberAt(offset)
    if (known === number) return
    const where = `offset ${offset} of ${this.name}`
    assert.equal(known, -1, `${where} has record ${number}, and had record ${known} before`)
    assert(number < this.sent, `${where} has record ${number}, which no actor published`)
    assert(!this.#undone.has(number), `${where} has record ${number}, which was refused`)
    assert(!this.#hasSeen(number), `${where} has record ${number}, which also has another offset`)
    this.#see(number)
    this.#numbers.set(offset, number + 1)
  }

  /** S4. @param floor that an answer showed; answers may overtake each other */
  floorShown(floor: number): void {
    this.floor = Math.max(this.floor, floor)
  }

  /** Forgets whole blocks below an offset, but for their digests. All below it was verified, or removed by retention. */
  forgetBelow(offset: number): void {
    for (let end = this.#base + BLOCK_OFFSETS; end <= offset; end += BLOCK_OFFSETS) {
      const ids = Array.from({ length: BLOCK_OFFSETS }, (_, i) => this.numberAt(this.#base + i))
      if (ids.every((number) => number >= 0)) this.#digests.add(ids.map((number) => this.maker.messageId(number)))
      else {
        assert(
          end - BLOCK_OFFSETS < this.floor,
          `a record of ${this.name} between ${this.#base} and ${end} was never seen`,
        )
        this.#digests.skip()
      }
      this.#base = end
    }
    this.#numbers.forgetBelow(this.#base)
  }

  /** An old block that retention left, to be read again. */
  oldBlock(random: Random): Block | null {
    return this.#digests.pick(random, this.floor)
  }

  #hasSeen(number: number): boolean {
    return ((this.#seen[number >>> 3] ?? 0) & (1 << (number & 7))) !== 0
  }

  #see(number: number): void {
    if (number >>> 3 >= this.#seen.length) {
      const seen = new Uint8Array(Math.max(2 * this.#seen.length, (number >>> 3) + 1))
      seen.set(this.#seen)
      this.#seen = seen
    }
    this.#seen[number >>> 3]! |= 1 << (number & 7)
  }
}
