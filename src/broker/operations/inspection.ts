/** Describes consumer groups, without payloads. A group that does not exist is described as a new one. */
import { replied, replyWhenFound } from '../../engine/decision.ts'
import type { Decision } from '../../engine/decision.ts'
import type { Change } from '../frames/change.ts'
import { DESCRIPTION_ENTRIES_MAX, LIST_ENTRIES_MAX, SLICE_ENTRIES } from '../limits.ts'
import type { Caller, GroupPath } from '../operations.ts'
import { GroupState } from '../state/group.ts'
import type { LeaseEntry } from '../state/group.ts'
import type { DelayedEntry } from '../state/group-listing.ts'
import type * as wire from '../wire/types.ts'
import type { Core } from '../engine/core.ts'
import { finishedOf, progressOf } from '../state/group-progress.ts'
import type { Group, StreamState } from '../state/state.ts'
import { READS_MAX } from './group-ages.ts'
import type { GroupAges } from './group-ages.ts'

export class Inspection {
  readonly #core: Core
  readonly #ages: GroupAges

  constructor(core: Core, ages: GroupAges) {
    this.#core = core
    this.#ages = ages
  }

  /** Made in slices: a group that is created meanwhile may be in the list or not. The first READS_MAX ages are exact. */
  groups(caller: Caller, name: string): Decision<wire.GroupListReply, Change> {
    const core = this.#core
    const stream = core.anyStream(caller, name)
    if (stream instanceof Error) return stream
    return replyWhenFound(async () => {
      const groups = Array.from(stream.groups.values())
      await this.#ages.read(groups.slice(0, READS_MAX))
      const listed: wire.GroupListReply['consumer_groups'] = []
      for (let from = 0; from < groups.length; from += SLICE_ENTRIES) {
        if (from > 0) await core.turn()
        for (const group of groups.slice(from, from + SLICE_ENTRIES)) {
          listed.push({
            consumer_group: group.name,
            ...this.#progressOf(stream, group.queue),
            cursor_count: group.cursors.size,
            oldest_unfinished_age_millis: this.#ages.of(group, core.time.wallMs()),
          })
        }
      }
      return { api_version: 'v1', stream: name, group_count: listed.length, consumer_groups: listed }
    })
  }

  #progressOf(stream: StreamState, queue: GroupState) {
    return {
      progress_offset: progressOf(stream, queue),
      lag_messages: stream.readableBetween(stream.floor, stream.nextOffset) - finishedOf(stream, queue),
      in_flight_count: queue.inFlight(this.#core.time.nowMs()),
      delayed_count: queue.delayedCount,
    }
  }

  describeGroup(caller: Caller, path: GroupPath): Decision<wire.GroupReply, Change> {
    return this.#of(caller, path, (stream, group) => {
      const queue = group?.queue ?? GroupState.create()
      return {
        mode: 'shared_queue',
        highest_next_offset: stream.nextOffset,
        ...this.#progressOf(stream, queue),
        cursors: cursorsOf(group),
        delayed_retries: queue.delayed(DESCRIPTION_ENTRIES_MAX).entries.map(delayedEntry),
      }
    })
  }

  /** Made in slices. */
  leases(caller: Caller, path: GroupPath, includeCompleted: boolean): Decision<wire.LeaseListReply, Change> {
    const { time, turn } = this.#core
    const stream = this.#core.anyStream(caller, path.stream)
    if (stream instanceof Error) return stream
    const group = stream.groups.get(path.group)
    const named = { api_version: 'v1', stream: path.stream, consumer_group: path.group } as const
    if (group === undefined) return replied({ ...named, lease_count: 0, leases: [], truncated: false })
    return replyWhenFound(async () => {
      const { entries, truncated } = group.queue.leases(time.nowMs(), includeCompleted, LIST_ENTRIES_MAX)
      const leases: wire.LeaseListReply['leases'] = []
      for (let from = 0; from < entries.length; from += SLICE_ENTRIES) {
        if (from > 0) await turn()
        leases.push(...this.#leaseEntries(group, entries.slice(from, from + SLICE_ENTRIES)))
      }
      return { ...named, lease_count: leases.length, leases, truncated }
    })
  }

  #leaseEntries({ number }: Group, entries: readonly LeaseEntry[]): wire.LeaseListReply['leases'] {
    const { tokens, time } = this.#core
    const nowMs = time.nowMs()
    const claims = entries.flatMap(({ claimNumber }) => claimNumber ?? [])
    const subscriptions = tokens.subscriptions(number, claims).values()
    const { deliveryIds } = tokens.claim(number, 0, entries)
    return entries.map(({ offset, attempt, state, claimNumber, leasedAtMs, expiresAtMs, reason }, i) => ({
      offset,
      attempt,
      state,
      subscription_id: claimNumber === null ? null : subscriptions.next().value!,
      delivery_id: deliveryIds[i]!,
      leased_at_ms: leasedAtMs,
      lease_expires_at_ms: expiresAtMs,
      lease_remaining_millis: expiresAtMs === null ? null : Math.max(0, expiresAtMs - nowMs),
      reason,
    }))
  }

  delayed(caller: Caller, path: GroupPath): Decision<wire.DelayedListReply, Change> {
    return this.#of(caller, path, (_stream, group) => {
      if (group === undefined) return { delayed_count: 0, delayed: [], truncated: false }
      const { entries, truncated } = group.queue.delayed(LIST_ENTRIES_MAX)
      return { delayed_count: group.queue.delayedCount, delayed: entries.map(delayedEntry), truncated }
    })
  }

  replayConsumers(caller: Caller, path: GroupPath): Decision<wire.ReplayConsumerListReply, Change> {
    return this.#of(caller, path, (_stream, group) => {
      const consumers = Array.from(group?.observations ?? [], ([consumerId, seen]) => ({
        consumer_id: consumerId,
        returned_records: seen.returnedRecords,
        end_of_stream: seen.endOfStream,
        next_offset: seen.nextOffset,
        observed_at_ms: seen.observedAtMs,
      }))
      return { replay_consumer_count: consumers.length, replay_consumers: consumers }
    })
  }

  cursors(caller: Caller, path: GroupPath): Decision<wire.CursorListReply, Change> {
    return this.#of(caller, path, (_stream, group) => {
      const cursors = cursorsOf(group)
      return { cursor_count: cursors.length, cursors }
    })
  }

  #of<T extends object>(caller: Caller, path: GroupPath, look: (stream: StreamState, group?: Group) => T) {
    const stream = this.#core.anyStream(caller, path.stream)
    if (stream instanceof Error) return stream
    const seen = look(stream, stream.groups.get(path.group))
    return replied({ api_version: 'v1', stream: path.stream, consumer_group: path.group, ...seen } as const)
  }
}

function cursorsOf(group: Group | undefined) {
  return Array.from(group?.cursors ?? [], ([cursor, { offset, updatedAtMs }]) => ({
    cursor,
    offset,
    updated_at_ms: updatedAtMs,
  }))
}

const delayedEntry = ({ offset, attempt, availableAtMs }: DelayedEntry) => ({
  offset,
  attempt,
  available_at_ms: availableAtMs,
})
