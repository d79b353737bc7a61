/**
 * A search in a compacted bundle, block by block in the order of the page. Where the bundle itself knows how many rows match, the block is not read. Most
 * other blocks are ruled out by their filter and their severities, most records are decided by the texts and numbers of the block, and only the others
 * are read.
 *
 * B1  the search finds and counts exactly what reading every record would
 */
import { UNKNOWN, blockCountsOf } from '../compact/block-counts.ts'
import { filterTestOf, judgeOf } from '../compact/block-search.ts'
import { BLOCK_ROWS_MAX } from '../compact/block-writer.ts'
import type { BlockKeys, BlockTexts } from '../compact/block-reader.ts'
import type { CompactBlock } from '../compact/compact-directory.ts'
import type { CompactIndex } from '../compact/compact-index.ts'
import { UNKNOWN_VALUE } from '../compact/row-values.ts'
import { MATCHES, MUST_READ, NO_MATCH } from '../compact/verdict.ts'
import type { Verdict } from '../compact/verdict.ts'
import type { Search } from '../search/expression.ts'
import type { SearchMatcher } from '../search/matcher.ts'
import { highWord, lowWord } from '../time-words.ts'
import { MatchedRows, firstRowAt } from './matched-rows.ts'
import { isInRange, overlaps } from './plan.ts'
import type { SegmentScan } from './scan.ts'

/** The search made ready to run on blocks. */
export class BlockSearch {
  readonly #judge: ReturnType<typeof judgeOf>
  readonly #mayMatch: ReturnType<typeof filterTestOf>
  readonly #countsOf: ReturnType<typeof blockCountsOf>
  readonly #matcher: SearchMatcher
  readonly #numbers = new Uint16Array(BLOCK_ROWS_MAX)

  constructor(search: Search, matcher: SearchMatcher) {
    this.#judge = judgeOf(search)
    this.#mayMatch = filterTestOf(search)
    this.#countsOf = blockCountsOf(search)
    this.#matcher = matcher
  }

  /** Reports to the scan the matching records of the partition that is to be searched. */
  run(scan: SegmentScan, index: CompactIndex, partition: number): void {
    const blocks = index.blocksOf(partition)
    if (scan.plan.descending) blocks.reverse()
    const counts = this.#countsOf?.(index) ?? null
    for (const block of blocks) {
      scan.deadline.check()
      const { minTime, maxTime } = block
      if (!overlaps(scan.plan, highWord(minTime), lowWord(minTime), highWord(maxTime), lowWord(maxTime))) continue
      const count = counts?.(block) ?? UNKNOWN
      if (count === 0 || (count !== UNKNOWN && countAtOnce(scan, index, block, count))) continue
      if (!this.#mayMatch(index.filter(block), block)) continue
      const texts = index.texts(block)
      const verdict = this.#judge(texts, index.shapes)
      if (verdict === NO_MATCH) texts.free()
      else this.#tell(scan, index, block, texts, verdict)
    }
  }

  #tell(scan: SegmentScan, index: CompactIndex, block: CompactBlock, texts: BlockTexts, verdict: Verdict): void {
    const { rows } = block
    let looks = 0
    let matches = 0
    for (let row = 0; row < rows; row++) {
      const its = typeof verdict === 'number' ? verdict : verdict[row]!
      if (its === MATCHES) matches++
      else if (its === MUST_READ) looks++
    }
    if (looks + matches === 0 || (looks === 0 && countAtOnce(scan, index, block, matches))) return
    const keys = () => index.keys(block)
    const [from, to] = isInRangeWhole(scan, block) ? [0, rows] : rowsInRange(scan, keys())
    let seen = verdict
    if (scan.visible < index.entryCount) {
      const { entry } = keys()
      seen = byRow(verdict, rows).map((its, row) => (entry[row]! < scan.visible ? its : NO_MATCH))
    }
    const values = scan.rowValues?.(texts, index.shapes, seen) ?? null
    const choices = values?.choices ?? null
    let count = 0
    let told = 0
    for (let row = from; row < to; row++) {
      const its = typeof seen === 'number' ? seen : seen[row]!
      const needsView = its === MATCHES && (scan.needsViews || (choices !== null && choices[row] === UNKNOWN_VALUE))
      if (needsView || its === MUST_READ) this.#numbers[count++] = row
      else if (its === MATCHES) told++
    }
    if (count > 0) {
      const numbers = this.#numbers
      const { timeHigh, timeLow, entry } = keys()
      seen = byRow(seen, rows)
      for (let i = 0; i < count; i++) seen[numbers[i]!] = NO_MATCH // the matcher reports these
      this.#matcher.run(index.readRecords(block, texts), numbers, count, (at, view) => {
        const row = numbers[at]!
        scan.addMatch(entry[row]!, timeHigh[row]!, timeLow[row]!, view)
      })
    }
    if (told > 0) scan.foundRows(new MatchedRows(block, from, to, seen, values, keys))
  }
}

/** The verdicts of rows, in an array that may be changed. */
const byRow = (verdict: Verdict, rows: number): Uint8Array =>
  typeof verdict === 'number' ? new Uint8Array(rows).fill(verdict) : verdict

function isInRangeWhole({ plan }: SegmentScan, { minTime, maxTime }: CompactBlock): boolean {
  return isInRange(plan, highWord(minTime), lowWord(minTime)) && isInRange(plan, highWord(maxTime), lowWord(maxTime))
}

/** Rows [from, to) are in the time range. */
function rowsInRange({ plan }: SegmentScan, keys: BlockKeys): [from: number, to: number] {
  const rows = keys.timeHigh.length
  const from = firstRowAt(keys, plan.fromHigh, plan.fromLow, 0, rows)
  return [from, firstRowAt(keys, plan.toHigh, plan.toLow, from, rows)]
}

/** Counts the block's matching rows at once. False: the search has to find out which rows match. */
function countAtOnce(scan: SegmentScan, index: CompactIndex, block: CompactBlock, count: number): boolean {
  const [minHigh, minLow] = [highWord(block.minTime), lowWord(block.minTime)]
  const [maxHigh, maxLow] = [highWord(block.maxTime), lowWord(block.maxTime)]
  const isWhole = scan.visible === index.entryCount && isInRangeWhole(scan, block)
  const severityRows = count === block.rows ? block.severityRows : null
  return isWhole && scan.countAtOnce(count, minHigh, minLow, maxHigh, maxLow, severityRows)
}
