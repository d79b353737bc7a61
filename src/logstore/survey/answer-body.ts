/** The common parts of survey answers, written as those of query answers. */
import type { QueryAnswer } from '../query/task.ts'
import type { SurveyTask } from './question.ts'

const encoder = new TextEncoder() // its result has its own buffer, which can be handed to another thread

/** A JSON answer. @param members come behind the tenant */
export const answerOf = ({ tenant, snapshot }: SurveyTask, members: Readonly<Record<string, unknown>>): QueryAnswer => {
  const ranges = snapshot.quarantined.length
  const body = {
    status: 'ok',
    api_version: 'v1',
    tenant_id: tenant,
    ...members,
    ...(ranges > 0 && { quarantined_ranges: ranges }),
  }
  return { kind: 'ok', body: encoder.encode(JSON.stringify(body)) }
}

export const answerBody = (
  task: SurveyTask,
  dataset: string,
  {
    matched,
    quarantined,
    scanned,
  }: { readonly matched: number; readonly quarantined: number; readonly scanned: number },
  usedIndexes: readonly string[],
  members: Readonly<Record<string, unknown>>,
): QueryAnswer =>
  answerOf(task, {
    dataset,
    matched_records: matched,
    ...members,
    used_indexes: usedIndexes,
    scanned_bundles: scanned,
    ...(quarantined > 0 && { quarantined_records: quarantined }),
  })
