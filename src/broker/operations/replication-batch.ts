/**
 * A batch for another site: which records it has, and how they become the body of a request.
 *
 * B1  `next` is the offset that the target expects: all offsets from there on are in the batch, as a record or in a skipped range
 * B2  a batch has only records that no power cut can take, whatever their class: the offsets of others might be given again
 * B3  all records of a batch have passed through the same sites
 */
import type { ReplicationPolicy } from '../../config/replication-binding.ts'
import { StoreError } from '../../errors.ts'
import type { Core } from '../engine/core.ts'
import { IntervalSet } from '../interval-set.ts'
import { REPLICATION_BATCH_BYTES_MAX } from '../limits.ts'
import { Places } from '../records/places.ts'
import type { StreamState } from '../state/state.ts'

const RANGES_MAX = 1000

export interface PlannedBatch {
  readonly next: number
  /** Offset of the first record. */
  readonly first: number
  /** Offset behind the last record. */
  readonly end: number
  /** Offsets from `next` on that have no record in the batch. */
  readonly passed: IntervalSet
  /** B3 */
  readonly via: readonly string[]
}

export interface BatchLimits {
  readonly recordsMax: number
  /** Records below are gone for good: a target that expects them continues here. */
  readonly floor: number
  /** How long the target waits for the batches before this one. */
  readonly waitMs: number
}

export interface Batch {
  readonly body: Buffer
  readonly records: number
  /** Offset behind the last record that was read. */
  readonly end: number
}

/** Null: there is nothing to send. `end` is `first` when none of the records is durable yet (B2). */
export function planBatch(
  core: Core,
  stream: StreamState,
  policy: ReplicationPolicy,
  next: number,
  recordsMax: number,
): PlannedBatch | null {
  const { policies } = core
  const first = policies.firstUnsent(stream, policy, next)
  if (first >= stream.visibleNext) return null
  const sets = policies.skippedOffsets(stream, policy)
  const forwarded = policies.forwarded(stream, policy)
  const own = forwarded.find(({ offsets }) => offsets.has(first))
  let limit = own === undefined ? stream.visibleNext : own.offsets.firstGap(first)
  for (const each of forwarded) if (each !== own) limit = Math.min(limit, each.offsets.nextCovered(first))
  const passed = new IntervalSet()
  passed.add(next, first)
  let at = first
  for (let left = recordsMax; at < limit && left > 0 && passed.intervalCount < RANGES_MAX;) {
    const runEnd = sets.reduce((end, set) => Math.min(end, set.nextCovered(at)), Math.min(limit, at + left))
    left -= runEnd - at
    const resume = Math.min(limit, policies.firstUnsent(stream, policy, runEnd))
    if (left > 0) passed.add(runEnd, resume)
    at = left > 0 ? resume : runEnd
  }
  return { next, first, end: durableEnd(core, stream, first, at), passed, via: own?.sites ?? [] }
}

/** B2. Places ascend with offsets, except for moved records: the batch ends before these until they are durable at their new place. */
function durableEnd({ log }: Core, { index }: StreamState, first: number, end: number): number {
  let low = first
  let high = end
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const place = new Places(1)
    const isDurable = !index.find(middle, place) || place.segmentBase(0) + place.place(0) < log.committed
    if (isDurable) low = middle + 1
    else high = middle
  }
  return low
}

/** Null: the plan does not fit the stream any more. @throws StoreError when the records cannot be read now */
export async function readBatch(
  core: Core,
  stream: StreamState,
  policy: ReplicationPolicy,
  { next, first, end, passed, via }: PlannedBatch,
  { recordsMax, floor, waitMs }: BatchLimits,
): Promise<Batch | null> {
  const limits = { maxRecords: recordsMax, maxPayloadBytes: REPLICATION_BATCH_BYTES_MAX }
  const page = await core.reads.originsPage(stream.index, first, end, limits, passed)
  try {
    core.reportUnreadable(stream, page.unreadable)
    const missing = page.unreadable.find(({ cause }) => cause !== 'damaged')
    if (missing) throw new StoreError('unavailable', 'records_unavailable', missing.reason)
    if (page.unreadable.length > 0 || page.returned === 0 || !core.isCurrent(stream) || stream.floor > first)
      return null
    const head = {
      source_site: policy.sourceSite,
      target_site: policy.targetSite,
      policy: policy.name,
      tenant: stream.tenant,
      stream: stream.name,
      origin_first_offset: Math.min(floor, first),
      origin_created_at_ms: stream.createdAtMs,
      ...(via.length > 0 && { via_sites: via }),
      ...(waitMs > 0 && { wait_millis: waitMs }),
      skipped_ranges: rangesBetween(passed, next, page.nextOffset),
    }
    const body = Buffer.concat([
      Buffer.from(`${JSON.stringify(head).slice(0, -1)},"records":[`),
      page.bytes,
      Buffer.from(']}'),
    ])
    return { body, records: page.returned, end: page.nextOffset }
  } finally {
    page.bytesDone()
  }
}

function rangesBetween(passed: IntervalSet, from: number, end: number): (readonly [number, number])[] {
  const ranges: (readonly [number, number])[] = []
  for (const [begin, to] of passed.entries()) {
    if (begin < end && to > from) ranges.push([Math.max(begin, from), Math.min(to, end)])
  }
  return ranges
}
