/**
 * Makes the state of a log from its newest checkpoint and the frames behind it: at a start, and again after frames were lost.
 *
 * R1  only what is committed is applied
 * R2  a frame that cannot be read is skipped, and nothing else: its change did not happen, and there is an incident of the log
 */
import { APPLYING, bytesBehind, startingPoint } from '../../engine/recovery.ts'
import type { RecoveryParts, StartingPoint } from '../../engine/recovery.ts'
import { replayInSteps } from '../../log/read.ts'
import { stepsOf } from '../../steps.ts'
import type { Steps } from '../../steps.ts'
import { applyFrame } from './apply-frame.ts'
import { decodeState } from './checkpoint-content.ts'
import { StoreState } from './state.ts'

export interface Recovered extends StartingPoint {
  readonly state: StoreState
  /** The highest commit sequence that the checkpoint knows. */
  readonly checkpointSequence: number
}

/** @throws StoreError and what the file system throws */
export function* recoverState(parts: RecoveryParts): Steps<Recovered> {
  const { log, files } = parts
  const { committed } = log
  const start = yield* startingPoint('objectstore', parts)
  const { checkpoint } = start
  const state = checkpoint ? yield* decodeState(checkpoint.pieces(), checkpoint.contentBytes) : new StoreState()
  const checkpointSequence = state.commitSequence
  const total = bytesBehind(start.position, parts)
  let done = 0
  for (const segment of log.segments) {
    const to = Math.min(segment.end, committed)
    if (to <= segment.base || segment.end <= start.position || !files.exists(segment.recordsPath)) continue
    const frames = replayInSteps(files, segment, {
      logId: log.id,
      to,
      onFrame: (frame) => applyFrame(state, frame),
      onDamage: (range) => log.reportDamage(segment, range),
    })
    yield* stepsOf(frames, { phase: APPLYING, done, total })
    done += to - segment.base
  }
  return { ...start, state, checkpointSequence }
}
