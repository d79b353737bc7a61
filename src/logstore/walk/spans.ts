/** Lists the datasets of a tenant, the names of their spans, and the traces that the spans belong to. */
import { Deadline } from '../query/deadline.ts'
import { planQuery } from '../query/plan.ts'
import { datasetsOf as datasetsIn } from '../query/several-scan.ts'
import type { QueryTask } from '../query/task.ts'
import { RecordViews } from './record-views.ts'
import { EMPTY_BODY } from './tasks.ts'
import type { DatasetsRequest, SpansRequest, WalkBody } from './tasks.ts'
import { walkInTime } from './time-walk.ts'
import { textOf } from './trace.ts'
import type { WalkParts } from './time-walk.ts'

/** Datasets of the tenant that the caller may read and that have records, expired or not. */
export function datasetsOf(
  { reader, nowMs }: WalkParts,
  { tenant, among = null, snapshot, deadlineAtMs }: QueryTask<DatasetsRequest>,
): readonly string[] {
  const deadline = new Deadline(deadlineAtMs, nowMs)
  const all = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
  const plan = planQuery(tenant, '', all, 'asc', null, snapshot.committed)
  const sources = reader.sourcesOf(snapshot, plan)
  reader.bundles.expectIndexes(sources)
  const names = new Set<string>()
  for (const source of sources) {
    deadline.check()
    const found =
      source.kind === 'active'
        ? datasetsIn(source.index, tenant)
        : reader.inBundle(source, (index) => datasetsIn(index, tenant))
    for (const name of found.keys()) if (among === null || among.includes(name)) names.add(name)
  }
  return [...names].sort()
}

const KINDS = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer']

/** The different names or trace ids of spans, newest first. A name is written as `<kind> <name>`. */
export function spansStep(parts: WalkParts, task: QueryTask<SpansRequest>): WalkBody {
  const { request } = task
  const names = new Set<string>()
  const views = new RecordViews()
  let records = 0
  const timeRequest = { ...request, order: 'desc' as const }
  const { resume, quarantined } = walkInTime(
    parts,
    { ...task, request: timeRequest },
    {
      make({ batch, number }) {
        const view = views.of(batch, number)
        if (request.of === 'traces') return textOf(view.field('trace_id'))
        return `${KINDS[Number(view.field('kind'))] ?? KINDS[0]} ${textOf(view.field('name'))}`
      },
      take(name) {
        records++
        if (name !== '') names.add(name)
        return names.size >= request.limit
      },
    },
  )
  return { ...EMPTY_BODY, names: [...names], resume, records, quarantined }
}
