/** Lists the frames in a part of a segment, with their owners: a thread does it for the cleaner. */
import type { Files } from '../../log/files.ts'
import { replayInSteps } from '../../log/read.ts'
import type { DamagedRange } from '../../log/read.ts'
import { SEGMENT_HEADER_BYTES } from '../../log/segment-format.ts'
import { FRAME_EXTENT, FRAME_OBJECT, decodeCommitHead, decodeExtentOwner } from './frames.ts'

export interface ScanTask {
  readonly kind: 'scan'
  readonly logId: number
  readonly base: number
  /** The segment's base, or where the scan before ended. */
  readonly from: number
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

/** A part has so many frames, or some more: main takes in one part at a time, between other work. */
const PART_FRAMES = 1000

export interface ScannedPart {
  readonly frames: readonly ScannedFrame[]
  /** Frames that stood here cannot be moved. */
  readonly damage: readonly DamagedRange[]
  /** Where the part ends: the segment's end behind its last one. */
  readonly next: number
}

export function scanPart(files: Files, { logId, base, from, end, recordsPath }: ScanTask): ScannedPart {
  const frames: ScannedFrame[] = []
  const damage: DamagedRange[] = []
  const begin = Math.max(from, base + SEGMENT_HEADER_BYTES)
  const steps = replayInSteps(
    files,
    { base, recordsPath },
    {
      logId,
      from: begin,
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
  for (const visitedBytes of steps) {
    if (frames.length >= PART_FRAMES) return { frames, damage, next: begin + visitedBytes }
  }
  return { frames, damage, next: end }
}
