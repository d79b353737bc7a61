/** Consumer groups come into being with the first thing that is kept for them. */
import { refuse } from '../refusals.ts'
import type { Caller, GroupPath } from '../operations.ts'
import type { Core, PersistFailure } from './core.ts'
import { AUDIT_STREAM } from './state.ts'
import type { Group, StreamState } from './state.ts'

/** @throws BrokerError */
export function ensureGroup(core: Core, stream: StreamState, name: string, failure: PersistFailure): Group {
  const existing = stream.groups.get(name)
  if (existing) return existing
  const number = core.state.groups.length
  core
    .change(
      {
        kind: 'group_created',
        group_number: number,
        stream_number: stream.number,
        group: name,
        at_ms: core.time.wallMs(),
      },
      { purpose: 'admit', failure },
    )
    .catch(() => {}) // the frame that needs the group is lost with it, and says so
  return core.state.groups[number]!
}

/** The stream of a route about a group, for inspection. The audit stream has no groups of its own, and is there nevertheless. */
export function streamOfGroup(core: Core, caller: Caller, { stream }: GroupPath): StreamState {
  return stream === AUDIT_STREAM ? core.auditStream(caller.tenant) : core.stream(caller, stream, 'stream_not_found')
}

export function refuseAuditStream(name: string): void {
  if (name === AUDIT_STREAM) throw refuse('write_not_allowed', `${AUDIT_STREAM} is written by the broker only`)
}
