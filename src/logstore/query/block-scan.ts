/**
 * A search in a compacted bundle, block by block in the order of the page: most blocks are ruled out by their filter and their severities, most records told
 * by what the texts and numbers of the block say, and only the others are read.
 *
 * B1  what it finds and counts is what reading every record would
 */
import { filterTestOf, judgeOf } from '../compact/block-search.ts'
import { BLOCK_ROWS_MAX } from '../compact/block-writer.ts'
import type { CompactBlock, CompactIndex } from '../compact/compact-index.ts'
import { DIFFERS, LOOK, MATCHES } from '../compact/verdict.ts'
import type { Verdict } from '../compact/verdict.ts'
import type { Search } from '../search/expression.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import type { RecordView } from '../search/record-view.ts'
import { isInRange, overlaps } from './plan.ts'
import type { SegmentScan } from './scan.ts'

/** Words of a time. */
const highOf = (time: bigint): number => Number(time >> 32n)
const lowOf = (time: bigint): number => Number(time & 0xffff_ffffn)

/** The search made ready to run on blocks. */
export class BlockSearch {
  readonly #judge: ReturnType<typeof judgeOf>
  readonly #mayMatch: ReturnType<typeof filterTestOf>
  readonly #matcher: SearchMatcher
  readonly #numbers = new Uint16Array(BLOCK_ROWS_MAX)

  constructor(search: Search, matcher: SearchMatcher) {
    this.#judge = judgeOf(search)
    this.#mayMatch = filterTestOf(search)
    this.#matcher = matcher
  }

  /** Tells the scan of the records that match among those of the partition that is to be searched. */
  run(scan: SegmentScan, index: CompactIndex, partition: number): void {
    const blocks = index.blocks.filter((block) => block.partition === partition)
    if (scan.plan.descending) blocks.reverse()
    for (const block of blocks) {
      scan.deadline.check()
      const { minTime, maxTime } = block
      if (!overlaps(scan.plan, highOf(minTime), lowOf(minTime), highOf(maxTime), lowOf(maxTime))) continue
      if (!this.#mayMatch(index.filter(block), block.severities)) continue
      const verdict = this.#judge(index.texts(block), index.shapes)
      if (verdict !== DIFFERS) this.#tell(scan, index, block, verdict)
    }
  }

  #tell(scan: SegmentScan, index: CompactIndex, block: CompactBlock, verdict: Verdict): void {
    const { rows, minTime, maxTime } = block
    let looks = 0
    let matches = 0
    for (let row = 0; row < rows; row++) {
      const its = typeof verdict === 'number' ? verdict : verdict[row]!
      if (its === MATCHES) matches++
      else if (its === LOOK) looks++
    }
    if (looks + matches === 0) return
    const [minHigh, minLow, maxHigh, maxLow] = [highOf(minTime), lowOf(minTime), highOf(maxTime), lowOf(maxTime)]
    const { plan } = scan
    const isCounted =
      looks === 0 &&
      scan.countsOnly &&
      scan.visible === index.entryCount &&
      isInRange(plan, minHigh, minLow) &&
      isInRange(plan, maxHigh, maxLow) &&
      !scan.mayShow(minHigh, minLow, maxHigh, maxLow)
    if (isCounted) {
      scan.matched += matches
      return
    }
    const keys = index.keys(block)
    const tell = (row: number, view: RecordView | null): void => {
      const entry = keys.entry[row]!
      const timeHigh = keys.timeHigh[row]!
      const timeLow = keys.timeLow[row]!
      if (entry < scan.visible && isInRange(plan, timeHigh, timeLow)) scan.found(entry, timeHigh, timeLow, view)
    }
    let count = 0
    for (let row = 0; row < rows; row++) {
      const its = typeof verdict === 'number' ? verdict : verdict[row]!
      if (its === LOOK || (its === MATCHES && scan.needsViews)) this.#numbers[count++] = row
      else if (its === MATCHES) tell(row, null)
    }
    if (count > 0) {
      const numbers = this.#numbers
      this.#matcher.run(index.readRecords(block), numbers, count, (at, view) => tell(numbers[at]!, view))
    }
  }
}
