/** Rows of a compacted block that match: those of [from, to) that the verdict names. They are in the order of time. */
import type { BlockKeys } from '../compact/block-reader.ts'
import type { CompactBlock } from '../compact/compact-directory.ts'
import type { RowValues } from '../compact/row-values.ts'
import { MATCHES } from '../compact/verdict.ts'
import type { Verdict } from '../compact/verdict.ts'
import { highWord, isBefore, lowWord } from '../time-words.ts'

export class MatchedRows {
  readonly from: number
  readonly to: number
  /** See SegmentScan.rowValues. */
  readonly values: RowValues | null
  readonly #verdict: Verdict
  readonly #block: CompactBlock
  readonly #readKeys: () => BlockKeys

  /** @param verdict of each row, or MATCHES for all */
  constructor(
    block: CompactBlock,
    from: number,
    to: number,
    verdict: Verdict,
    values: RowValues | null,
    readKeys: () => BlockKeys,
  ) {
    this.#block = block
    this.from = from
    this.to = to
    this.#verdict = verdict
    this.values = values
    this.#readKeys = readKeys
  }

  matches(row: number): boolean {
    const verdict = this.#verdict
    return typeof verdict === 'number' || verdict[row] === MATCHES
  }

  /** How many rows of [from, to) match. */
  count(from: number, to: number): number {
    const verdict = this.#verdict
    if (typeof verdict === 'number') return to - from
    let matches = 0
    for (let row = from; row < to; row++) if (verdict[row] === MATCHES) matches++
    return matches
  }

  keys(): BlockKeys {
    return this.#readKeys()
  }

  /** Time of a row of the range. For the first row of the block it reads no keys. */
  timeOf(row: number): readonly [high: number, low: number] {
    const { minTime } = this.#block
    if (row === 0) return [highWord(minTime), lowWord(minTime)]
    const { timeHigh, timeLow } = this.keys()
    return [timeHigh[row]!, timeLow[row]!]
  }

  /** Whether the whole block is before a time. Reads no keys. */
  endsBefore(timeHigh: number, timeLow: number): boolean {
    const { maxTime } = this.#block
    return isBefore(highWord(maxTime), lowWord(maxTime), timeHigh, timeLow)
  }

  /** The first row of the range from `from` on that is not before a time. */
  rowAt(timeHigh: number, timeLow: number, from: number): number {
    return firstRowAt(this.keys(), timeHigh, timeLow, from, this.to)
  }
}

/** The first of the rows [from, to) that is not before a time; `to` when all are before it. */
export function firstRowAt(
  { timeHigh, timeLow }: BlockKeys,
  high: number,
  low: number,
  from: number,
  to: number,
): number {
  let first = from
  let end = to
  while (first < end) {
    const middle = (first + end) >>> 1
    if (isBefore(timeHigh[middle]!, timeLow[middle]!, high, low)) first = middle + 1
    else end = middle
  }
  return first
}
