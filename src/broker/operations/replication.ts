/**
 * The target side of replication: another site's broker sends records, they are applied once. Source: specification "Replication",
 * contract "Broker".
 *
 * L1  a link (stream, source site, target site, policy) takes origin offsets without gaps from 0 on; what it has taken before is skipped
 * L2  the records and the link's progress are one frame
 */
import { LongString } from '../../../native-free-codecs/json-reader.ts'
import { replied } from '../../engine/decision.ts'
import type { Decision, NewFrame } from '../../engine/decision.ts'
import { FRAME_RECORDS_REPLICATED, encodeReplicatedRecords, replicatedRecordsBytes } from '../frames.ts'
import type { Change } from '../frames/change.ts'
import { REPLICA_APPLY_PAYLOAD_BYTES_MAX, REPLICA_FRAME_PAYLOAD_BYTES } from '../limits.ts'
import type { Caller } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { ReplicaApplyReply, ReplicationStatusReply } from '../wire/node-answers.ts'
import type { ReplicaApply } from '../wire/requests.ts'
import type { Core } from '../engine/core.ts'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from '../state/state.ts'
import type { Link, StreamState } from '../state/state.ts'
import type { Streams } from './streams.ts'

type ReplicatedRecords = ReplicaApply['records']

const FAILURE = 'replica_apply_failed'

export class Replication {
  readonly #core: Core
  readonly #streams: Streams
  readonly #nodeId: string

  constructor(core: Core, streams: Streams, nodeId: string) {
    this.#core = core
    this.#streams = streams
    this.#nodeId = nodeId
  }

  status(caller: Caller): Decision<ReplicationStatusReply, Change> {
    return replied({
      api_version: 'v1',
      status: 'not_configured',
      node_id: this.#nodeId,
      runtime_boundary: 'in-process',
      scheduler: { state: 'not_configured' },
      transport: { state: 'not_configured' },
      workers: [],
      checkpoints: [],
      targets: Array.from(this.#core.state.links.values())
        .filter(({ stream }) => stream.tenant === caller.tenant)
        .map(({ stream, link, nextExpectedOffset }) => ({
          tenant: stream.tenant,
          stream: stream.name,
          source_site: link.sourceSite,
          target_site: link.targetSite,
          policy: link.policy,
          next_expected_offset: nextExpectedOffset,
          target_watermark: stream.visibleNext,
        })),
    })
  }

  apply(caller: Caller, body: ReplicaApply): Decision<ReplicaApplyReply, Change> {
    const core = this.#core
    const { stream: name, source_site, target_site, policy, records } = body
    if (name === AUDIT_STREAM) throw refuse('replica_apply_invalid', `${AUDIT_STREAM} is written by the broker only`)
    if ((body.tenant ?? caller.tenant) !== caller.tenant) {
      throw refuse('replica_apply_invalid', 'tenant must be the tenant of the caller')
    }
    const first = records[0]!.origin_offset
    if (records.some(({ origin_offset }, i) => origin_offset !== first + i)) {
      throw refuse('replica_apply_invalid', 'records must have ascending origin offsets without gaps')
    }
    const bytes = records.reduce((sum, record) => sum + payloadBytesOf(record), 0)
    if (bytes > REPLICA_APPLY_PAYLOAD_BYTES_MAX) {
      throw refuse('replica_apply_too_large', `payloads must not exceed ${REPLICA_APPLY_PAYLOAD_BYTES_MAX} bytes`)
    }
    const link: Link = { sourceSite: source_site, targetSite: target_site, policy }
    const expected = this.#expectedOf(core.state.stream(caller.tenant, name), link)
    if (first > expected) {
      throw refuse('replica_apply_gap', `the next expected origin offset is ${expected}`)
    }
    return this.#append(caller, name, link, records, [])
  }

  /** L1. Of a link that brought nothing yet, 0. */
  #expectedOf(stream: StreamState | undefined, link: Link): number {
    return (stream && this.#core.state.link(stream, link)?.nextExpectedOffset) ?? 0
  }

  /**
   * L2. Large batches in several frames, one after the other, as they need not fit into the log's memory together: what is stored of one
   * is not sent again. Meanwhile another batch may bring the same records.
   *
   * @param applied origin offsets of the records that were appended before
   */
  #append(
    caller: Caller,
    name: string,
    link: Link,
    records: ReplicatedRecords,
    applied: readonly number[],
  ): Decision<ReplicaApplyReply, Change> {
    const core = this.#core
    const first = records[0]!.origin_offset
    const expected = this.#expectedOf(core.state.stream(caller.tenant, name), link)
    const fresh = records.slice(Math.max(0, expected - first))
    const bodies = fresh.length === 0 ? fresh : ofOneFrame(fresh)
    const appended = [...applied, ...bodies.map(({ origin_offset }) => origin_offset)]
    const reply = (): ReplicaApplyReply => ({
      api_version: 'v1',
      stream: name,
      applied: appended.length,
      skipped: records.length - appended.length,
      next_expected_offset: Math.max(expected, first + records.length),
      target_watermark: core.state.stream(caller.tenant, name)?.visibleNext ?? 0,
      applied_origin_offsets: appended,
      acknowledgement: core.acknowledgement,
    })
    if (bodies.length === 0) return replied(reply())
    const { before, frame } = this.#frameOf(caller, name, link, bodies)
    if (bodies.length === fresh.length) return { kind: 'change', before, frame, reply }
    return {
      kind: 'read',
      read: async () => {
        for (const each of before) core.engine.appendSilently(each)
        await core.store(frame, FAILURE)
        return () => this.#append(caller, name, link, records, appended)
      },
    }
  }

  /** The creation of the stream before it, when it is not there yet: the records are lost with it. */
  #frameOf(
    caller: Caller,
    name: string,
    link: Link,
    bodies: ReplicatedRecords,
  ): { readonly before: readonly NewFrame<Change>[]; readonly frame: NewFrame<Change> } {
    const core = this.#core
    const stream = core.state.stream(caller.tenant, name)
    const creation = stream === undefined ? this.#streams.creation(caller, name, DEFAULT_STREAM_CONFIG) : null
    const before = creation === null ? [] : [...creation.before, creation.frame]
    const firstOffset = stream?.nextOffset ?? 0
    const replicated = {
      streamNumber: stream?.number ?? core.state.streams.length + before.length - 1,
      firstOffset,
      ingestTimeMs: core.time.wallMs(),
      ...link,
      firstOriginOffset: bodies[0]!.origin_offset,
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
      throw refuse(
        'replica_apply_too_large',
        `a single record must not exceed ${core.appender.payloadBytesMax} bytes`,
        {
          action: 'Shorten the record: it is too large in any batch.',
        },
      )
    }
    const frame: NewFrame<Change> = {
      type: FRAME_RECORDS_REPLICATED,
      payloadBytes,
      encode: (target, at) => void encodeReplicatedRecords(target, at, replicated),
      purpose: 'admit',
      durability: core.localDisk,
      onStored: () => {
        const target = core.state.stream(caller.tenant, name)
        if (target) core.makeVisible(target, firstOffset + bodies.length)
      },
    }
    return { before, frame }
  }
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
