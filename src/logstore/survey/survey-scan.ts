/** A survey's scan of one segment: it counts everything that matches, and puts nothing onto a page. */
import assert from 'node:assert/strict'
import type { RowValuesReader } from '../compact/row-values.ts'
import type { Deadline } from '../query/deadline.ts'
import type { MatchedRows } from '../query/matched-rows.ts'
import { PageSelection } from '../query/page-selection.ts'
import { planQuery } from '../query/plan.ts'
import type { QueryPlan } from '../query/plan.ts'
import { SegmentScan } from '../query/scan.ts'
import type { ScanBounds } from '../query/scan.ts'
import type { QueryFilter } from '../query/cursor.ts'
import type { QueryTask, Question } from '../query/task.ts'
import type { RecordView } from '../search/record-view.ts'

/** Called with each record that matches. The view is there if the survey reads records, or columns do not say what it needs; it is valid during the call. */
export type Found = (timeHigh: number, timeLow: number, view: RecordView | null) => void

/** Counts records of compacted blocks without reading them. */
export interface BlockCounter {
  /** What it needs to know of each row; null: nothing. */
  readonly rowValues: RowValuesReader | null
  /**
   * Counts matching records whose times are in [earliest, latest].
   *
   * @param severityRows by severity: how many of the records have it; null: not known
   * @returns false: it counts nothing, and needs each of the records
   */
  countAtOnce(
    count: number,
    earliestHigh: number,
    earliestLow: number,
    latestHigh: number,
    latestLow: number,
    severityRows: Uint32Array | null,
  ): boolean
  /** @returns how many match */
  countRows(rows: MatchedRows): number
}

const NO_PAGE = new PageSelection(1, false)

export class SurveyScan extends SegmentScan {
  readonly #found: Found
  readonly #blocks: BlockCounter | null

  override readonly needsViews: boolean
  override readonly rowValues: RowValuesReader | null

  /** @param blocks null: each record is read */
  constructor(
    plan: QueryPlan,
    deadline: Deadline,
    bounds: ScanBounds,
    found: Found,
    blocks: BlockCounter | null = null,
  ) {
    super(plan, NO_PAGE, deadline, 0, bounds)
    this.#found = found
    this.#blocks = blocks
    this.needsViews = blocks === null
    this.rowValues = blocks?.rowValues ?? null
  }

  override countAtOnce(
    count: number,
    earliestHigh: number,
    earliestLow: number,
    latestHigh: number,
    latestLow: number,
    severityRows: Uint32Array | null = null,
  ): boolean {
    const isCounted =
      this.#blocks?.countAtOnce(count, earliestHigh, earliestLow, latestHigh, latestLow, severityRows) ?? false
    if (isCounted) this.matched += count
    return isCounted
  }

  override addMatch(_entry: number, timeHigh: number, timeLow: number, view: RecordView | null = null): void {
    this.matched++
    this.#found(timeHigh, timeLow, view)
  }

  override foundRows(rows: MatchedRows): void {
    assert(this.#blocks !== null) // else `needsViews` has all records read
    this.matched += this.#blocks.countRows(rows)
  }
}

/** Finds everything in the snapshot that passes the filter. @param readsRecords records are read, even without a search */
export function surveyPlan(
  { tenant, snapshot, expired }: Pick<QueryTask<Question>, 'tenant' | 'snapshot' | 'expired'>,
  dataset: string,
  filter: QueryFilter,
  readsRecords: boolean,
): QueryPlan {
  const plan = planQuery(tenant, dataset, filter, 'asc', null, snapshot.committed, expired)
  return readsRecords ? { ...plan, search: plan.search ?? { kind: 'all' } } : plan
}

/** True when the index alone finds the matching records, by time. */
export const isOfTimeOnly = ({ id, trace, search }: QueryPlan): boolean =>
  id === null && trace === null && search === null
