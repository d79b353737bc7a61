/** One segment's part of a survey: everything that matches is told, nothing comes onto a page. */
import { UNKNOWN_SEVERITY } from '../compact/row-severities.ts'
import type { Deadline } from '../query/deadline.ts'
import { PageSelection } from '../query/page-selection.ts'
import { planQuery } from '../query/plan.ts'
import type { QueryPlan } from '../query/plan.ts'
import { SegmentScan } from '../query/scan.ts'
import type { ScanBounds } from '../query/scan.ts'
import type { QueryFilter } from '../query/cursor.ts'
import type { QueryTask, Question } from '../query/task.ts'
import type { RecordView } from '../search/record-view.ts'

/** So many records match, of times in [earliest, latest], and so many of them have each severity, if that is known. False: it wants each of them. */
export type FoundMany = (
  count: number,
  earliestHigh: number,
  earliestLow: number,
  latestHigh: number,
  latestLow: number,
  severityRows: Uint32Array | null,
) => boolean

/** One record that matches. The view is there when the survey reads records, and valid during the call; if it reads severities, one of both is. */
export type Found = (timeHigh: number, timeLow: number, view: RecordView | null, severity: number) => void

const NO_PAGE = new PageSelection(1, false)

export class SurveyScan extends SegmentScan {
  readonly #found: Found
  readonly #foundMany: FoundMany

  override readonly needsViews: boolean
  override readonly needsSeverities: boolean

  /** @param needs what of the records `found` looks at */
  constructor(
    plan: QueryPlan,
    deadline: Deadline,
    bounds: ScanBounds,
    found: Found,
    needs: 'nothing' | 'severities' | 'records' = 'records',
    foundMany: FoundMany = () => false,
  ) {
    super(plan, NO_PAGE, deadline, 0, bounds)
    this.#found = found
    this.#foundMany = foundMany
    this.needsViews = needs === 'records'
    this.needsSeverities = needs === 'severities'
  }

  override countAtOnce(
    count: number,
    earliestHigh: number,
    earliestLow: number,
    latestHigh: number,
    latestLow: number,
    severityRows: Uint32Array | null = null,
  ): boolean {
    if (!this.#foundMany(count, earliestHigh, earliestLow, latestHigh, latestLow, severityRows)) return false
    this.matched += count
    return true
  }

  override found(
    _entry: number,
    timeHigh: number,
    timeLow: number,
    view: RecordView | null = null,
    severity = UNKNOWN_SEVERITY,
  ): void {
    this.matched++
    this.#found(timeHigh, timeLow, view, severity)
  }
}

/** Everything in the snapshot that the filter lets through. @param readsRecords the records are looked at, whether there is a search or not */
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
