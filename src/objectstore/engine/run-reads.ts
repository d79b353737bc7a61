/**
 * Runs: extents that follow each other in a body, read by a thread in one job so that their contents follow each other in memory, too.
 * Sending one piece of 1 MiB costs main two thirds of sending four of 256 KiB, and reading it nothing.
 *
 * U1  the last extent is read first, and the one before it overwrites its head: nothing is copied
 * U2  a run is given out only when every frame of it holds and stands where it was expected
 * U3  there are RUNS_MAX at a time, from when they are asked for until they are given back
 */
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import type { Log } from '../../log/log.ts'
import { segmentOf } from '../../log/segment-list.ts'
import { EXTENT_BYTES } from './bodies.ts'
import { placeIn } from './frame-reads.ts'
import type { FrameReads } from './frame-reads.ts'
import { extentPayloadBytes } from './frames.ts'
import type { Extent } from './frames.ts'
import type { FrameToRead, ReadOutcome } from './read-protocol.ts'

const RUN_EXTENTS_MAX = 4
const RUN_CONTENT_BYTES_MAX = RUN_EXTENTS_MAX * EXTENT_BYTES
/** With the head of the first frame. */
const RUN_BYTES = RUN_CONTENT_BYTES_MAX + 4096
/** U3 */
export const RUNS_MAX = 16

export interface Run {
  /** The contents. */
  readonly bytes: Buffer<ArrayBuffer>
}

/** Extents from `first` on for `wantedBytes`, as many as one run takes. */
export function runOf(extents: readonly Extent[], first: number, wantedBytes: number): readonly Extent[] {
  let bytes = 0
  let end = first
  while (bytes < wantedBytes && end < Math.min(extents.length, first + RUN_EXTENTS_MAX)) {
    bytes += extents[end]!.bytes
    if (bytes > RUN_CONTENT_BYTES_MAX) break
    end += 1
  }
  return extents.slice(first, end)
}

export class RunReads {
  readonly #log: Pick<Log, 'segments'>
  readonly #reads: Pick<FrameReads, 'readAll'>
  readonly #spare: ArrayBuffer[] = []
  /** U3 */
  #runs = 0

  constructor(log: Pick<Log, 'segments'>, reads: Pick<FrameReads, 'readAll'>) {
    this.#log = log
    this.#reads = reads
  }

  /** Those that are being read, or not given back yet. */
  get taken(): number {
    return this.#runs
  }

  /**
   * The contents of extents that `runOf` chose, to be given back.
   *
   * @param keyBytes of the object
   * @returns null when there is none now (U3), or later when one of its frames could not be read: reading them one by one tells why
   */
  read(extents: readonly Extent[], keyBytes: number): Promise<Run | null> | null {
    const segments = extents.map(({ position }) => segmentOf(this.#log.segments, position))
    const isKnown = segments.every((segment, i) => segment !== null && extents[i]!.position < segment.end)
    if (!isKnown || this.#runs === RUNS_MAX) return null
    this.#runs += 1
    const memory = this.#spare.pop() ?? new ArrayBuffer(RUN_BYTES)
    let from = 0
    const frames = extents.map((extent, i) => {
      const roomBytes = FRAME_HEADER_BYTES + extentPayloadBytes(extent, keyBytes)
      const frame = { ...placeIn(segments[i]!, extent.position, roomBytes), target: { memory, from, roomBytes } }
      from += extent.bytes
      return frame
    })
    return this.#read(frames.toReversed(), FRAME_HEADER_BYTES + extentPayloadBytes(NO_EXTENT, keyBytes), from)
  }

  giveBack({ bytes }: Run): void {
    this.#runs -= 1
    this.#spare.push(bytes.buffer)
  }

  /** @param begin of the contents, in the memory of the run */
  async #read(frames: readonly FrameToRead[], begin: number, contentBytes: number): Promise<Run | null> {
    const outcomes = await this.#reads.readAll(frames).catch(() => [])
    const payloads = outcomes.flatMap((outcome, i) => inPlace(outcome, frames[i]!) ?? [])
    if (payloads.length === frames.length) return { bytes: Buffer.from(payloads[0]!.buffer, begin, contentBytes) }
    this.#runs -= 1
    return null
  }
}

const NO_EXTENT: Extent = { position: 0, bytes: 0 }

/** U2 */
function inPlace(outcome: ReadOutcome, { target }: FrameToRead): Uint8Array<ArrayBuffer> | null {
  if ('cause' in outcome || target === null) return null
  const { buffer, byteOffset, byteLength } = outcome.payload
  const isThere =
    buffer.byteLength === RUN_BYTES &&
    byteOffset === target.from + FRAME_HEADER_BYTES &&
    FRAME_HEADER_BYTES + byteLength === target.roomBytes
  return isThere ? outcome.payload : null
}
