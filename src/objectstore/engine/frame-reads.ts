/**
 * Reads frames for main: those in the page cache at once, all others by reader threads.
 *
 * `src/pipeline/gathered-jobs.ts` gathers the reads; a read weighs as much as its bytes.
 *
 * R2  a frame that is stored before main knows its segment is read when main does
 * R3  memory of long frames is reused: it goes to the reader with the job, comes back with the payload, and is given back by
 *     its last user
 * R4  main reads NOW_BYTES_PER_TURN at most in one turn of the event loop, and leaves the rest of that turn to the threads
 */
import assert from 'node:assert/strict'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import { ReadMemory } from '../../libc.ts'
import type { CachedFrames } from '../../log/cached-frames.ts'
import type { Log, SegmentInfo } from '../../log/log.ts'
import { segmentName } from '../../log/segment-format.ts'
import { segmentOf } from '../../log/segment-list.ts'
import { GatheredJobs } from '../../pipeline/gathered-jobs.ts'
import type { JobOptions } from '../../pipeline/jobs.ts'
import type { ReadErrors } from '../../observability/read-errors.ts'
import type { StoreCounters } from '../counters.ts'
import { refuse } from '../refusals.ts'
import { EXTENT_BYTES } from './frames.ts'
import type { FramePlace, FrameToRead, ReadFailure, ReadOutcome, ReadResult, ReadTask } from './read-protocol.ts'

/** Such a job takes a thread some 0.7 ms. With jobs of 1 MiB, one run of extents each, threads were idle half of the time. */
const JOB_BYTES_MAX = 1 << 22
/** R4. Reading and verifying them takes main some 2 ms. */
const NOW_BYTES_PER_TURN = 4 << 20
/** R3: for frames that are longer than the first, and not longer than the second. */
const SHORT_FRAME_BYTES = 64 * 1024
export const LONG_FRAME_BYTES = EXTENT_BYTES + 4096
const SPARE_MAX = 64
/** A disk that does not answer for so long has failed, for the requests that wait for it. */
const JOB_TIMEOUT_MS = 30_000

export interface FrameReadsOptions {
  readonly log: Log
  /** Null: threads read everything. */
  readonly cached: Pick<CachedFrames, 'read' | 'readToKeep' | 'release'> | null
  readonly jobs: { run(task: ReadTask, options: JobOptions): Promise<ReadResult> }
  /** Threads of the pool behind `jobs`. */
  readonly threads: number
  /** Calls `run` once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
  readonly counters: StoreCounters
  readonly readErrors: Pick<ReadErrors, 'note' | 'noteFailed'>
}

export interface ReadFrame {
  readonly type: number
  readonly payload: Buffer
  readonly memory: FrameMemory
}

interface HowToRead {
  /** The caller is soon done with the frame, and gives its memory back (R3). */
  readonly isPassing: boolean
  /** As in a `FrameToRead`. */
  readonly isAgain: boolean
}
const FOR_ITS_READER: HowToRead = { isPassing: false, isAgain: false }

/** R3. Null: the payload has memory of its own, which is never given back. */
export type FrameMemory = SharedArrayBuffer | ReadMemory | null

/** The frame is not where it was: it was moved, or its object or part is gone. */
export class FrameDropped extends Error {}

/** Frames that are read in one job. */
interface Waiting {
  readonly frames: readonly FrameToRead[]
  readonly weight: number
  readonly resolve: (outcomes: readonly ReadOutcome[]) => void
  readonly reject: (error: unknown) => void
}

export class FrameReads {
  readonly #options: FrameReadsOptions
  readonly #gathered: GatheredJobs<Waiting>
  /** R2 */
  #waitingForSegment: (() => void)[] = []
  /** R3 */
  readonly #spare: SharedArrayBuffer[] = []
  /** R4 */
  #nowBytes = 0

  constructor(options: FrameReadsOptions) {
    this.#options = options
    this.#gathered = new GatheredJobs({
      threads: options.threads,
      weightMax: JOB_BYTES_MAX,
      weigh: ({ weight }) => weight,
      run: (group) => this.#run(group),
      defer: options.defer,
    })
    options.log.onProgress(() => {
      for (const readAgain of this.#waitingForSegment.splice(0)) readAgain()
    })
  }

  /** Reads a frame without waiting, into memory to be given back (R3). Null: `read` has to read it. */
  readNow(position: number, payloadBytes: number): ReadFrame | null {
    if (!this.#isNow(payloadBytes)) return null
    return this.#options.cached?.read(position, FRAME_HEADER_BYTES + payloadBytes) ?? null
  }

  /** The same for a short frame, whose payload the caller owns. */
  readToKeepNow(position: number, payloadBytes: number): Buffer | null {
    if (!this.#isNow(payloadBytes)) return null
    return this.#options.cached?.readToKeep(position, FRAME_HEADER_BYTES + payloadBytes)?.payload ?? null
  }

  /**
   * @param payloadBytes as far as is known
   * @throws FrameDropped; S3Error InternalError when it is damaged, ServiceUnavailable when the disk failed
   */
  read(position: number, payloadBytes: number, how: HowToRead = FOR_ITS_READER): Promise<ReadFrame> {
    const { log } = this.#options
    const segment = segmentOf(log.segments, position)
    if (segment === null || position >= segment.end) {
      if (this.#isLost(position)) return Promise.reject(damaged())
      if (segment === null) return Promise.reject(new FrameDropped())
      const progress = new Promise<void>((resolve) => this.#waitingForSegment.push(resolve))
      return progress.then(() => this.read(position, payloadBytes, how)) // R2
    }
    return this.#readOne(segment, position, payloadBytes, how)
  }

  async #readOne(
    segment: SegmentInfo,
    position: number,
    payloadBytes: number,
    { isPassing, isAgain }: HowToRead,
  ): Promise<ReadFrame> {
    const expectBytes = FRAME_HEADER_BYTES + payloadBytes
    const place = placeIn(segment, position, expectBytes)
    const memory = isPassing ? this.#memoryFor(expectBytes) : null
    const target = memory === null ? null : { memory, from: 0, roomBytes: memory.byteLength }
    const [outcome] = await this.readAll([{ ...place, target, isAgain }])
    assert(outcome !== undefined)
    if ('cause' in outcome) throw this.#failureOf(segment, place, outcome)
    const { buffer, byteOffset, byteLength } = outcome.payload
    return {
      type: outcome.type,
      payload: Buffer.from(buffer, byteOffset, byteLength),
      memory: buffer instanceof SharedArrayBuffer ? buffer : null,
    }
  }

  /** Reads several frames in one job, in this order. Rejects as `read` does when the disk failed. */
  readAll(frames: readonly FrameToRead[]): Promise<readonly ReadOutcome[]> {
    const weight = frames.reduce((sum, { expectBytes }) => sum + expectBytes, 0)
    return new Promise((resolve, reject) => this.#gathered.add({ frames, weight, resolve, reject }))
  }

  /** R3. What was read into the memory must not be used any more. */
  release(memory: FrameMemory): void {
    if (memory instanceof ReadMemory) this.#options.cached?.release(memory)
    else if (memory !== null && this.#spare.length < SPARE_MAX) this.#spare.push(memory)
  }

  /** R4 */
  #isNow(bytes: number): boolean {
    if (this.#nowBytes === 0) this.#options.defer(() => (this.#nowBytes = 0))
    this.#nowBytes += bytes
    return this.#nowBytes <= NOW_BYTES_PER_TURN
  }

  async #run(group: readonly Waiting[]): Promise<void> {
    const { jobs, log, readErrors } = this.#options
    const frames = group.flatMap((waiting) => waiting.frames)
    try {
      const oldestBase = log.segments[0]?.base ?? 0
      const result = await jobs.run({ oldestBase, generation: log.generation, frames }, { timeoutMs: JOB_TIMEOUT_MS })
      let done = 0
      for (const { frames: own, resolve } of group) {
        resolve(result.slice(done, done + own.length))
        done += own.length
      }
    } catch (cause) {
      readErrors.noteFailed(`segment ${segmentName(frames[0]!.segmentBase)}`, cause)
      const error = refuse('ServiceUnavailable', 'The disk could not be read. Please try again.', { cause })
      for (const { reject } of group) reject(error)
    }
  }

  #memoryFor(expectBytes: number): SharedArrayBuffer | null {
    if (expectBytes <= SHORT_FRAME_BYTES || expectBytes > LONG_FRAME_BYTES) return null
    return this.#spare.pop() ?? new SharedArrayBuffer(LONG_FRAME_BYTES)
  }

  #failureOf(segment: SegmentInfo, { place }: FramePlace, failure: ReadFailure): Error {
    const { log, counters, readErrors } = this.#options
    if (failure.cause === 'dropped') return this.#isLost(segment.base + place) ? damaged() : new FrameDropped()
    if (failure.cause === 'unavailable') {
      readErrors.note(`segment ${segmentName(segment.base)}: ${failure.reason}`)
      return refuse('ServiceUnavailable', `The disk could not be read (${failure.reason}). Please try again.`)
    }
    counters.damagedReads += 1
    const from = segment.base + place
    log.reportDamage(segment, { from, to: from + failure.frameBytes, reason: failure.reason })
    return damaged()
  }

  /** True when there is an incident: the segment is gone, and was not dropped. */
  #isLost(position: number): boolean {
    return this.#options.log.incidents.some(({ from, to }) => from <= position && position < to)
  }
}

export const placeIn = ({ base }: SegmentInfo, position: number, expectBytes: number): FramePlace => ({
  segmentBase: base,
  place: position - base,
  expectBytes,
})

const damaged = (): Error =>
  refuse('InternalError', 'What is stored of this object is damaged: it is not given out.', { retryable: false })
