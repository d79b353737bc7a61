/**
 * The target side of replication: another site's broker sends records, they are applied once. Source: specification "Replication",
 * contract "Broker".
 *
 * L1  a link (stream, source site, target site, policy) takes origin offsets in order, from 0 on. What it has taken or skipped before is ignored.
 *     Offsets that the source says it does not have are skipped. Any other gap is refused, after the wait that the batch asked for
 * L2  the records and the link's progress are one frame
 * L3  records that were at the target site before are refused: a circle of sites ends where it began
 */
import { LongString } from '../../../native-free-codecs/json-reader.ts'
import { replied } from '../../engine/decision.ts'
import type { Decision, NewFrame } from '../../engine/decision.ts'
import { FRAME_RECORDS_REPLICATED, encodeReplicatedRecords, replicatedRecordsBytes } from '../frames.ts'
import type { OriginSource } from '../frames.ts'
import type { Change } from '../frames/change.ts'
import { REPLICA_APPLY_PAYLOAD_BYTES_MAX, REPLICA_FRAME_PAYLOAD_BYTES } from '../limits.ts'
import type { Caller } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import type { ReplicaApplyReply } from '../wire/node-answers.ts'
import type { ReplicaApply } from '../wire/requests.ts'
import type { Core } from '../engine/core.ts'
import { expectedOf } from '../state/replication-state.ts'
import type { Link } from '../state/replication-state.ts'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from '../state/state.ts'
import type { Streams } from './streams.ts'

type ReplicatedRecords = ReplicaApply['records']

/** A batch, checked. */
interface Batch {
  readonly caller: Caller
  readonly name: string
  readonly link: Link
  readonly records: ReplicatedRecords
  /** The batch covers the origin offsets [from, end): each has a record, or is skipped. */
  readonly from: number
  readonly end: number
  /** The source no longer has records below this offset. */
  readonly originFirst: number
  readonly createdAtMs: number | null
  readonly source: OriginSource | null
}

const FAILURE = 'replica_apply_failed'
/** Where batches wait: no group has this name. */
const BATCHES = '\tbatches'

export class ReplicaTarget {
  readonly #core: Core
  readonly #streams: Streams

  constructor(core: Core, streams: Streams) {
    this.#core = core
    this.#streams = streams
  }

  apply(caller: Caller, body: ReplicaApply, mayWait: boolean): Decision<ReplicaApplyReply, Change> {
    const { engine, state } = this.#core
    const batch = batchOf(caller, body)
    if (batch instanceof Error) return batch
    const expected = this.#expected(batch)
    if (expected instanceof Error) return expected
    if (batch.from > Math.max(expected, batch.originFirst)) {
      const stream = state.stream(caller.tenant, body.stream)
      const waitMs = body.wait_millis ?? 0
      if (stream && mayWait && waitMs > 0 && !engine.parked.isFull) {
        const place = { number: stream.number, queue: BATCHES }
        return { kind: 'wait', place, waitMs, onAbandoned: () => {}, takesAny: false }
      }
      return refuse('replica_apply_gap', `the next expected origin offset is ${expected}`, {
        nextExpectedOffset: expected,
      })
    }
    return this.#append(batch, [])
  }

  /** L1. 0 for a link that has brought nothing yet. */
  #expected({ caller, name, link, createdAtMs }: Batch): number | BrokerError {
    const { state } = this.#core
    const stream = state.stream(caller.tenant, name)
    const known = stream?.replicated?.link(link)
    const isOlder = createdAtMs !== null && createdAtMs < (known?.createdAtMs ?? 0)
    if (!isOlder) return expectedOf(known, createdAtMs)
    return refuse('replica_apply_invalid', 'origin_created_at_ms is of a stream that was replaced by a later one')
  }

  /**
   * L2. Appends a large batch in several frames, one after the other, because together they may not fit into the log's memory. Records that
   * are stored need not be sent again. Meanwhile another batch may bring the same records.
   *
   * @param applied origin offsets of the records that were appended before
   */
  #append(batch: Batch, applied: readonly number[]): Decision<ReplicaApplyReply, Change> {
    const core = this.#core
    const { caller, name, records, end } = batch
    const expected = this.#expected(batch)
    if (expected instanceof Error) return expected
    const fresh = records.slice(records.findIndex(({ origin_offset }) => origin_offset >= expected))
    const isNew = records.length > 0 && records.at(-1)!.origin_offset >= expected
    const bodies = isNew ? ofOneFrame(fresh) : []
    const appended = [...applied, ...bodies.map(({ origin_offset }) => origin_offset)]
    const reply = (): ReplicaApplyReply => ({
      api_version: 'v1',
      stream: name,
      applied: appended.length,
      skipped: records.length - appended.length,
      next_expected_offset: Math.max(expected, end),
      target_watermark: core.state.stream(caller.tenant, name)?.visibleNext ?? 0,
      applied_origin_offsets: appended,
      acknowledgement: core.acknowledgement,
    })
    const isAll = bodies.length === (isNew ? fresh.length : 0)
    const brought = isNew ? bodies.at(-1)!.origin_offset + 1 : expected
    if (bodies.length === 0 && end <= brought) return replied(reply())
    const frames = this.#creationFor(batch)
    const number = this.#streamNumber(batch, frames.length)
    const ofRecords = bodies.length > 0 ? this.#recordsFrame(batch, number, bodies) : null
    if (ofRecords instanceof Error) return ofRecords
    if (ofRecords !== null) frames.push(ofRecords)
    if (isAll && end > brought) frames.push(this.#skippedFrame(batch, number))
    const frame = frames.pop()!
    if (isAll) return { kind: 'change', before: frames, frame, reply }
    return {
      kind: 'read',
      read: async () => {
        const notTaken = core.engine.appendSilently(frames)
        if (notTaken !== null) throw notTaken
        await core.store(frame, FAILURE)
        return () => this.#append(batch, appended)
      },
    }
  }

  /** Frames that create the stream if it does not exist yet. If they are lost, so are the records. */
  #creationFor({ caller, name }: Batch): NewFrame<Change>[] {
    if (this.#core.state.stream(caller.tenant, name) !== undefined) return []
    const { before, frame } = this.#streams.creation(caller, name, DEFAULT_STREAM_CONFIG)
    return [...before, frame]
  }

  /** @param before how many frames create the stream */
  #streamNumber({ caller, name }: Batch, before: number): number {
    const { state } = this.#core
    return state.stream(caller.tenant, name)?.number ?? state.streams.length + before - 1
  }

  #recordsFrame(batch: Batch, streamNumber: number, bodies: ReplicatedRecords): NewFrame<Change> | BrokerError {
    const core = this.#core
    const { caller, name, link, source } = batch
    const firstOffset = core.state.stream(caller.tenant, name)?.nextOffset ?? 0
    const first = bodies[0]!.origin_offset
    const follow = bodies.every(({ origin_offset }, i) => origin_offset === first + i)
    const replicated = {
      streamNumber,
      firstOffset,
      ingestTimeMs: core.time.wallMs(),
      ...link,
      firstOriginOffset: first,
      originOffsets: follow ? null : bodies.map(({ origin_offset }) => origin_offset),
      source,
      records: bodies.map((body) => ({
        messageId: body.message_id,
        payload: hex(body.payload_hex),
        key: body.key_hex === undefined || body.key_hex === null ? null : hex(body.key_hex),
        headers: body.headers ?? {},
        eventTimeMs: body.event_time_ms,
        sourceIngestTimeMs: body.ingest_time_ms,
      })),
    }
    const payloadBytes = replicatedRecordsBytes(replicated)
    if (payloadBytes > core.appender.payloadBytesMax) {
      return refuse(
        'replica_apply_too_large',
        `a single record must not exceed ${core.appender.payloadBytesMax} bytes`,
        {
          action: 'Shorten the record: it is too large in any batch.',
        },
      )
    }
    return {
      type: FRAME_RECORDS_REPLICATED,
      payloadBytes,
      encode: (target, at) => void encodeReplicatedRecords(target, at, replicated),
      purpose: 'admit',
      durability: core.localDisk,
      onTaken: () => core.engine.parked.wake(streamNumber, BATCHES),
      onStored: () => {
        core.counters.applied(bodies.length)
        const target = core.state.stream(caller.tenant, name)
        if (target) core.makeVisible(target, firstOffset + bodies.length)
      },
    }
  }

  #skippedFrame({ link, end, createdAtMs }: Batch, stream_number: number): NewFrame<Change> {
    const core = this.#core
    const skipped = {
      kind: 'replica_skipped',
      at_ms: core.time.wallMs(),
      stream_number,
      source_site: link.sourceSite,
      target_site: link.targetSite,
      policy: link.policy,
      next_expected_offset: end,
      origin_created_at_ms: createdAtMs,
    } as const
    return core.changeFrame(skipped, 'admit')
  }
}

/** Refused when the batch contradicts itself. */
function batchOf(caller: Caller, body: ReplicaApply): Batch | BrokerError {
  const { stream: name, source_site, target_site, policy, records } = body
  if (name === AUDIT_STREAM) return refuse('replica_apply_invalid', `${AUDIT_STREAM} is written by the broker only`)
  if ((body.tenant ?? caller.tenant) !== caller.tenant) {
    return refuse('replica_apply_invalid', 'tenant must be the tenant of the caller')
  }
  const via = body.via_sites ?? []
  if (via.includes(target_site)) return refuse('replica_apply_invalid', 'via_sites must not name the target site') // L3
  const originFirst = body.origin_first_offset ?? 0
  const extent = extentOf(records, body.skipped_ranges ?? [], originFirst)
  if (extent instanceof Error) return extent
  const bytes = records.reduce((sum, record) => sum + payloadBytesOf(record), 0)
  if (bytes > REPLICA_APPLY_PAYLOAD_BYTES_MAX) {
    return refuse('replica_apply_too_large', `payloads must not exceed ${REPLICA_APPLY_PAYLOAD_BYTES_MAX} bytes`)
  }
  const createdAtMs = body.origin_created_at_ms ?? null
  const saysMore = via.length > 0 || createdAtMs !== null
  const source = { ...(via.length > 0 && { via }), ...(createdAtMs !== null && { created_at_ms: createdAtMs }) }
  return {
    caller,
    name,
    link: { sourceSite: source_site, targetSite: target_site, policy },
    records,
    ...extent,
    originFirst,
    createdAtMs,
    source: saysMore ? source : null,
  }
}

/** The origin offsets that records and skipped ranges cover together. Refused when they leave a gap. */
function extentOf(
  records: ReplicatedRecords,
  ranges: readonly (readonly number[])[],
  originFirst: number,
): { readonly from: number; readonly end: number } | BrokerError {
  const offsets = records.map(({ origin_offset }) => origin_offset)
  if (offsets.some((offset, i) => i > 0 && offset <= offsets[i - 1]!)) {
    return refuse('replica_apply_invalid', 'records must have ascending origin offsets')
  }
  const pieces = [...offsets.map((offset) => [offset, offset + 1]), ...ranges].toSorted((a, b) => a[0]! - b[0]!) // pairs, says the schema
  const from = pieces[0]?.[0] ?? originFirst
  let end = from
  for (const [begin, to] of pieces) {
    if (begin !== end) {
      return refuse(
        'replica_apply_invalid',
        'records and skipped_ranges must follow on each other, without gap or overlap',
      )
    }
    end = to!
  }
  if (records.length > 0 && offsets[0]! < originFirst) {
    return refuse('replica_apply_invalid', 'records must not be below origin_first_offset')
  }
  return { from, end }
}

const hex = (hex: string | LongString) =>
  hex instanceof LongString ? hex.bytes : ({ text: hex, encoding: 'hex' } as const)

const payloadBytesOf = ({ payload_hex }: ReplicatedRecords[number]): number =>
  payload_hex instanceof LongString ? payload_hex.bytes.byteLength : payload_hex.length / 2

/** The first records, up to REPLICA_FRAME_PAYLOAD_BYTES together; one at least. */
function ofOneFrame(records: ReplicatedRecords): ReplicatedRecords {
  let bytes = 0
  const end = records.findIndex((record) => (bytes += payloadBytesOf(record)) > REPLICA_FRAME_PAYLOAD_BYTES)
  return end < 0 ? records : records.slice(0, Math.max(1, end))
}
