/**
 * Reads objects: what their commit frames say, and their bodies.
 *
 * O1  a piece of a body is given out only when the frame it stands in holds, or when it is a copy of what this process stored: wrong bytes never
 *     leave
 * O2  while a body is read, the frames it stands in stay where they are: `oldestRead`
 * O3  frames that were read stay in memory, within `cacheBytes`: what is read often is read once
 */
import { copyInOwnMemory } from '../../../native-free-codecs/copy-bytes.ts'
import type { ObjectValue } from '../index/value.ts'
import type { ByteSource, StoredObject } from '../operations.ts'
import type { StoreCounters } from '../counters.ts'
import { refuse } from '../refusals.ts'
import { FrameDropped } from './frame-reads.ts'
import type { FrameMemory, FrameReads } from './frame-reads.ts'
import type { Extent } from './extent-list.ts'
import { decodeCommit, decodeDetails, extentContent } from './frames.ts'
import type { CommitFrame, ObjectDetails } from './frames.ts'
import { ObjectCache } from './object-cache.ts'
import type { Cached } from './object-cache.ts'
import type { Run, RunReads, RunsOf } from './run-reads.ts'

/** Estimate of the memory that a loaded frame takes beside its payload, including its headers as text. */
const LOADED_BYTES = 3072
/** And of what each part that it was uploaded in takes. */
const LOADED_PART_BYTES = 100
/** A longer frame is not kept: it would evict many. */
const CACHED_FRAME_BYTES_MAX = 256 * 1024
/** About what a commit frame has besides the body and the key, so that one read is enough for most. */
const DETAILS_BYTES_EXPECTED = 700

/** An object that was read; `position` is that of its frame. */
export interface LoadedObject extends Cached {
  readonly frame: CommitFrame
  readonly details: ObjectDetails
  /** Always the same object, so that what is made of it can be kept with it. */
  readonly view: StoredObject
}

interface Piece {
  readonly bytes: Buffer
  readonly memory: FrameMemory
}

interface ExtentRange {
  /** The whole body. */
  readonly body: RunsOf
  /** In the body. */
  readonly from: number
  readonly to: number
}

/** What one read gave: an extent, or several in a run. */
interface Read {
  readonly bytes: Buffer
  readonly count: number
  readonly release: () => void
}

interface ObjectsParts {
  readonly reads: FrameReads
  readonly runs: RunReads
  readonly counters: StoreCounters
  /** O3 */
  readonly cacheBytes: number
}

export class Objects {
  readonly #reads: FrameReads
  readonly runs: RunReads
  readonly #counters: StoreCounters
  /** By position. */
  readonly #cache: ObjectCache<LoadedObject>
  readonly #open = new Set<ExtentSource>()

  constructor({ reads, runs, counters, cacheBytes }: ObjectsParts) {
    this.#reads = reads
    this.runs = runs
    this.#counters = counters
    this.#cache = new ObjectCache(cacheBytes)
  }

  /** O3 */
  get keptBytes(): number {
    return this.#cache.bytes
  }

  /** O2. Infinity: nothing is being read. */
  get oldestRead(): number {
    let oldest = Infinity
    for (const source of this.#open) oldest = Math.min(oldest, source.oldest)
    return oldest
  }

  /** The object, if it can be had without waiting (O3). Null: `load` has to read it. */
  loadNow(value: ObjectValue, keyBytes: number): LoadedObject | null {
    const { position } = value
    const kept = this.#cache.get(position)
    if (kept !== undefined) return kept
    const payload = this.#reads.readToKeepNow(position, expectedBytes(value, keyBytes))
    if (payload === null) return null
    const isKept = this.#isKept(value, payload, true)
    const loaded = this.#loaded(value, isKept ? copyInOwnMemory(payload) : payload)
    if (isKept) this.#cache.add(loaded)
    return loaded
  }

  /** @throws FrameDropped, S3Error */
  async load(value: ObjectValue, keyBytes: number): Promise<LoadedObject> {
    const { position } = value
    const kept = this.#cache.get(position)
    if (kept !== undefined) return kept
    const { payload } = await this.#reads.read(position, expectedBytes(value, keyBytes))
    const loaded = this.#loaded(value, payload)
    if (this.#isKept(value, payload, false)) this.#cache.add(loaded)
    return loaded
  }

  #isKept(value: ObjectValue, payload: Buffer, isCheap: boolean): boolean {
    return payload.byteLength <= CACHED_FRAME_BYTES_MAX && this.#cache.shouldAdd(loadedBytes(value, payload), isCheap)
  }

  #loaded(value: ObjectValue, payload: Buffer): LoadedObject {
    const { position } = value
    const frame = decodeCommit(payload)
    const details = decodeDetails(frame.details)
    const bytes = loadedBytes(value, payload)
    return { position, bytes, frame, details, view: this.#viewOf(position, frame, details) }
  }

  #viewOf(owner: number, frame: CommitFrame, details: ObjectDetails): StoredObject {
    const { size, lastModifiedMs, etag, commitSequence, key, partNumber: parts, content } = frame
    return {
      ...details,
      key: key.toString(),
      size,
      lastModifiedMs,
      etag: parts > 0 ? `${etag}-${parts}` : etag,
      commitSequence,
      headers: null,
      read: (from, to) => {
        this.#counters.bodyBytesRead += to - from
        if ('inline' in content) {
          const { inline } = content
          return new InlineSource(to - from === inline.byteLength ? inline : inline.subarray(from, to))
        }
        return this.#openSource({ body: { extents: content.extents, keyBytes: key.byteLength, owner }, from, to })
      },
    }
  }

  /** A piece of a body, if it can be had without waiting; null: `piece` has to read it. */
  pieceNow({ position, bytes }: Extent): Piece | null {
    const read = this.#reads.readNow(position, bytes + EXTENT_HEAD_EXPECTED_BYTES)
    return read === null ? null : { bytes: extentContent(read.payload), memory: read.memory }
  }

  /** A piece of a body. @throws FrameDropped, S3Error */
  async extent({ position, bytes }: Extent): Promise<Buffer> {
    const { payload } = await this.#reads.read(position, bytes + EXTENT_HEAD_EXPECTED_BYTES)
    return extentContent(payload)
  }

  /** The same, in memory that is reused when it is given back. */
  async piece({ position, bytes }: Extent, isAgain: boolean): Promise<Piece> {
    const { payload, memory } = await this.#reads.read(position, bytes + EXTENT_HEAD_EXPECTED_BYTES, {
      isPassing: true,
      isAgain,
    })
    return { bytes: extentContent(payload), memory }
  }

  release({ memory }: Piece): void {
    this.#reads.release(memory)
  }

  closed(source: ExtentSource): void {
    this.#open.delete(source)
  }

  #openSource(range: ExtentRange): ByteSource {
    const source = new ExtentSource(this, range)
    this.#open.add(source)
    return source
  }
}

const loadedBytes = ({ parts }: ObjectValue, { byteLength }: Buffer): number =>
  LOADED_BYTES + LOADED_PART_BYTES * parts + byteLength

const INLINE_GUESS_BYTES = 64 * 1024

/** Estimates the payload of a commit frame. */
function expectedBytes({ size, parts }: ObjectValue, keyBytes: number): number {
  const contentBytes = size <= INLINE_GUESS_BYTES ? size : Math.ceil(size / (128 * 1024)) * 12
  return DETAILS_BYTES_EXPECTED + keyBytes + contentBytes + 60 * parts
}
/** The head of an extent with a key of usual length. */
const EXTENT_HEAD_EXPECTED_BYTES = 160

class InlineSource implements ByteSource {
  readonly whole: Buffer
  #bytes: Buffer | null

  constructor(bytes: Buffer) {
    this.whole = bytes
    this.#bytes = bytes.byteLength > 0 ? bytes : null
  }

  async next(): Promise<Uint8Array | null> {
    const bytes = this.#bytes
    this.#bytes = null
    return bytes
  }

  close(): void {
    this.#bytes = null
  }
}

/**
 * Goes from run to run of a body. A thread reads the next run while this one is sent, if there is memory for it: main has enough to do with sending. Main
 * reads a single extent itself, if the page cache has it, because the client waits for it.
 */
class ExtentSource implements ByteSource {
  /** Lowest position of the frames that it may need. */
  readonly oldest: number
  readonly #objects: Objects
  readonly #runs: RunReads
  readonly #body: RunsOf
  /** Number of the extent that is given out next. */
  #number: number
  readonly #firstNumber: number
  /** The range that is still to be given out, from the beginning of that extent on. */
  #from: number
  #to: number
  /** A read of extents from `#number` on, under way; null: there is none. */
  #ahead: Promise<Read | null> | null = null
  /** The read that was given out last. */
  #given: Read | null = null
  #isClosed = false

  constructor(objects: Objects, { body, from, to }: ExtentRange) {
    const { extents } = body
    this.#objects = objects
    this.#runs = objects.runs
    this.#body = body
    const { first, begin, lowestPosition } = extents.covering(from, to)
    this.#number = first
    this.#firstNumber = first
    this.#from = from - begin
    this.#to = to - begin
    this.oldest = lowestPosition
  }

  async next(): Promise<Uint8Array | null> {
    this.#dropGiven()
    if (this.#isClosed || this.#to <= 0) {
      this.close()
      return null
    }
    try {
      const read = (await this.#takeAhead()) ?? (await this.#readNow()) ?? (await this.#readExtent())
      if (this.#isClosed) {
        read.release()
        return null
      }
      this.#given = read
      const { bytes, count } = read
      const wanted = bytes.subarray(this.#from, this.#to)
      this.#from = 0
      this.#to -= bytes.byteLength
      this.#number += count
      this.#readAhead()
      return wanted
    } catch (error) {
      this.close()
      throw error instanceof FrameDropped
        ? refuse('InternalError', 'The object was moved meanwhile. Please try again.')
        : error
    }
  }

  close(): void {
    void this.#ahead?.then((read) => read?.release())
    this.#ahead = null
    this.#dropGiven()
    this.#isClosed = true
    this.#objects.closed(this)
  }

  /** The next extent and those behind it, from a run in memory. Null: there is none. */
  #keptRun(): Read | null {
    const kept = this.#runs.wholeRunInMemory(this.#body, this.#number)
    if (kept === null) return null
    const { run, begin } = kept
    const { extents } = run.reading
    const skipped = this.#number - begin
    const from = extents.slice(0, skipped).reduce((sum, { bytes }) => sum + bytes, 0)
    return this.#readOf(run, run.bytes.subarray(from), extents.length - skipped)
  }

  /** Null: none was read ahead. */
  #takeAhead(): Promise<Read | null> | null {
    const ahead = this.#ahead
    this.#ahead = null
    return ahead
  }

  #readOf(run: Run, bytes: Buffer, count: number): Read {
    return { bytes, count, release: () => this.#runs.release(run) }
  }

  /** Null: one extent is enough, or there is no memory for more now. */
  async #readNow(): Promise<Read | null> {
    const kept = this.#keptRun()
    if (kept !== null || this.#to <= this.#body.extents.at(this.#number).bytes) return kept
    const run = await this.#runs.read(this.#body, this.#number, this.#to)
    return run && this.#readOf(run, run.bytes, run.reading.extents.length)
  }

  async #readExtent(): Promise<Read> {
    const extent = this.#body.extents.at(this.#number)
    const now = this.#objects.pieceNow(extent)
    // An extent that a client asks for by itself is often asked for again, like the index at the end of a file.
    const isAgain = this.#number === this.#firstNumber
    return this.#pieceOf(now ?? (await this.#objects.piece(extent, isAgain)))
  }

  #pieceOf(piece: Piece): Read {
    return { bytes: piece.bytes, count: 1, release: () => this.#objects.release(piece) }
  }

  #readAhead(): void {
    if (this.#to <= 0) return
    const kept = this.#keptRun()
    if (kept !== null) {
      this.#ahead = Promise.resolve(kept)
      return
    }
    const reading = this.#runs.read(this.#body, this.#number, this.#to)
    this.#ahead = reading && reading.then((run) => run && this.#readOf(run, run.bytes, run.reading.extents.length))
  }

  #dropGiven(): void {
    this.#given?.release()
    this.#given = null
  }
}
