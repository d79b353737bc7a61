/** A start begins at the newest readable checkpoint, and applies the frames behind it one by one. */
import { StoreError } from '../errors.ts'
import { coversLogBefore, newestCheckpoint } from '../log/checkpoint.ts'
import type { Checkpoint } from '../log/checkpoint.ts'
import type { Files } from '../log/files.ts'
import type { ReadableLog } from '../log/read-only-log.ts'
import { segmentName } from '../log/segment-format.ts'
import type { Steps } from '../steps.ts'

export interface RecoveryParts {
  readonly log: ReadableLog
  /** Directories of the log, the primary one first. */
  readonly directories: readonly string[]
  readonly files: Files
  readonly logger: { warn(details: object, message: string): void }
  /** No file may be changed: the state is read by a tool. */
  readonly isToRead?: boolean
}

export interface StartingPoint {
  /** Null: the log is read from its beginning. */
  readonly checkpoint: Checkpoint | null
  /** Position of the checkpoint, where a segment ended; 0 without one. */
  readonly position: number
  /** Position of the checkpoint before it; 0: there is none. */
  readonly positionBefore: number
}

/**
 * @param service begins the code of the refusal
 * @throws StoreError when segments are gone that no checkpoint stands for, and what the file system throws
 */
export function* startingPoint(
  service: string,
  { log, directories, files, logger, isToRead }: RecoveryParts,
): Steps<StartingPoint> {
  const lost = new Set(log.lostReplicas.map(({ directory }) => directory))
  const usable = directories.filter((directory) => !lost.has(directory))
  const onDamaged = (name: string): void =>
    logger.warn({ checkpoint: name }, 'a checkpoint is damaged: using an older one')
  const checkpoint = yield* newestCheckpoint(files, usable, log.committed, onDamaged, isToRead)
  const position = checkpoint?.position ?? 0
  const oldest = log.segments[0]
  if (oldest && !coversLogBefore(oldest.base, position)) {
    throw new StoreError(
      'corrupt',
      `${service}_checkpoint_missing`,
      `the segments before ${segmentName(oldest.base)} are gone, and no checkpoint of their content can be read: restore one, or the whole directory`,
    )
  }
  return { checkpoint, position, positionBefore: checkpoint?.positionBefore ?? 0 }
}

/** The phase in which the frames behind the checkpoint are applied. */
export const APPLYING = 'applying the frames of the log'

/** Bytes of the log that this phase reads. */
export function bytesBehind(position: number, { log }: Pick<RecoveryParts, 'log'>): number {
  const behind = log.segments.filter(({ end }) => end > position)
  return behind.reduce((sum, { base, end }) => sum + Math.max(0, Math.min(end, log.committed) - base), 0)
}
