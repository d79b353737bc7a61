/**
 * Operations on streams, groups and cursors after their creation: update, purge, seek, delete. Each is one audited frame.
 *
 * Y1  a change that would break a promise is refused, and the refusal names what holds it: the stream is another's dead-letter stream, a
 *     cursor keeps records from retention, or records are still unsent to another site. `force` overrides this
 * Y2  what is deleted goes with all that was kept for it; a stream or group that has its name later is new (state S5)
 */
import { LATER } from '../../engine/decision.ts'
import type { Decision } from '../../engine/decision.ts'
import { StoreError } from '../../errors.ts'
import type { Change } from '../frames/change.ts'
import type { Caller, CopyRefusal, GroupPath, StreamPin } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import type { CursorDeleteReply, GroupDeleteReply, GroupSeekReply } from '../wire/group-answers.ts'
import type { DeleteStreamReply, PurgeStreamReply, UpdateStreamReply } from '../wire/record-answers.ts'
import type { PurgeStreamBody, SeekBody, UpdateStreamBody } from '../wire/requests.ts'
import { SYNCED } from '../engine/core.ts'
import type { Core, EventOfChange } from '../engine/core.ts'
import { cursorFloorOf } from '../engine/retention-plan.ts'
import { beyondEndRefusal, groupOf, ownStream, pinned, settableStream } from './groups.ts'
import { configOf } from './stream-config.ts'
import type { Group, StreamState } from '../state/state.ts'

const NAMED_MAX = 5
const BY_FORCE = { action: 'Change what holds it, or repeat the request with force=true.' }

type SeekTo = { readonly offset: number } | { readonly by: 'event' | 'ingest'; readonly timeMs: number }

export class LifeCycle {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  // Streams

  update(
    caller: Caller,
    name: string,
    body: UpdateStreamBody,
    force: boolean,
    copyRefusal: CopyRefusal = () => null,
  ): Decision<UpdateStreamReply, Change> {
    const core = this.#core
    const stream = ownStream(core, caller, name)
    if (stream instanceof Error) return stream
    const config = configOf(name, body, stream.config)
    if (config instanceof Error) return config
    const target = body.failure_policy === undefined ? null : (config.failure_policy?.dead_letter_stream ?? null)
    const denied = target === null ? null : copyRefusal(target)
    if (denied !== null) return denied
    const kept = stream.config.retention.min_cursor_name
    const held = force || kept === config.retention.min_cursor_name ? null : heldBy(stream, stream.nextOffset)
    if (held !== null) return held
    const { before, frame, atMs } = core.audited(caller, 'admit', (event) => {
      return { kind: 'stream_updated', ...event, stream_number: stream.number, stream: name, ...config }
    })
    return {
      kind: 'change',
      before,
      frame,
      reply: () => ({
        api_version: 'v1',
        stream: name,
        updated: true,
        ...config,
        updated_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  delete(caller: Caller, name: string, force: boolean): Decision<DeleteStreamReply, Change> {
    const core = this.#core
    const stream = ownStream(core, caller, name)
    if (stream instanceof Error) return stream
    const held = force
      ? null
      : (this.#targetOf(stream) ?? heldBy(stream, stream.nextOffset, false) ?? this.#unsent(stream, stream.nextOffset))
    if (held !== null) return held
    const removed = {
      removed_records: stream.readableBetween(stream.floor, stream.nextOffset),
      removed_bytes: stream.payloadBytes,
    }
    const { before, frame, atMs } = core.audited(caller, 'finish', (event) => ({
      kind: 'stream_deleted',
      ...event,
      stream_number: stream.number,
      stream: name,
      next_offset: stream.nextOffset,
      ...removed,
      forced: force,
    }))
    // Requests that wait for its records must not wait on: there will be none, even if a new stream gets its name.
    const onTaken = (): void => core.engine.parked.wake(stream.number)
    return {
      kind: 'change',
      before,
      frame: { ...frame, ...SYNCED, onTaken },
      reply: () => ({
        api_version: 'v1',
        stream: name,
        deleted: true,
        ...removed,
        deleted_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  /** Removes the records below an offset, from the stream that has the name at the first decision, never from a later one of that name. */
  purging(
    caller: Caller,
    name: string,
    body: PurgeStreamBody,
    force: boolean,
  ): () => Decision<PurgeStreamReply, Change> {
    const pin: StreamPin = { number: null, createdAtMs: null }
    return () => {
      const named = ownStream(this.#core, caller, name)
      const stream = named instanceof Error ? named : pinned(pin, named, 'stream_not_found')
      return stream instanceof Error ? stream : this.#purgeWhenRead(caller, stream, body, force)
    }
  }

  #purgeWhenRead(
    caller: Caller,
    stream: StreamState,
    body: PurgeStreamBody,
    force: boolean,
  ): Decision<PurgeStreamReply, Change> {
    const core = this.#core
    const refused = this.#purgeRefusal(stream, body.offset, force)
    if (refused !== null) return refused
    if (body.offset > stream.visibleNext) return LATER
    return {
      kind: 'read',
      read: async () => {
        await core.readable(stream)
        const { floor } = stream
        const removedBytes = await readingNow(core.reads.payloadBytesBetween(stream.index, floor, body.offset))
        return () => {
          if (!core.isCurrent(stream)) return refuse('stream_not_found', 'the stream was deleted meanwhile')
          if (stream.floor !== floor) return this.#purgeWhenRead(caller, stream, body, force) // the floor has risen meanwhile
          return (
            this.#purgeRefusal(stream, body.offset, force) ?? this.#purge(caller, stream, body, removedBytes, force)
          )
        }
      },
    }
  }

  #purge(
    caller: Caller,
    stream: StreamState,
    { offset, reason }: PurgeStreamBody,
    removedBytes: number,
    force: boolean,
  ): Decision<PurgeStreamReply, Change> {
    const core = this.#core
    const { floor, name } = stream
    const removedRecords = stream.readableBetween(floor, offset)
    const purged = Math.max(floor, offset)
    const { before, frame, atMs } = core.audited(caller, 'finish', (event) => ({
      kind: 'stream_purged',
      ...event,
      stream_number: stream.number,
      stream: name,
      floor: purged,
      previous_floor: floor,
      removed_bytes: removedBytes,
      reason: reason ?? null,
      forced: force,
    }))
    return {
      kind: 'change',
      before,
      frame: { ...frame, ...SYNCED, onTaken: () => core.holdAnswersUntilStored(stream) },
      reply: () => ({
        api_version: 'v1',
        stream: name,
        first_offset: purged,
        previous_first_offset: floor,
        removed_records: removedRecords,
        removed_bytes: removedBytes,
        purged_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  /** Null: it may be purged. */
  #purgeRefusal(stream: StreamState, offset: number, force: boolean): BrokerError | null {
    if (offset > stream.nextOffset) return beyondEndRefusal('offset', stream)
    return force || offset <= stream.floor ? null : (heldBy(stream, offset) ?? this.#unsent(stream, offset))
  }

  /** Y1. Null: no policy has unsent records below `end`. */
  #unsent(stream: StreamState, end: number): BrokerError | null {
    const [unsent] = this.#core.policies.unsentBelow(stream, end)
    if (unsent === undefined) return null
    const { policy, records } = unsent
    const count = records === 1 ? '1 record' : `${records} records`
    const what = `has still to send ${count} to site ${quoted(policy.targetSite)}`
    return refuse('write_not_allowed', `replication policy ${quoted(policy.name)} ${what}`, BY_FORCE)
  }

  /** Y1. Null: it is no dead-letter stream of another one. */
  #targetOf(stream: StreamState): BrokerError | null {
    const users: string[] = []
    for (const { name, config } of this.#core.state.streamsOf(stream.tenant)) {
      if (config.failure_policy?.dead_letter_stream === stream.name) users.push(name)
    }
    if (users.length === 0) return null
    return refuse('write_not_allowed', `the stream is the dead-letter stream of ${named(users)}`, BY_FORCE)
  }

  // Groups and cursors

  deleteGroup(caller: Caller, path: GroupPath, force: boolean): Decision<GroupDeleteReply, Change> {
    const core = this.#core
    const group = this.#group(caller, path)
    if (group instanceof Error) return group
    const kept = group.stream.config.retention.min_cursor_name
    if (!force && kept !== null && group.cursors.has(kept)) return holdsRetention([path.group], kept)
    // Claims that wait under its name can now have what it had leased.
    const onStored = (): void => core.engine.parked.wake(group.stream.number, path.group)
    const deleted = (event: EventOfChange): Change => {
      return {
        kind: 'group_deleted',
        ...event,
        group_number: group.number,
        stream: path.stream,
        group: path.group,
        forced: force,
      }
    }
    const { before, frame, atMs } = core.audited(caller, 'finish', deleted, onStored)
    return {
      kind: 'change',
      before,
      frame,
      reply: () => ({
        api_version: 'v1',
        stream: path.stream,
        consumer_group: path.group,
        deleted: true,
        deleted_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  deleteCursor(caller: Caller, path: GroupPath, cursor: string, force: boolean): Decision<CursorDeleteReply, Change> {
    const core = this.#core
    const group = this.#group(caller, path)
    if (group instanceof Error) return group
    const present = group.cursors.get(cursor)
    if (present === undefined) return refuse('not_found', 'the group has no cursor of this name', LIST_FIRST)
    const kept = group.stream.config.retention.min_cursor_name
    if (!force && kept === cursor) return holdsRetention([path.group], kept)
    const { before, frame, atMs } = core.audited(caller, 'finish', (event) => ({
      kind: 'cursor_deleted',
      ...event,
      group_number: group.number,
      stream: path.stream,
      group: path.group,
      cursor,
      offset: present.offset,
      forced: force,
    }))
    return {
      kind: 'change',
      before,
      frame,
      reply: () => ({
        api_version: 'v1',
        stream: path.stream,
        consumer_group: path.group,
        cursor,
        offset: present.offset,
        deleted: true,
        deleted_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  /** Makes the group process its stream again from an offset on, or from the first record of a time on. */
  seek(caller: Caller, path: GroupPath, body: SeekBody): Decision<GroupSeekReply, Change> {
    const core = this.#core
    const to = seekTo(body)
    if (to instanceof Error) return to
    if ('offset' in to) return this.#seek(caller, path, to.offset, body.reason)
    const stream = ownStream(core, caller, path.stream)
    if (stream instanceof Error) return stream
    return {
      kind: 'read',
      read: async () => {
        await core.readable(stream)
        const end = stream.visibleNext
        const found = await readingNow(core.reads.firstAtOrAbove(stream.index, to.by, to.timeMs, end))
        return () =>
          core.isCurrent(stream)
            ? this.#seek(caller, path, Math.max(found, stream.floor), body.reason)
            : this.seek(caller, path, body)
      },
    }
  }

  #seek(caller: Caller, path: GroupPath, offset: number, reason: string): Decision<GroupSeekReply, Change> {
    const core = this.#core
    const stream = settableStream(core, caller, path, offset)
    if (stream instanceof Error) return stream
    const group = groupOf(core, stream, path.group)
    const previous = Math.max(stream.floor, stream.groups.get(path.group)?.queue.progressOffset() ?? 0)
    const sought = (event: EventOfChange): Change => ({
      kind: 'group_sought',
      ...event,
      group_number: group.number,
      stream: path.stream,
      group: path.group,
      offset,
      previous_offset: previous,
      reason,
    })
    const onStored = (): void => core.engine.parked.wake(stream.number, path.group)
    const { before, frame, atMs } = core.audited(caller, 'finish', sought, onStored)
    return {
      kind: 'change',
      before: [...group.before, ...before],
      frame,
      reply: () => ({
        api_version: 'v1',
        stream: path.stream,
        consumer_group: path.group,
        offset,
        previous_offset: previous,
        reason,
        sought_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  #group(caller: Caller, path: GroupPath): Group | BrokerError {
    const stream = ownStream(this.#core, caller, path.stream)
    if (stream instanceof Error) return stream
    const missing = 'the stream has no consumer group of this name'
    return stream.groups.get(path.group) ?? refuse('not_found', missing, LIST_FIRST)
  }
}

const LIST_FIRST = { action: 'List the consumer groups of the stream and their cursors.' }

function seekTo({ offset = null, event_time_ms = null, ingest_time_ms = null }: SeekBody): SeekTo | BrokerError {
  if ([offset, event_time_ms, ingest_time_ms].filter((given) => given !== null).length !== 1) {
    return refuse('invalid_request', 'one of offset, event_time_ms and ingest_time_ms must be given')
  }
  if (offset !== null) return { offset }
  if (event_time_ms !== null) return { by: 'event', timeMs: event_time_ms }
  return { by: 'ingest', timeMs: ingest_time_ms! } // the only one that is left
}

/**
 * Y1. Names what keeps records below `end` from removal; null: nothing does.
 *
 * @param end               records below are to be removed
 * @param holdsWithoutCursor whether all records are kept if no group has the cursor of the stream's rule, as in retention
 */
function heldBy(stream: StreamState, end: number, holdsWithoutCursor = true): BrokerError | null {
  const name = stream.config.retention.min_cursor_name
  if (name === null || stream.floor >= end || cursorFloorOf(stream)! >= end) return null
  const holders: string[] = []
  for (const group of stream.groups.values()) {
    if ((group.cursors.get(name)?.offset ?? end) < end) holders.push(group.name)
  }
  if (holders.length > 0) return holdsRetention(holders, name)
  if (!holdsWithoutCursor) return null
  const message = `retention.min_cursor_name keeps the records, as no consumer group has a cursor named ${quoted(name)}`
  return refuse('write_not_allowed', message, BY_FORCE)
}

const holdsRetention = (groups: readonly string[], cursor: string): BrokerError =>
  refuse(
    'write_not_allowed',
    `retention is held by the cursor ${quoted(cursor)} of consumer group ${named(groups)}`,
    BY_FORCE,
  )

const quoted = (name: string): string => JSON.stringify(name)

function named(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_MAX).map(quoted).join(', ')
  return names.length > NAMED_MAX ? `${shown} and ${names.length - NAMED_MAX} more` : shown
}

/** Makes failures that pass retryable: records are being moved, or a thread died. */
async function readingNow<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'records_unavailable') throw error
    throw refuse('internal_error', 'the records cannot be read at present: repeat the request', { retryable: true })
  }
}
