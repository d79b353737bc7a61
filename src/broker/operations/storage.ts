/** Storage administration: plans of retention and tiering, quarantine incidents and their acknowledgement. */
import { replied, replyWhenFound } from '../../engine/decision.ts'
import type { Decision } from '../../engine/decision.ts'
import { StoreError } from '../../errors.ts'
import { SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import type { Change } from '../frames/change.ts'
import type { Caller, RetentionLimits } from '../operations.ts'
import { BrokerError, refuse } from '../refusals.ts'
import type * as wire from '../wire/types.ts'
import type { Core } from '../engine/core.ts'
import { incidentsOf, segmentId } from './incidents.ts'
import { planRetention } from '../engine/retention-plan.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

/** The part of the stream in one segment. */
interface Share {
  readonly base: number
  readonly entry: wire.TieringReadinessReply['eligible_segments'][number]
}

export class Storage {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  retentionPlan(caller: Caller, name: string, limits: RetentionLimits): Decision<wire.RetentionPlanReply, Change> {
    const stream = this.#stream(caller, name)
    return stream instanceof Error ? stream : replyWhenFound(() => this.#retentionPlan(stream, limits))
  }

  async #retentionPlan(stream: StreamState, limits: RetentionLimits): Promise<wire.RetentionPlanReply> {
    const core = this.#core
    const { name } = stream
    const plan = await planRetention(core, stream, limits)
    const { floor, index } = stream
    const bytesBetween = (from: number, end: number): Promise<number> =>
      name === AUDIT_STREAM ? Promise.resolve(0) : core.reads.payloadBytesBetween(index, from, end)
    const removableBytes = await bytesBetween(floor, plan.plannedFloor)
    const retainedBytes = await bytesBetween(plan.plannedFloor, plan.end)
    if (stream.floor > floor) return this.#retentionPlan(stream, limits) // retention came in between
    return {
      stream: name,
      dry_run: true,
      evaluated_at_ms: core.time.wallMs(),
      policy: {
        max_age_millis: plan.maxAgeMs,
        max_bytes: plan.maxBytes,
        min_cursor_name: plan.minCursorName,
      },
      first_offset: floor,
      next_offset: plan.end,
      planned_first_offset: plan.plannedFloor,
      cursor_floor_offset: plan.cursorFloor,
      removable_records: stream.readableBetween(floor, plan.plannedFloor),
      removable_bytes: removableBytes,
      retained_records: stream.readableBetween(plan.plannedFloor, plan.end),
      retained_bytes: retainedBytes,
    }
  }

  /** Segments that could be moved to cheaper storage: sealed, without damage, and no longer kept by the limits, if there are any. */
  tieringReadiness(
    caller: Caller,
    name: string,
    limits: RetentionLimits,
  ): Decision<wire.TieringReadinessReply, Change> {
    const stream = this.#stream(caller, name)
    if (stream instanceof Error) return stream
    return replyWhenFound(async () => {
      const { eligible, blocked } = await readNow(this.#tiering(stream, limits))
      return {
        stream: name,
        evaluated_at_ms: this.#core.time.wallMs(),
        ready: eligible.length > 0,
        eligible_segments: eligible.map(({ entry }) => entry),
        eligible_records: eligible.reduce((sum, { entry }) => sum + entry.records, 0),
        eligible_bytes: eligible.reduce((sum, { entry }) => sum + entry.payload_bytes, 0),
        blocked,
      }
    })
  }

  archiveManifest(caller: Caller, name: string, limits: RetentionLimits): Decision<wire.ArchiveManifestReply, Change> {
    const core = this.#core
    const stream = this.#stream(caller, name)
    if (stream instanceof Error) return stream
    return replyWhenFound(async () => {
      const { eligible } = await readNow(this.#tiering(stream, limits))
      const segments = eligible.flatMap(({ base, entry }) => {
        const segment = core.log.segments.find((each) => each.base === base)
        if (segment === undefined) return []
        const { segment: id, records, payload_bytes, first_offset, last_offset } = entry
        const fileBytes = segment.end - segment.base + SEGMENT_FOOTER_BYTES
        const file = segment.recordsPath.slice(core.log.directory.length + 1)
        return [{ segment: id, file, file_bytes: fileBytes, records, payload_bytes, first_offset, last_offset }]
      })
      return {
        schema: 'broker.archive_manifest.v1',
        stream: name,
        created_at_ms: core.time.wallMs(),
        first_offset: stream.floor,
        next_offset: stream.visibleNext,
        segments,
      }
    })
  }

  quarantine(caller: Caller, name: string): Decision<wire.QuarantineListReply, Change> {
    const stream = this.#stream(caller, name)
    if (stream instanceof Error) return stream
    const incidents = incidentsOf(this.#core, stream)
    return replied({ stream: name, incident_count: incidents.length, incidents })
  }

  acknowledgeQuarantine(
    caller: Caller,
    name: string,
    incidentId: string,
    body: wire.QuarantineAcknowledgeBody,
  ): Decision<wire.QuarantineAcknowledgeReply, Change> {
    const core = this.#core
    const stream = this.#stream(caller, name)
    if (stream instanceof Error) return stream
    const incident = incidentsOf(core, stream).find(({ incident_id }) => incident_id === incidentId)
    if (incident === undefined) return refuse('quarantine_not_found', 'the stream has no such incident')
    if (incident.state === 'acknowledged') {
      return refuse('write_not_allowed', 'the incident was acknowledged before')
    }
    const by = body.acknowledged_by ?? null
    const note = body.note ?? null
    const { before, frame, atMs } = core.audited(caller, 'finish', (event) => ({
      kind: 'quarantine_acknowledged',
      stream_number: stream.number,
      stream: stream.name,
      incident_id: incidentId,
      acknowledged_by: by,
      note,
      ...event,
    }))
    const told = { state: 'acknowledged', acknowledged_at_ms: atMs, acknowledged_by: by, note } as const
    return {
      kind: 'change',
      before,
      frame,
      reply: () => ({ ...incident, ...told, acknowledgement: core.acknowledgement }),
    }
  }

  async #tiering(
    stream: StreamState,
    limits: RetentionLimits,
  ): Promise<{ eligible: Share[]; blocked: wire.TieringReadinessReply['blocked'] }> {
    const core = this.#core
    const hasLimit = limits.maxAgeMs !== null || limits.maxBytes !== null
    const keptFrom = hasLimit ? (await planRetention(core, stream, limits)).plannedFloor : stream.visibleNext
    const damaged = new Set(core.log.incidents.map(({ segmentBase }) => segmentBase))
    const eligible: Share[] = []
    const blocked: { segment: string; reason: string }[] = []
    for (const share of stream.index.segments()) {
      const { segmentBase: base, firstOffset, lastOffset } = share
      const segment = core.log.segments.find((each) => each.base === base)
      if (segment === undefined) continue
      const id = segmentId(base)
      if (!segment.sealed) blocked.push({ segment: id, reason: 'the segment is still written to' })
      else if (damaged.has(base)) blocked.push({ segment: id, reason: 'the segment has a quarantine incident' })
      else if (lastOffset >= keptFrom) blocked.push({ segment: id, reason: 'the limits keep records of the segment' })
      else {
        const entry = {
          segment: id,
          sealed: true,
          records: share.records,
          payload_bytes: share.payloadBytes,
          first_offset: firstOffset,
          last_offset: lastOffset,
        }
        eligible.push({ base, entry })
      }
    }
    return { eligible, blocked }
  }

  #stream(caller: Caller, name: string): StreamState | Error {
    return this.#core.anyStream(caller, name, 'missing_stream')
  }
}

/** Refuses when a manifest needs records that cannot be read; the log of the node has the cause. */
async function readNow<T>(manifest: Promise<T>): Promise<T> {
  try {
    return await manifest
  } catch (cause) {
    if (!(cause instanceof StoreError) || cause instanceof BrokerError) throw cause
    const retryable = cause.kind === 'overloaded' || cause.kind === 'unavailable' // a thread that died is replaced
    throw refuse('tiering_manifest_failed', 'records that the limits depend on cannot be read now', {
      retryable,
      cause,
    })
  }
}
