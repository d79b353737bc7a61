/**
 * Moves what is left in the log's oldest segment to the end of the log, so that the segment can be dropped. Records keep their offsets,
 * audit events their ids. So the log is cleaned in a circle, from its oldest end on.
 *
 * M1  a record is found at its new place from the moment it is appended there: readers wait until that is written. The old place
 *     stays until the new one is durable
 * M2  live bytes are counted as they are stored, not by payloads alone
 */
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import type { Cleaning } from '../../engine/cleaning.ts'
import type { SegmentInfo } from '../../log/log.ts'
import { FRAME_RECORDS, encodeRecords, recordsBytes } from '../frames.ts'
import { encodeChange } from '../frames/change.ts'
import type { Change } from '../frames/change.ts'
import { Places } from '../records/places.ts'
import type { RawRecord } from '../records/record-reads.ts'
import type { Core } from './core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { BrokerState, StreamState } from '../state/state.ts'

const MOVED_AT_ONCE = 500
/** Bytes of a run; a longer record is a run of its own. */
const RUN_BYTES_MAX = 4 << 20

/** A line of `auditPage`. */
interface AuditEvent {
  readonly event_id: string
  readonly kind: string
  readonly at_ms: number
  readonly tenant: string
  readonly principal: string
  readonly stream: string | null
  readonly detail: Record<string, unknown>
  readonly offset: number
}

/** Records of one stream that are to be moved: those at the offsets [from, end) that are in the segment. */
interface Move {
  readonly core: Core
  readonly stream: StreamState
  readonly segment: SegmentInfo
  readonly from: number
  readonly end: number
  /** False: nothing more is moved. @throws when there is no room for so many bytes */
  readonly mayMove: (bytes: number) => boolean
}

/** M2 */
export function liveBytesOf({ streams }: BrokerState): number {
  let bytes = 0
  for (const stream of streams) bytes += stream?.index.storedBytes ?? 0
  return bytes
}

/**
 * @param signal ends it early
 * @throws BrokerError when the log takes no more, Error when the disk has no room for moves; what was moved until then stays moved
 */
export async function moveOut(
  core: Core,
  segment: SegmentInfo,
  cleaning: Cleaning,
  signal: AbortSignal,
): Promise<void> {
  const mayMove = (bytes: number): boolean => {
    cleaning.demandRoomToMove(bytes)
    return !signal.aborted
  }
  for (const stream of core.state.streams) {
    if (stream === undefined) continue
    const move = stream.name === AUDIT_STREAM ? moveEvents : moveRecords
    const shares = stream.index.segments().filter(({ segmentBase }) => segmentBase === segment.base)
    for (const { firstOffset, lastOffset } of shares) {
      await move({ core, stream, segment, from: firstOffset, end: lastOffset + 1, mayMove })
    }
  }
}

/** Offsets between may be in other segments: they are read and left where they are. */
async function moveRecords({ core, stream, segment, from, end, mayMove }: Move): Promise<void> {
  for (let at = from; at < end;) {
    const { records, unreadable } = await core.reads.rawRecords(stream.index, at, end, MOVED_AT_ONCE)
    if (!core.isCurrent(stream)) return
    core.reportUnreadable(stream, unreadable)
    const here = records.filter(({ offset }) => offset >= stream.floor && isIn(segment, stream, offset))
    const runs = runsOf(here)
    const runBytes = runs.map((run) => frameBytes(recordsBytes(run.map(({ bytes }) => bytes))))
    if (!mayMove(sumOf(runBytes))) return
    await Promise.all(runs.map((run) => appendAgain(core, stream, run)))
    const last = Math.max(records.at(-1)?.offset ?? -1, unreadable.at(-1)?.offset ?? -1)
    if (last < at) return
    at = last + 1
  }
}

/** Groups adjacent records with the same ingest time, as a frame has only one. A run has at most RUN_BYTES_MAX bytes, or one record. */
function runsOf(records: readonly RawRecord[]): RawRecord[][] {
  const runs: RawRecord[][] = []
  let runBytes = 0
  for (const record of records) {
    const run = runs.at(-1)
    const before = run?.at(-1)
    const continues = before?.offset === record.offset - 1 && before.ingestTimeMs === record.ingestTimeMs
    runBytes += record.bytes.byteLength
    if (run && continues && runBytes <= RUN_BYTES_MAX) {
      run.push(record)
    } else {
      runs.push([record])
      runBytes = record.bytes.byteLength
    }
  }
  return runs
}

function appendAgain(core: Core, stream: StreamState, run: readonly RawRecord[]): Promise<void> {
  const { offset: firstOffset, ingestTimeMs } = run[0]!
  const records = run.map(({ bytes }) => bytes)
  const frame = { streamNumber: stream.number, firstOffset, ingestTimeMs, relocated: true, records }
  const moved = {
    type: FRAME_RECORDS,
    payloadBytes: recordsBytes(records),
    encode: (target: Buffer, at: number) => void encodeRecords(target, at, frame),
    ...MOVING,
  }
  const stored = core.store(moved, 'internal_error')
  core.holdReadersUntilWritten(stream) // M1
  return stored
}

async function moveEvents({ core, stream, segment, from, end, mayMove }: Move): Promise<void> {
  for (let at = from; at < end;) {
    const page = await core.reads.auditPage(stream.index, at, end, MOVED_AT_ONCE, 'ndjson')
    if (!core.isCurrent(stream)) return
    core.reportUnreadable(stream, page.unreadable)
    const lines = page.bytes
      .toString()
      .split('\n')
      .filter((line) => line !== '')
    const events = lines.map((line) => JSON.parse(line) as AuditEvent) // rendered by our reader
    const here = events.filter(({ offset }) => isIn(segment, stream, offset))
    const changeBytes = here.map((event) => frameBytes(encodeChange(changeOf(event)).byteLength))
    if (!mayMove(sumOf(changeBytes))) return
    await Promise.all(here.map((event) => appendEvent(core, stream, event)))
    if (!page.hasMore) return
    at = page.nextOffset
  }
}

function changeOf({ event_id, kind, at_ms, tenant, principal, stream, detail, offset }: AuditEvent): Change {
  return { kind: 'audit', event_kind: kind, event_id, at_ms, tenant, principal, stream, detail, audit_offset: offset }
}

function appendEvent(core: Core, stream: StreamState, event: AuditEvent): Promise<void> {
  const stored = core.store({ ...core.changeFrame(changeOf(event), 'finish'), ...MOVING }, 'internal_error')
  core.holdReadersUntilWritten(stream) // M1
  return stored
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0)

const MOVING = { purpose: 'finish', durability: 'sync' } as const

function isIn(segment: SegmentInfo, stream: StreamState, offset: number): boolean {
  const place = new Places(1)
  return stream.index.find(offset, place) && place.segmentBase(0) === segment.base
}
