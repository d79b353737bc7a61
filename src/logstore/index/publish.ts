/** Makes the sidecar of a sealed segment: `index.bin`, then `manifest.json`. */
import type { Files } from '../../log/files.ts'
import type { DamagedRange } from '../../log/read.ts'
import { ActiveIndex } from './active-index.ts'
import type { ActiveIndexHandle } from './active-index.ts'
import type { BuiltIndex, IndexBuilder, WriteAt } from './builder.ts'
import { publishBundle } from './manifest.ts'
import type { Bundle } from './manifest.ts'
import { indexFromFrames } from './rebuild.ts'

export interface IndexSegmentTask {
  readonly logId: number
  /** Position of the segment, and behind its last frame. */
  readonly base: number
  readonly end: number
  readonly directory: string
  readonly recordsPath: string
  /** The index that ingest filled; null: it is rebuilt from the frames. */
  readonly index: ActiveIndexHandle | null
}

export interface IndexedSegmentFacts extends Bundle {
  /** Found while reading the frames: to be quarantined, their records are not in the index. */
  readonly damaged: readonly DamagedRange[]
}

/** @throws what the file system throws: the segment then has no sidecar, or its old one */
export function indexSegment(files: Files, builder: IndexBuilder, task: IndexSegmentTask): IndexedSegmentFacts {
  const { base, end, directory } = task
  const { active, damaged } =
    task.index === null ? indexFromFrames(files, task) : { active: ActiveIndex.attach(task.index), damaged: [] }
  const build = (write: WriteAt): BuiltIndex => builder.build(active, active.countBefore(end - base), base, end, write)
  return { ...publishBundle(files, directory, build, task.logId), damaged }
}
