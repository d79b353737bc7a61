/**
 * The state of a log: its newest checkpoint and the frames behind it, applied. At a start, and again after frames were lost.
 *
 * R1  only what is committed is applied
 * R2  a frame that does not read is skipped, and nothing else: what it said did not happen, and there is an incident of the log
 */
import { startingPoint } from '../../engine/recovery.ts'
import type { RecoveryParts, StartingPoint } from '../../engine/recovery.ts'
import { replaySegment } from '../../log/read.ts'
import { applyFrame } from './apply-frame.ts'
import { decodeState } from './checkpoint-content.ts'
import { StoreState } from './state.ts'

export interface Recovered extends StartingPoint {
  readonly state: StoreState
  /** The highest commit sequence that the checkpoint knows. */
  readonly checkpointSequence: number
}

/** @throws StoreError and what the file system throws */
export function recoverState(parts: RecoveryParts): Recovered {
  const { log, files } = parts
  const { committed } = log
  const start = startingPoint('objectstore', parts)
  const state = start.checkpoint ? decodeState(start.checkpoint.pieces()) : new StoreState()
  const checkpointSequence = state.commitSequence
  for (const segment of log.segments) {
    const to = Math.min(segment.end, committed)
    if (to <= segment.base || segment.end <= start.position || !files.exists(segment.recordsPath)) continue
    replaySegment(files, segment, {
      logId: log.id,
      to,
      onFrame: (frame) => applyFrame(state, frame),
      onDamage: (range) => log.reportDamage(segment, range),
    })
  }
  return { ...start, state, checkpointSequence }
}
