/** The index of a segment from its frames, where the sidecar is missing or damaged and ingest's own index is gone. */
import type { Files } from '../../log/files.ts'
import { replaySegment } from '../../log/read.ts'
import type { DamagedRange } from '../../log/read.ts'
import { ActiveIndex } from './active-index.ts'
import { BATCH_FRAME_TYPE } from '../batch-frame.ts'
import { SEGMENT_ENTRIES_MAX } from '../limits.ts'
import { FrameIndexer } from './index-frame.ts'

export interface FramesToIndex {
  readonly logId: number
  readonly base: number
  readonly end: number
  readonly recordsPath: string
}

export interface RebuiltIndex {
  readonly active: ActiveIndex
  /** Ranges whose records are not in the index, because they cannot be read. */
  readonly damaged: readonly DamagedRange[]
}

export function indexFromFrames(files: Files, { logId, base, end, recordsPath }: FramesToIndex): RebuiltIndex {
  const damaged: DamagedRange[] = []
  const active = ActiveIndex.create(Math.min(SEGMENT_ENTRIES_MAX, 8 * Math.ceil((end - base) / 8))) // a record has at least a byte
  const indexer = new FrameIndexer()
  replaySegment(
    files,
    { base, recordsPath },
    {
      logId,
      to: end,
      onFrame: (frame) => {
        if (frame.type === BATCH_FRAME_TYPE) indexer.add(active, frame.position - base, frame.payload)
      },
      onDamage: (range) => damaged.push(range),
    },
  )
  return { active, damaged }
}
