/** What the broker answers about its storage: audit events, retention, archives, incidents. */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { Acknowledgement, ApiVersion, nullable } from './answers.ts'
import { Retention } from './record-answers.ts'

const AuditEventReply = Type.Object({
  event_id: Type.String(),
  kind: Type.String(),
  at_ms: Type.Integer(),
  tenant: Type.String(),
  principal: Type.String(),
  stream: nullable(Type.String()),
  detail: Type.Record(Type.String(), Type.Unknown()),
  offset: Type.Integer(),
})
/** Rendered by the reader threads; the schema is for the document. */
export const AuditPageReply = Type.Object({
  api_version: ApiVersion,
  events: Type.Array(AuditEventReply),
  event_count: Type.Integer(),
  next_offset: Type.Integer(),
  end_of_stream: Type.Boolean(),
})

export const RetentionPlanReply = Type.Object({
  stream: Type.String(),
  dry_run: Type.Literal(true),
  evaluated_at_ms: Type.Integer(),
  policy: Retention,
  first_offset: Type.Integer(),
  next_offset: Type.Integer(),
  planned_first_offset: Type.Integer({ description: 'first_offset after enforcement' }),
  cursor_floor_offset: nullable(
    Type.Integer({ description: 'records from here on are kept for the cursor of min_cursor_name' }),
  ),
  removable_records: Type.Integer(),
  removable_bytes: Type.Integer(),
  retained_records: Type.Integer(),
  retained_bytes: Type.Integer(),
})
export type RetentionPlanReply = Static<typeof RetentionPlanReply>

const SegmentEntry = Type.Object({
  segment: Type.String(),
  sealed: Type.Boolean(),
  records: Type.Integer({ description: 'of this stream' }),
  payload_bytes: Type.Integer({ description: 'of this stream' }),
  first_offset: Type.Integer(),
  last_offset: Type.Integer(),
})
export const TieringReadinessReply = Type.Object({
  stream: Type.String(),
  evaluated_at_ms: Type.Integer(),
  ready: Type.Boolean({ description: 'at least one segment could be moved to an archive' }),
  eligible_segments: Type.Array(SegmentEntry),
  eligible_records: Type.Integer(),
  eligible_bytes: Type.Integer(),
  blocked: Type.Array(Type.Object({ segment: Type.String(), reason: Type.String() })),
})
export type TieringReadinessReply = Static<typeof TieringReadinessReply>
export const ArchiveManifestReply = Type.Object({
  schema: Type.Literal('broker.archive_manifest.v1'),
  stream: Type.String(),
  created_at_ms: Type.Integer(),
  first_offset: Type.Integer(),
  next_offset: Type.Integer(),
  segments: Type.Array(
    Type.Object({
      segment: Type.String(),
      file: Type.String(),
      file_bytes: Type.Integer(),
      records: Type.Integer(),
      payload_bytes: Type.Integer(),
      first_offset: Type.Integer(),
      last_offset: Type.Integer(),
    }),
  ),
})
export type ArchiveManifestReply = Static<typeof ArchiveManifestReply>

const incidentFields = {
  incident_id: Type.String(),
  stream: Type.String(),
  state: Type.Union([Type.Literal('open'), Type.Literal('acknowledged')]),
  segment: Type.String(),
  first_offset: nullable(
    Type.Integer({ description: 'first offset of the records that cannot be read; null: unknown' }),
  ),
  last_offset: nullable(Type.Integer()),
  damaged_bytes: Type.Integer(),
  reason: Type.String(),
  acknowledged_at_ms: nullable(Type.Integer()),
  acknowledged_by: nullable(Type.String()),
  note: nullable(Type.String()),
}
export const IncidentEntry = Type.Object(incidentFields)
export type IncidentEntry = Static<typeof IncidentEntry>
export const QuarantineListReply = Type.Object({
  stream: Type.String(),
  incident_count: Type.Integer(),
  incidents: Type.Array(IncidentEntry),
})
export type QuarantineListReply = Static<typeof QuarantineListReply>
export const QuarantineAcknowledgeReply = Type.Object({ ...incidentFields, acknowledgement: Acknowledgement })
export type QuarantineAcknowledgeReply = Static<typeof QuarantineAcknowledgeReply>
