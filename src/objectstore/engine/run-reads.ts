/**
 * Runs: extents that follow each other in a body, read by a thread in one job so that their contents follow each other in memory as well.
 * Sending one piece of 1 MiB costs main two thirds of sending four of 256 KiB, and reading it nothing.
 *
 * U1  the last extent is read first, and the one before it overwrites its head: nothing is copied
 * U2  a run is given out only when every frame of it holds and stands where it was expected
 * U3  there are RUNS_MAX at a time, from when they are asked for until they are given back
 * U4  readers that ask for the same run share one. Its bytes are never written, and what stands at a position never changes
 * U5  besides, those that were given back stay as they are, as many as `keptBytesMax` holds. When that many do, one in PASSING_PER_KEPT
 *     takes the place of the one that was used longest ago: clients that read more than fits find some of it again
 */
import assert from 'node:assert/strict'
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
export const RUN_BYTES = RUN_CONTENT_BYTES_MAX + 4096
/** U3 */
export const RUNS_MAX = 16
const PASSING_PER_KEPT = 8

export interface Run {
  /** The contents. */
  readonly bytes: Buffer<ArrayBuffer>
  readonly reading: Reading
}

/** A run that was asked for, and is in memory or on its way there. */
interface Reading {
  readonly extents: readonly Extent[]
  /** Null: one of its frames could not be read. */
  run: Promise<Run | null>
  /** How many readers asked for it and have not given it back. */
  users: number
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
  /** By the position of their first extent. */
  readonly #readings = new Map<number, Reading>()
  /** U5, in order of use. */
  readonly #kept = new Map<Reading, Run>()
  readonly #keptMax: number
  #passed = 0
  /** U3 */
  #taken = 0

  constructor(log: Pick<Log, 'segments'>, reads: Pick<FrameReads, 'readAll'>, keptBytesMax: number) {
    this.#log = log
    this.#reads = reads
    this.#keptMax = Math.floor(keptBytesMax / RUN_BYTES)
  }

  /** Runs that are being read, or are not given back yet. */
  get taken(): number {
    return this.#taken
  }

  /**
   * The contents of extents that `runOf` chose, to be given back and not to be written to.
   *
   * @param keyBytes of the object
   * @returns null when there is none now (U3), or later when one of its frames could not be read: reading them one by one tells why
   */
  read(extents: readonly Extent[], keyBytes: number): Promise<Run | null> | null {
    const first = extents[0]!.position
    const known = this.#readings.get(first)
    if (known !== undefined && isSame(known.extents, extents)) return this.#join(known)
    const segments = extents.map(({ position }) => segmentOf(this.#log.segments, position))
    const isKnown = segments.every((segment, i) => segment !== null && extents[i]!.position < segment.end)
    if (!isKnown || this.#taken >= RUNS_MAX) return null
    this.#taken += 1
    const memory = this.#spare.pop() ?? new ArrayBuffer(RUN_BYTES)
    let from = 0
    const frames = extents.map((extent, i) => {
      const roomBytes = FRAME_HEADER_BYTES + extentPayloadBytes(extent, keyBytes)
      const frame = { ...placeIn(segments[i]!, extent.position, roomBytes), target: { memory, from, roomBytes } }
      from += extent.bytes
      return frame
    })
    const begin = FRAME_HEADER_BYTES + extentPayloadBytes(NO_EXTENT, keyBytes)
    const reading: Reading = { extents, run: NOTHING, users: 1 }
    if (known === undefined) this.#readings.set(first, reading)
    reading.run = this.#read(reading, frames.toReversed(), begin, from)
    return reading.run
  }

  /** U5 */
  get keptBytes(): number {
    return this.#kept.size * RUN_BYTES
  }

  giveBack(run: Run): void {
    const { reading } = run
    assert(reading.users > 0)
    reading.users -= 1
    if (reading.users > 0) return
    this.#taken -= 1
    if (this.#isKept(reading)) this.#kept.set(reading, run)
    else this.#drop(run)
  }

  /** U4 */
  #join(reading: Reading): Promise<Run | null> {
    if (this.#kept.delete(reading)) this.#taken += 1
    reading.users += 1
    return reading.run
  }

  /** @param begin of the contents, in the memory of the run */
  async #read(
    reading: Reading,
    frames: readonly FrameToRead[],
    begin: number,
    contentBytes: number,
  ): Promise<Run | null> {
    const outcomes = await this.#reads.readAll(frames).catch(() => [])
    const payloads = outcomes.flatMap((outcome, i) => inPlace(outcome, frames[i]!) ?? [])
    if (payloads.length === frames.length) {
      return { bytes: Buffer.from(payloads[0]!.buffer, begin, contentBytes), reading }
    }
    this.#taken -= 1
    this.#forget(reading)
    return null
  }

  /** U5. One that stands beside another with the same first extent could not be found again. */
  #isKept(reading: Reading): boolean {
    if (this.#readings.get(reading.extents[0]!.position) !== reading) return false
    if (this.#kept.size < this.#keptMax) return true
    if (this.#keptMax === 0) return false
    this.#passed = (this.#passed + 1) % PASSING_PER_KEPT
    if (this.#passed !== 0) return false
    const [oldest] = this.#kept.values()
    this.#kept.delete(oldest!.reading)
    this.#drop(oldest!)
    return true
  }

  #drop({ reading, bytes }: Run): void {
    this.#forget(reading)
    this.#spare.push(bytes.buffer)
  }

  #forget(reading: Reading): void {
    const first = reading.extents[0]!.position
    if (this.#readings.get(first) === reading) this.#readings.delete(first)
  }
}

const NOTHING = Promise.resolve(null)

const isSame = (some: readonly Extent[], others: readonly Extent[]): boolean =>
  some.length === others.length && some.every(({ position }, i) => position === others[i]!.position)

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
