/**
 * Recovers the state of a log: takes its newest checkpoint, adds the places of records from the sidecars of its sealed segments, and applies
 * the frames behind the checkpoint. This happens at a start, and again after frames were lost.
 *
 * R1  only what is committed is applied
 * R2  only a frame that cannot be read is skipped. The offsets that it is known to have held become a hole
 * R3  a segment whose sidecar is missing or damaged is read instead
 * R4  a stream or group never disappears: if a frame is about one that is not known, the start is refused
 */
import {
  FRAME_HEADER_BYTES,
  decodeFrameHeader,
  emptyFrameHeader,
  frameBytes,
} from '../../../native-free-codecs/frame.ts'
import { APPLYING, bytesBehind, startingPoint } from '../../engine/recovery.ts'
import type { RecoveryParts, StartingPoint } from '../../engine/recovery.ts'
import { StoreError } from '../../errors.ts'
import { withOpenFile } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import type { SegmentInfo } from '../../log/log.ts'
import { replayInSteps } from '../../log/read.ts'
import type { FrameView } from '../../log/read.ts'
import type { ReadableLog } from '../../log/read-only-log.ts'
import { segmentName } from '../../log/segment-format.ts'
import type { Logger } from '../../observability/logger.ts'
import { stepsOf } from '../../steps.ts'
import type { Steps } from '../../steps.ts'
import { readSegmentIndex } from '../records/segment-index.ts'
import { applyFrame, indexFrame } from '../state/apply-frames.ts'
import { decodeCheckpoint } from './checkpoint-content.ts'
import { LOST_HEAD_BYTES, LostFrames } from './lost-frames.ts'
import { BrokerState } from '../state/state.ts'
import type { Place } from '../state/state.ts'

export interface Recovered extends StartingPoint {
  readonly state: BrokerState
  /** Sealed segments whose sidecar has to be written. */
  readonly unindexed: readonly SegmentInfo[]
}

export type BrokerRecovery = RecoveryParts & { readonly logger: Logger }

/** @throws StoreError and what the file system throws */
export function* recoverState(parts: BrokerRecovery): Steps<Recovered> {
  const { log, files, logger } = parts
  const { committed } = log
  const start = yield* startingPoint('broker', parts)
  const { checkpoint, position: from } = start
  const state = checkpoint ? yield* decodeCheckpoint(yield* checkpoint.whole()) : new BrokerState()
  const lostFrames = new LostFrames(state)
  const unindexed: SegmentInfo[] = []
  const incidents = log.incidents.toSorted((a, b) => a.from - b.from)
  let appliedTo = from
  const loseUpTo = (position: number): void => {
    for (const { from, to } of incidents) {
      if (to > appliedTo && from < position) lostFrames.range(to - Math.max(from, appliedTo))
    }
  }
  const total = bytesBehind(from, parts)
  let done = 0
  for (const [number, segment] of log.segments.entries()) {
    yield { phase: 'reading the indexes of segments', done: number, total: log.segments.length, unit: 'segments' }
    const before = segment.end <= from // the whole segment, as a checkpoint always ends where a segment does
    if (before && adoptSidecar(state, files, segment, logger)) continue
    if (segment.sealed && files.exists(segment.recordsPath)) unindexed.push(segment) // a missing segment is left alone, as it may be brought back
    if (before) {
      yield* index(state, log, files, segment)
    } else {
      loseUpTo(segment.base)
      const frames = apply(state, lostFrames, log, files, segment, committed)
      yield* stepsOf(frames, { phase: APPLYING, done, total })
      appliedTo = segment.end
      done += appliedTo - segment.base
    }
  }
  loseUpTo(Infinity)
  lostFrames.end()
  for (const { segmentBase, from, to } of log.incidents) state.applyDamage(segmentBase, from, to)
  state.findHoles()
  state.makeAllVisible()
  return { ...start, state, unindexed }
}

/** @returns false when the segment has to be read (R3) */
function adoptSidecar(state: BrokerState, files: Files, segment: SegmentInfo, logger: Logger): boolean {
  const read = readSegmentIndex(files, segment)
  if (read.kind !== 'runs') {
    logger.warn(
      { segment: segmentName(segment.base), reason: read.reason },
      'a sidecar is missing: reading its segment',
    )
    return false
  }
  for (const { streamNumber, run } of read.runs) state.streams[streamNumber]?.index.adopt(run)
  return true
}

/** R3 */
function* index(state: BrokerState, log: ReadableLog, files: Files, segment: SegmentInfo): Steps<void> {
  if (!files.exists(segment.recordsPath)) return // an incident of the log already
  const frames = replayInSteps(files, segment, {
    logId: log.id,
    to: segment.end,
    onFrame: (frame) => indexFrame(state, frame, placeOf(segment, frame)),
    onDamage: (range) => log.reportDamage(segment, range),
  })
  const phase = `reading segment ${segmentName(segment.base)}, which has no index`
  yield* stepsOf(frames, { phase, done: 0, total: segment.end - segment.base })
}

function* apply(
  state: BrokerState,
  lost: LostFrames,
  log: ReadableLog,
  files: Files,
  segment: SegmentInfo,
  committed: number,
): Generator<number, void, undefined> {
  const to = Math.min(segment.end, committed)
  if (to <= segment.base) return
  if (!files.exists(segment.recordsPath)) return lost.range(to - segment.base) // an incident of the log already
  yield* replayInSteps(files, segment, {
    logId: log.id,
    to,
    onFrame(frame) {
      if (!applyFrame(state, frame, placeOf(segment, frame))) refuseUnknown(lost, frame)
    },
    onDamage(range) {
      readDamaged(lost, log, files, segment, range)
      log.reportDamage(segment, range)
    },
  })
}

const placeOf = ({ base }: SegmentInfo, { position, payloadBytes }: FrameView): Place => ({
  segmentBase: base,
  place: position - base,
  frameBytes: frameBytes(payloadBytes),
})

/** R4 */
function refuseUnknown(lost: LostFrames, { position, type }: FrameView): never {
  const problem = lost.mayHaveCreated
    ? 'belongs to a stream or consumer group whose creation is damaged'
    : 'was written by another version, or by another service'
  throw new StoreError(
    'corrupt',
    'broker_frame_unknown',
    `the frame of type ${type} at position ${position} of the log ${problem}: restore its segment, or the whole directory`,
  )
}

/** R2 */
function readDamaged(
  lost: LostFrames,
  log: ReadableLog,
  files: Files,
  segment: SegmentInfo,
  { from, to }: { readonly from: number; readonly to: number },
): void {
  const bytes = Buffer.alloc(FRAME_HEADER_BYTES + LOST_HEAD_BYTES)
  const have = withOpenFile(files, segment.recordsPath, (file) => file.read(bytes, from - segment.base))
  const header = emptyFrameHeader()
  const isOurs = have >= FRAME_HEADER_BYTES && decodeFrameHeader(bytes, 0, header) && header.logId === log.id
  if (!isOurs || header.position !== from) return lost.range(to - from)
  lost.frame(header.type, header.payloadBytes, bytes.subarray(FRAME_HEADER_BYTES))
}
