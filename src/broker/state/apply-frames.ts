/** Applies a frame to the state: live when the log took it, at a start when it is read. Frames take effect only here and in apply-change.ts. */
import {
  FRAME_CHANGE,
  FRAME_CLAIM,
  FRAME_DEAD_LETTER,
  FRAME_RECORDS,
  FRAME_RECORDS_REPLICATED,
  FRAME_REDRIVE,
  FRAME_RESOLVE,
  FrameRecords,
  decodeClaim,
  decodeDeadLetter,
  decodeOrigin,
  decodeRedrive,
  decodeResolve,
} from '../frames.ts'
import type { DecodedDeadLetter, DecodedRedrive } from '../frames.ts'
import { decodeChange } from '../frames/change.ts'
import { eventTimeOf } from '../records/audit-event.ts'
import { applyChange } from './apply-change.ts'
import type { BrokerState, Place, StreamState } from './state.ts'

interface Frame {
  readonly type: number
  readonly payload: Buffer
}

/** False when this version of the broker does not know the frame, or the frame is about a stream or group whose creation was lost to damage. */
export function applyFrame(state: BrokerState, frame: Frame, place: Place): boolean {
  switch (frame.type) {
    case FRAME_RECORDS:
      return applyRecords(state, frame, place) !== null
    case FRAME_RECORDS_REPLICATED:
      return applyReplicated(state, frame, place)
    case FRAME_CLAIM:
      return applyClaim(state, frame.payload)
    case FRAME_RESOLVE:
      return applyResolutions(state, frame.payload)
    case FRAME_DEAD_LETTER:
      return applyDeadLetter(state, frame, place)
    case FRAME_REDRIVE:
      return applyRedrive(state, frame, place)
    case FRAME_CHANGE:
      return applyChangeFrame(state, frame.payload, place)
    default:
      return false
  }
}

/** Adds only where records are, for a segment whose sidecar is missing while a checkpoint holds the rest. */
export function indexFrame(state: BrokerState, frame: Frame, place: Place): void {
  applyRecords(state, frame, place)
  if (frame.type === FRAME_DEAD_LETTER) {
    const deadLetter = decodeDeadLetter(frame.payload)
    if (deadLetter) applyEventOf(state, deadLetter, place)
  } else if (frame.type === FRAME_REDRIVE) {
    const redrive = decodeRedrive(frame.payload)
    if (redrive) applyRedriveEvent(state, redrive, place)
  } else if (frame.type === FRAME_CHANGE) {
    const change = decodeChange(frame.payload)
    if (change && 'audit_offset' in change && change.audit_offset !== null) {
      state.applyAudited(change.tenant, change.audit_offset, place, eventTimeOf(change))
    }
  }
}

/** Reused: frames are applied one by one. */
const records = new FrameRecords()

/** Null when the frame has no readable records, or when its stream is unknown because the creation was lost to damage. */
function applyRecords(state: BrokerState, { type, payload }: Frame, place: Place): StreamState | null {
  if (!records.open(type, payload) || !records.seek(0)) return null
  const stream = state.streams[records.streamNumber]
  if (stream === undefined) return null
  const { firstOffset, count, ingestTimeMs } = records
  state.applyRecords(stream, place, { firstOffset, count, ingestTimeMs, eventTimeMsOf, payloadBytesOf })
  return stream
}

// For a record of the frame that is applied.
const eventTimeMsOf = (number: number): number => (records.seek(number) ? records.record.eventTimeMs : 0)
const payloadBytesOf = (number: number): number => (records.seek(number) ? records.record.payloadBytes : 0)

function applyReplicated(state: BrokerState, frame: Frame, place: Place): boolean {
  const origin = decodeOrigin(frame.payload)
  const stream = origin && applyRecords(state, frame, place)
  if (!origin || !stream) return false
  const { sourceSite, targetSite, policy, firstOriginOffset, originOffsets, source } = origin
  const { firstOffset, count } = records
  const next = (originOffsets?.at(-1) ?? firstOriginOffset + count - 1) + 1
  const link = { sourceSite, targetSite, policy }
  stream.replication.applyBrought(link, { next, count, createdAtMs: source?.created_at_ms ?? null })
  stream.replication.applyArrived([...(source?.via ?? []), sourceSite], firstOffset, firstOffset + count)
  return true
}

function applyClaim(state: BrokerState, payload: Buffer): boolean {
  const claim = decodeClaim(payload)
  const group = claim && state.groups[claim.groupNumber]
  if (!claim || !group) return false
  state.applyClaim(group, claim.claimNumber, claim.atMs, claim.expiresAtMs, claim.runs, claim.id)
  return true
}

function applyResolutions(state: BrokerState, payload: Buffer): boolean {
  const resolutions = decodeResolve(payload)
  for (const each of resolutions ?? []) {
    const group = state.groups[each.groupNumber]
    if (group) state.applyResolution(group, each)
  }
  return resolutions !== null
}

function applyDeadLetter(state: BrokerState, frame: Frame, place: Place): boolean {
  const deadLetter = decodeDeadLetter(frame.payload)
  if (deadLetter === null) return false
  const { groupNumber, offset, attempt, atMs, reason } = deadLetter
  const group = state.groups[groupNumber]
  if (group) state.applyFinished(group, offset, attempt, 'dead_lettered', atMs, reason)
  const target = applyRecords(state, frame, place)
  const isAudited = applyEventOf(state, deadLetter, place)
  return group !== undefined && target !== null && isAudited
}

/** The event has no bytes of its own: the frame is counted with the copy. */
const applyEventOf = (
  state: BrokerState,
  { tenant, auditOffset, eventAtMs }: Pick<DecodedDeadLetter, 'tenant' | 'auditOffset' | 'eventAtMs'>,
  place: Place,
): boolean => state.applyAudited(tenant, auditOffset, { ...place, frameBytes: 0 }, eventAtMs)

function applyRedrive(state: BrokerState, frame: Frame, place: Place): boolean {
  const redrive = decodeRedrive(frame.payload)
  if (redrive === null) return false
  const from = state.streams[redrive.fromNumber]
  const { streamNumber, firstOffset: offset } = redrive
  if (from) state.applyRedriven(from, redrive.offsets, { streamNumber, offset })
  const source = applyRecords(state, frame, place)
  const isAudited = applyRedriveEvent(state, redrive, place)
  return from !== undefined && source !== null && isAudited
}

/** The event has no bytes of its own: the frame is counted with the records. */
const applyRedriveEvent = (state: BrokerState, { tenant, auditOffset, ingestTimeMs }: DecodedRedrive, place: Place) =>
  state.applyAudited(tenant, auditOffset, { ...place, frameBytes: 0 }, ingestTimeMs)

function applyChangeFrame(state: BrokerState, payload: Buffer, place: Place): boolean {
  const change = decodeChange(payload)
  return change !== null && applyChange(state, change, place)
}
