/** Refusals of batches that cannot be stored now, or that do not fit. */
import { permanentRefusal, refusal } from '../refusals.ts'
import type { Refusal, RefusalKind } from '../refusals.ts'
import type { WindowVerdict } from '../tenants/admission-window.ts'

export const unavailable = (what: string): Refusal =>
  refusal('wal_unavailable', `nothing was stored: ${what}; send the batch again later`)

/** The first parts of a large batch are stored, and the next one was refused. */
export const storedInPart = (refused: Refusal): Refusal => ({
  ...refused,
  message: refused.message.replace('nothing was stored', 'the batch was stored in part'),
})

/** The log takes nothing, for good or while it restarts in place. */
export const logStopped = (): Refusal => unavailable('the log accepts nothing at present, see GET /health')

export const neverFits = (kind: RefusalKind, what: string): Refusal =>
  permanentRefusal(kind, `${what}: send smaller batches`)

export function exceeded(verdict: Exclude<WindowVerdict, { kind: 'admitted' }>): Refusal {
  const kind = verdict.of === 'records' ? 'record_quota_exceeded' : 'byte_quota_exceeded'
  if (verdict.kind === 'never')
    return neverFits(kind, `the batch has more ${verdict.of} than the tenant's whole window admits`)
  return refusal(
    kind,
    `the tenant's window has no room for the ${verdict.of} of this batch yet`,
    Math.max(1, Math.ceil(verdict.waitMs / 1000)),
  )
}
