/**
 * The audit log of services that keep no audit stream: deletes, and changes of access, with the caller. One line for each, in the log of the
 * process at any level. It names things and people, never a payload or a secret.
 */
import type { Logger } from './logger.ts'

export type AuditLog = Pick<Logger, 'info'>

export const NO_AUDIT_LOG: AuditLog = { info: () => {} }

/** Message of each of its lines. */
export const AUDIT = 'audit'

export interface Changes {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly string[]
}

/** Changes from one map to another, by name; null: there are none. */
export function changesBetween<Value>(
  before: ReadonlyMap<string, Value>,
  after: ReadonlyMap<string, Value>,
  isSame: (one: Value, other: Value) => boolean,
): Changes | null {
  const added = [...after.keys()].filter((name) => !before.has(name))
  const removed = [...before.keys()].filter((name) => !after.has(name))
  const changed = [...after].flatMap(([name, value]) => {
    const old = before.get(name)
    return old === undefined || isSame(old, value) ? [] : [name]
  })
  return added.length + removed.length + changed.length === 0 ? null : { added, removed, changed }
}
