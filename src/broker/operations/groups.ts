/** Consumer groups come into being with the first thing that is kept for them. */
import type { NewFrame } from '../../engine/decision.ts'
import type { Change } from '../frames/change.ts'
import type { Caller, GroupPath, StreamPin } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import type { Core } from '../engine/core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

/** The number of a group, and the frame that has to come before what is kept for it when it is not there yet. */
export function groupOf(
  core: Core,
  stream: StreamState,
  name: string,
): { readonly number: number; readonly before: readonly NewFrame<Change>[] } {
  const existing = stream.groups.get(name)
  if (existing) return { number: existing.number, before: NONE }
  const number = core.state.groups.length
  const created = {
    kind: 'group_created',
    group_number: number,
    stream_number: stream.number,
    group: name,
    at_ms: core.time.wallMs(),
  } as const
  return { number, before: [core.changeFrame(created, 'admit')] }
}

const NONE: readonly never[] = []

/** The stream of a group whose place is to be set. Refused unless records from `offset` on can be there. */
export function settableStream(core: Core, caller: Caller, path: GroupPath, offset: number): StreamState | BrokerError {
  const stream = ownStream(core, caller, path.stream)
  if (stream instanceof Error) return stream
  if (offset > stream.nextOffset) return behindEnd('offset', stream)
  if (offset >= stream.floor) return stream
  return refuse('write_not_allowed', `retention has removed what is below offset ${stream.floor}`)
}

/** One that callers may change: not the audit stream. */
export const ownStream = (core: Core, caller: Caller, name: string): StreamState | BrokerError =>
  name === AUDIT_STREAM
    ? refuse('write_not_allowed', `${AUDIT_STREAM} is written by the broker only`)
    : core.stream(caller, name, 'stream_not_found')

/** Refused when the name was another stream's when it was asked for first, or is another's than the client means. */
export function pinned(
  pin: StreamPin,
  stream: StreamState,
  missing: 'stream_not_found' | 'missing_stream',
): StreamState | BrokerError {
  const { number, createdAtMs } = stream
  const isMeant = (pin.number ?? number) === number && (pin.createdAtMs ?? createdAtMs) === createdAtMs
  if (!isMeant) return refuse(missing, 'the stream was deleted, and another one has its name')
  pin.number = number
  pin.createdAtMs = createdAtMs
  return stream
}

export const behindEnd = (field: string, { nextOffset }: StreamState): BrokerError =>
  refuse('invalid_request', `${field} must not exceed the stream's next offset, ${nextOffset}`)
