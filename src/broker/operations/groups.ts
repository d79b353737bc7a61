/** Consumer groups are created with the first thing that is kept for them. */
import type { NewFrame } from '../../engine/decision.ts'
import type { Change } from '../frames/change.ts'
import type { Caller, GroupPath, StreamPin } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import type { Core } from '../engine/core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

/** The number of a group, and the frame that must create it first if it does not exist yet. */
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

/** The stream in which a group or cursor is to be set to `offset`. Refused unless the stream can have records from there on. */
export function settableStream(core: Core, caller: Caller, path: GroupPath, offset: number): StreamState | BrokerError {
  const stream = ownStream(core, caller, path.stream)
  if (stream instanceof Error) return stream
  if (offset > stream.nextOffset) return beyondEndRefusal('offset', stream)
  if (offset >= stream.floor) return stream
  return refuse('write_not_allowed', `retention has removed what is below offset ${stream.floor}`)
}

/** A stream that callers may change, which the audit stream is not. */
export const ownStream = (core: Core, caller: Caller, name: string): StreamState | BrokerError =>
  name === AUDIT_STREAM
    ? refuse('write_not_allowed', `${AUDIT_STREAM} is written by the broker only`)
    : core.stream(caller, name, 'stream_not_found')

/** Refused when the name belonged to another stream at the first request, or when the client means another stream. */
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

export const beyondEndRefusal = (field: string, { nextOffset }: StreamState): BrokerError =>
  refuse('invalid_request', `${field} must not exceed the stream's next offset, ${nextOffset}`)
