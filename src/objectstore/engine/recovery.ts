/**
 * The state of a log: its newest checkpoint and the frames behind it, applied. At a start, and again after frames were lost.
 *
 * R1  only what is committed is applied
 * R2  a frame that does not read is skipped, and nothing else: what it said did not happen, and there is an incident of the log
 */
import { StoreError } from '../../errors.ts'
import type { Files } from '../../log/files.ts'
import { readNewestCheckpoint } from '../../log/checkpoint.ts'
import type { Log } from '../../log/log.ts'
import { replaySegment } from '../../log/read.ts'
import { SEGMENT_FOOTER_BYTES, segmentName } from '../../log/segment-format.ts'
import type { Logger } from '../../observability/logger.ts'
import { applyFrame } from './apply-frame.ts'
import { decodeState } from './checkpoint-content.ts'
import { StoreState } from './state.ts'

export interface Recovered {
  readonly state: StoreState
  readonly checkpointPosition: number
  /** Of the checkpoint before it; 0: there is none. */
  readonly positionBefore: number
  /** The highest commit sequence that it knows. */
  readonly checkpointSequence: number
}

/** @throws StoreError and what the file system throws */
export function recoverState(log: Log, directory: string, files: Files, logger: Logger): Recovered {
  const { committed } = log
  const checkpoint = readNewestCheckpoint(files, [directory], committed, (name) =>
    logger.warn({ checkpoint: name }, 'a checkpoint is damaged: using an older one'),
  )
  const from = checkpoint?.position ?? 0
  const oldest = log.segments[0]
  if (oldest && oldest.base > from + SEGMENT_FOOTER_BYTES) {
    throw new StoreError(
      'corrupt',
      'objectstore_checkpoint_missing',
      `${directory}: the segments before ${segmentName(oldest.base)} are gone, and no checkpoint of what they held can be read: restore one, or the whole directory`,
    )
  }
  const state = checkpoint ? decodeState(checkpoint.pieces()) : new StoreState()
  const checkpointSequence = state.commitSequence
  for (const segment of log.segments) {
    const to = Math.min(segment.end, committed)
    if (to <= segment.base || segment.end <= from || !files.exists(segment.recordsPath)) continue
    replaySegment(files, segment, {
      logId: log.id,
      to,
      onFrame: (frame) => applyFrame(state, frame),
      onDamage: (range) => log.reportDamage(segment, range),
    })
  }
  return { state, checkpointPosition: from, positionBefore: checkpoint?.positionBefore ?? 0, checkpointSequence }
}
