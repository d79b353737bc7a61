/**
 * Runs: extents that follow each other in a body, read by a thread in one job so that their contents follow each other in memory as well.
 * Sending one piece of 1 MiB costs main two thirds of sending four of 256 KiB, and reading it nothing.
 *
 *   extents of a body   0 1 2 3 | 4 5 6 7 | 8 9      whole runs
 *
 * U1  the last extent is read first, and the one before it overwrites its head: nothing is copied
 * U2  a run is given out only when every frame of it holds and stands where it was expected
 * U3  there are at most RUNS_MAX runs at a time, from when they are asked for until they are given back
 * U4  readers that ask for the same run share one. Its bytes are never written, and what stands at a position never changes
 * U5  whole runs that were given back stay in memory, as many as `keptBytesMax` holds. `run-uses.ts` decides which
 */
import assert from 'node:assert/strict'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import type { Log } from '../../log/log.ts'
import { segmentOf } from '../../log/segment-list.ts'
import { placeIn } from './frame-reads.ts'
import type { FrameReads } from './frame-reads.ts'
import type { Extent, ExtentList } from './extent-list.ts'
import { extentPayloadBytes } from './frames.ts'
import type { FrameToRead, ReadOutcome } from './read-protocol.ts'
import { RUN_BYTES, RUN_CONTENT_BYTES_MAX, RUN_EXTENTS_MAX, RunMemory } from './run-memory.ts'
import { RunUses } from './run-uses.ts'
import type { KeptRun } from './run-uses.ts'

/** U3 */
export const RUNS_MAX = 16
/** U5: a run of fewer extents would take much more memory than it fills. */
const KEPT_EXTENTS_MIN = 2

export interface Run {
  /** The contents of its extents. */
  readonly bytes: Buffer<SharedArrayBuffer>
  readonly reading: Reading
}

/** A run that was asked for, and is in memory or on its way there. */
interface Reading extends KeptRun {
  readonly extents: readonly Extent[]
  /** U5. Position of the frame that lists them; null: it is not to be kept. */
  readonly owner: number | null
  /** Null: one of its frames could not be read. */
  run: Promise<Run | null>
  /** Null: it is on its way. */
  ready: Run | null
  /** How many readers asked for it and have not given it back. */
  users: number
}

/** The extents of a body, and what commits it. */
export interface RunsOf {
  readonly extents: ExtentList
  readonly keyBytes: number
  /** Position of the frame that lists the extents. */
  readonly owner: number
}

/** Extents from `first` on for `wantedBytes`, to the end of a whole run at most. */
function runOf(extents: ExtentList, first: number, wantedBytes: number): readonly Extent[] {
  const run: Extent[] = []
  let bytes = 0
  for (const extent of extents.between(first, wholeRunEnd(first))) {
    if (bytes >= wantedBytes) break
    bytes += extent.bytes
    if (bytes > RUN_CONTENT_BYTES_MAX) break
    run.push(extent)
  }
  return run
}

/** Number behind the whole run that has this extent, as if the body had no end. */
const wholeRunEnd = (number: number): number => wholeRunBegin(number) + RUN_EXTENTS_MAX

const wholeRunBegin = (number: number): number => number - (number % RUN_EXTENTS_MAX)

export class RunReads {
  readonly #log: Pick<Log, 'segments'>
  readonly #reads: Pick<FrameReads, 'readAll'>
  readonly memory = new RunMemory()
  readonly #keptMax: number
  /** By the position of their first extent. */
  readonly #readings = new Map<number, Reading>()
  /** U5 */
  readonly #uses: RunUses<Reading>
  readonly #byOwner = new Map<number, Set<Reading>>()
  /** U3 */
  #taken = 0

  constructor(log: Pick<Log, 'segments'>, reads: Pick<FrameReads, 'readAll'>, keptBytesMax: number) {
    this.#log = log
    this.#reads = reads
    this.#keptMax = Math.floor(keptBytesMax / RUN_BYTES)
    this.#uses = new RunUses(this.#keptMax)
  }

  /** Runs that are being read, or are not given back yet. */
  get taken(): number {
    return this.#taken
  }

  /** U5 */
  get keptBytes(): number {
    return this.#uses.size * RUN_BYTES
  }

  /** Memory for kept runs that is neither in use nor kept now. */
  get roomBytes(): number {
    return this.#keptMax * RUN_BYTES - this.memory.usedBytes
  }

  /** The whole run that has the extent of this number, if it is in memory. To be given back. */
  wholeRunInMemory({ extents }: RunsOf, number: number): { readonly run: Run; readonly begin: number } | null {
    const begin = wholeRunBegin(number)
    const reading = this.#readings.get(extents.at(begin).position)
    if (reading === undefined || reading.ready === null || reading.owner === null) return null
    if (!isSame(reading.extents, [...extents.between(begin, wholeRunEnd(number))])) return null
    void this.#join(reading)
    return { run: reading.ready, begin }
  }

  /**
   * Reads the extents that `runOf` chooses. The run is to be given back, and not to be written to.
   *
   * @returns null when no run can be read now (U3), or later when one of its frames could not be read: reading them one by one tells why
   */
  read({ extents, keyBytes, owner }: RunsOf, first: number, wantedBytes: number): Promise<Run | null> | null {
    const chosen = runOf(extents, first, wantedBytes)
    if (chosen.length === 0) return null
    const position = chosen[0]!.position
    const known = this.#readings.get(position)
    if (known !== undefined && isSame(known.extents, chosen)) return this.#join(known)
    const segments = chosen.map((extent) => segmentOf(this.#log.segments, extent.position))
    const isKnown = segments.every((segment, i) => segment !== null && chosen[i]!.position < segment.end)
    if (!isKnown || this.#taken >= RUNS_MAX) return null
    this.#taken += 1
    const contentBytes = chosen.reduce((sum, { bytes }) => sum + bytes, 0)
    const isToBeKept = isWholeRun(extents, first, chosen.length) && chosen.length >= KEPT_EXTENTS_MIN
    const memory = this.memory.take()
    const isAgain = this.#uses.wasUsed(position)
    let from = 0
    const frames = chosen.map((extent, i) => {
      const roomBytes = FRAME_HEADER_BYTES + extentPayloadBytes(extent, keyBytes)
      const target = { memory, from, roomBytes }
      from += extent.bytes
      return { ...placeIn(segments[i]!, extent.position, roomBytes), target, isAgain }
    })
    const begin = FRAME_HEADER_BYTES + extentPayloadBytes(NO_EXTENT, keyBytes)
    const about = { position, extents: chosen, owner: isToBeKept ? owner : null }
    const reading: Reading = { ...about, run: NOTHING, ready: null, users: 1 }
    if (known === undefined) this.#readings.set(position, reading)
    reading.run = this.#read(reading, frames.toReversed(), memory, begin, contentBytes)
    return reading.run
  }

  release({ reading }: Run): void {
    assert(reading.users > 0)
    reading.users -= 1
    if (reading.users > 0 || this.#uses.has(reading)) return
    this.#taken -= 1
    const isKnown = this.#readings.get(reading.position) === reading
    if (isKnown && reading.owner !== null) return this.#keep(reading)
    this.#uses.noteUnkept(reading.position)
    this.#drop(reading)
  }

  /** Adds a whole run, in memory that was taken for it. */
  add(extents: readonly Extent[], owner: number, bytes: Buffer<SharedArrayBuffer>): void {
    const { position } = extents[0]!
    const reading: Reading = { position, extents, owner, run: NOTHING, ready: null, users: 0 }
    const run = { bytes, reading }
    reading.ready = run
    reading.run = Promise.resolve(run)
    if (this.#readings.has(position) || extents.length < KEPT_EXTENTS_MIN) return this.#drop(reading)
    this.#readings.set(position, reading)
    this.#keep(reading)
  }

  /** U5. Forgets the runs of the object that this frame commits: only requests that read it now still need it. */
  forget(owner: number): void {
    for (const reading of this.#byOwner.get(owner) ?? []) {
      this.#letGo(reading)
      if (reading.users === 0) this.#drop(reading)
      else this.#forgetReading(reading)
    }
  }

  /** U4 */
  #join(reading: Reading): Promise<Run | null> {
    reading.users += 1
    if (this.#uses.has(reading)) this.#uses.used(reading)
    return reading.run
  }

  /** @param begin of the contents, in the memory of the run */
  async #read(
    reading: Reading,
    frames: readonly FrameToRead[],
    memory: SharedArrayBuffer,
    begin: number,
    contentBytes: number,
  ): Promise<Run | null> {
    const outcomes = await this.#reads.readAll(frames).catch(() => [])
    if (outcomes.length === frames.length && outcomes.every((outcome, i) => isInPlace(outcome, frames[i]!))) {
      const run = { bytes: Buffer.from(memory, begin, contentBytes), reading }
      reading.ready = run
      return run
    }
    this.#taken -= 1
    this.memory.giveUp()
    this.#forgetReading(reading)
    return null
  }

  /** U5. Keeps a run that no request has any more, if one may stay. */
  #keep(reading: Reading): void {
    const leaving = this.#uses.add(reading)
    if (leaving === reading) return this.#drop(reading)
    if (leaving !== null) {
      this.#letGo(leaving)
      if (leaving.users === 0) this.#drop(leaving)
    }
    const owner = reading.owner!
    const others = this.#byOwner.get(owner)
    if (others === undefined) this.#byOwner.set(owner, new Set([reading]))
    else others.add(reading)
  }

  /** Stops keeping a run. */
  #letGo(reading: Reading): void {
    this.#uses.remove(reading)
    if (reading.users > 0) this.#taken += 1
    const others = this.#byOwner.get(reading.owner!)
    others?.delete(reading)
    if (others?.size === 0) this.#byOwner.delete(reading.owner!)
  }

  #drop(reading: Reading): void {
    this.#forgetReading(reading)
    this.memory.release(reading.ready!.bytes.buffer)
  }

  #forgetReading(reading: Reading): void {
    if (this.#readings.get(reading.position) === reading) this.#readings.delete(reading.position)
  }
}

const NOTHING = Promise.resolve(null)

const isWholeRun = (extents: ExtentList, first: number, count: number): boolean =>
  first === wholeRunBegin(first) && first + count === Math.min(extents.length, wholeRunEnd(first))

const isSame = (some: readonly Extent[], others: readonly Extent[]): boolean =>
  some.length === others.length && some.every(({ position }, i) => position === others[i]!.position)

const NO_EXTENT: Extent = { position: 0, bytes: 0 }

/** U2. False also when the frame is longer than expected. */
const isInPlace = (outcome: ReadOutcome, { target }: FrameToRead): boolean =>
  !('cause' in outcome) &&
  target !== null &&
  outcome.payload.buffer instanceof SharedArrayBuffer &&
  outcome.payload.byteOffset === target.from + FRAME_HEADER_BYTES &&
  FRAME_HEADER_BYTES + outcome.payload.byteLength === target.roomBytes
