/** Messages between main and a reader thread, which reads whole frames and verifies them. */

export interface ReaderData {
  readonly segmentsDirectory: string
  readonly logId: number
}

export interface FramePlace {
  readonly segmentBase: number
  /** Where the frame begins in its segment, in bytes. */
  readonly place: number
  /** Expected length of the frame with its header: the first read takes so much. */
  readonly expectBytes: number
}

/**
 * Where a long frame is to be read into. Frames of one task may share the memory. The asking thread leaves it alone until the task is done, and for good
 * when the task failed.
 */
interface FrameTarget {
  readonly memory: SharedArrayBuffer
  readonly from: number
  /** A frame that needs more is not read into it. */
  readonly roomBytes: number
}

export interface FrameToRead extends FramePlace {
  readonly target: FrameTarget | null
  /** The frame is read again and again, so the page cache should have it. */
  readonly isAgain: boolean
}

export interface ReadTask {
  /** Base of the log's oldest segment: files of older ones are closed. */
  readonly oldestBase: number
  /** The generation of the log. Files that were opened in another one are closed. */
  readonly generation: number
  /** Read in this order: in memory that they share, a frame may overwrite parts of those before it. */
  readonly frames: readonly FrameToRead[]
}

export type ReadFailure =
  /** Its segment is gone. */
  | { readonly cause: 'dropped' }
  /** Its bytes are not what was stored. `frameBytes` as far as it is known. */
  | { readonly cause: 'damaged'; readonly reason: string; readonly frameBytes: number }
  /** The disk failed. */
  | { readonly cause: 'unavailable'; readonly reason: string }

export type ReadOutcome = { readonly type: number; readonly payload: Uint8Array } | ReadFailure

/** In the order of the task. Small payloads share memory. */
export type ReadResult = readonly ReadOutcome[]

/** The memory of payloads that is not shared, to be handed over without a copy. */
export function memoryOf(result: ReadResult): ArrayBuffer[] {
  const memories = result.flatMap((outcome) => ('payload' in outcome ? [outcome.payload.buffer] : []))
  return [...new Set(memories)].filter((memory) => memory instanceof ArrayBuffer)
}
