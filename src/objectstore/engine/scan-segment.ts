/** What stands in a segment, by whose it is: what a thread tells the cleaner. */
import type { Files } from '../../log/files.ts'
import { replaySegment } from '../../log/read.ts'
import type { DamagedRange } from '../../log/read.ts'
import { FRAME_EXTENT, FRAME_OBJECT, decodeCommitHead, decodeExtentOwner } from './frames.ts'

export interface ScanTask {
  readonly kind: 'scan'
  readonly logId: number
  readonly base: number
  readonly end: number
  readonly recordsPath: string
}

/** A frame that may be needed: an object, or a piece of a body. */
export interface ScannedFrame {
  readonly position: number
  readonly bucket: number
  readonly key: string
  /** Upload of the frame, if it holds a piece of a part. */
  readonly uploadId: string | null
  readonly partNumber: number
  readonly isExtent: boolean
}

export interface ScannedSegment {
  readonly frames: readonly ScannedFrame[]
  /** Frames that stood here cannot be moved. */
  readonly damage: readonly DamagedRange[]
}

export function scanSegment(files: Files, { logId, base, end, recordsPath }: ScanTask): ScannedSegment {
  const frames: ScannedFrame[] = []
  const damage: DamagedRange[] = []
  replaySegment(
    files,
    { base, recordsPath },
    {
      logId,
      to: end,
      onFrame({ type, position, payload }) {
        if (type !== FRAME_OBJECT && type !== FRAME_EXTENT) return
        const isExtent = type === FRAME_EXTENT
        const { bucket, key, uploadId, partNumber } = isExtent ? decodeExtentOwner(payload) : decodeCommitHead(payload)
        frames.push({ position, bucket, key: key.toString(), uploadId, partNumber, isExtent })
      },
      onDamage: (range) => damage.push(range),
    },
  )
  return { frames, damage }
}
