/**
 * Objects as they are read: what their commit frame says, and their bodies.
 *
 * O1  a piece of a body is given out only when the frame it stands in holds: wrong bytes never leave
 * O2  while a body is read, the frames it stands in stay where they are: `oldestRead`
 * O3  frames that were read stay in memory, within CACHE_BYTES_MAX: what is read often is read once
 */
import type { ObjectValue } from '../index/value.ts'
import type { ByteSource, StoredObject } from '../operations.ts'
import type { StoreCounters } from '../counters.ts'
import { refuse } from '../refusals.ts'
import { FrameDropped } from './frame-reads.ts'
import type { FrameMemory, FrameReads } from './frame-reads.ts'
import { decodeCommit, decodeDetails, extentContent } from './frames.ts'
import type { CommitFrame, Extent, ObjectDetails } from './frames.ts'

const CACHE_BYTES_MAX = 64 << 20
/** A frame with more is not kept: it would take the place of many. */
const CACHED_FRAME_BYTES_MAX = 256 * 1024
/** What a commit frame has besides the body and the key, about: one read is enough for most. */
const DETAILS_BYTES_EXPECTED = 700
/** Read ahead, of all bodies together. */
const AHEAD_BYTES_MAX = 8 << 20

export interface LoadedObject {
  /** Of the frame. */
  readonly position: number
  readonly frame: CommitFrame
  readonly details: ObjectDetails
  /** The same whenever it is asked for: what is made of it can be kept with it. */
  readonly view: StoredObject
}

interface Piece {
  readonly bytes: Buffer
  readonly memory: FrameMemory
}

export class Objects {
  readonly #reads: FrameReads
  readonly #counters: StoreCounters
  /** By position, in order of use. */
  readonly #cache = new Map<number, LoadedObject & { readonly bytes: number }>()
  #cacheBytes = 0
  readonly #open = new Set<ExtentSource>()
  aheadBytes = 0

  constructor(reads: FrameReads, counters: StoreCounters) {
    this.#reads = reads
    this.#counters = counters
  }

  /** O2. Infinity: nothing is read. */
  get oldestRead(): number {
    let oldest = Infinity
    for (const source of this.#open) oldest = Math.min(oldest, source.oldest)
    return oldest
  }

  /** O3. Undefined: it has to be read. */
  kept(position: number): LoadedObject | undefined {
    const kept = this.#cache.get(position)
    if (kept !== undefined) {
      this.#cache.delete(position)
      this.#cache.set(position, kept)
    }
    return kept
  }

  /** @throws FrameDropped, S3Error */
  async load({ position, size, parts }: ObjectValue, keyBytes: number): Promise<LoadedObject> {
    const kept = this.kept(position)
    if (kept !== undefined) return kept
    const contentBytes = size <= INLINE_GUESS_BYTES ? size : Math.ceil(size / (128 * 1024)) * 12
    const expectBytes = DETAILS_BYTES_EXPECTED + keyBytes + contentBytes + 60 * parts
    const { payload } = await this.#reads.read(position, expectBytes)
    const frame = decodeCommit(payload)
    const details = decodeDetails(frame.details)
    const view = this.#viewOf(frame, details)
    const loaded = { position, frame, details, view, bytes: payload.byteLength }
    this.#keep(loaded)
    return loaded
  }

  #viewOf(frame: CommitFrame, details: ObjectDetails): StoredObject {
    const { size, lastModifiedMs, etag, commitSequence, key, partNumber: parts, content } = frame
    return {
      ...details,
      key: key.toString(),
      size,
      lastModifiedMs,
      etag: parts > 0 ? `${etag}-${parts}` : etag,
      commitSequence,
      read: (from, to) => {
        this.#counters.bodyBytesRead += to - from
        if ('inline' in content) return new InlineSource(content.inline.subarray(from, to))
        return this.#openSource(content.extents, from, to)
      },
    }
  }

  /** What can be had without waiting; null: `piece` has to read it. */
  pieceNow({ position, bytes }: Extent): Piece | null {
    const read = this.#reads.readNow(position, bytes + EXTENT_HEAD_EXPECTED_BYTES)
    return read === null ? null : { bytes: extentContent(read.payload), memory: read.memory }
  }

  /** A piece of a body. @throws FrameDropped, S3Error */
  async extent(extent: Extent): Promise<Buffer> {
    const { bytes } = await this.piece(extent, false)
    return bytes
  }

  /** The same, in memory that may be used again when it is given back. */
  async piece({ position, bytes }: Extent, isPassing = true): Promise<Piece> {
    const { payload, memory } = await this.#reads.read(position, bytes + EXTENT_HEAD_EXPECTED_BYTES, isPassing)
    return { bytes: extentContent(payload), memory }
  }

  giveBack({ memory }: Piece): void {
    this.#reads.giveBack(memory)
  }

  closed(source: ExtentSource): void {
    this.#open.delete(source)
  }

  #openSource(extents: readonly Extent[], from: number, to: number): ByteSource {
    const source = new ExtentSource(this, extents, from, to)
    this.#open.add(source)
    return source
  }

  /** O3 */
  #keep(loaded: LoadedObject & { readonly bytes: number }): void {
    const { position } = loaded
    if (loaded.bytes > CACHED_FRAME_BYTES_MAX || this.#cache.has(position)) return
    this.#cache.set(position, loaded)
    this.#cacheBytes += loaded.bytes
    for (const [oldest, { bytes }] of this.#cache) {
      if (this.#cacheBytes <= CACHE_BYTES_MAX) break
      this.#cache.delete(oldest)
      this.#cacheBytes -= bytes
    }
  }
}

const INLINE_GUESS_BYTES = 64 * 1024
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

/** Goes from extent to extent. While one is given out, the next one is read if a thread has to read it, as far as there is memory. */
class ExtentSource implements ByteSource {
  /** Lowest position of what it may need. */
  readonly oldest: number
  readonly #objects: Objects
  readonly #extents: readonly Extent[]
  #number = 0
  /** In the body, of extent `#number`. */
  #begin = 0
  #from: number
  readonly #to: number
  #ahead: { readonly bytes: number; readonly piece: Promise<Piece> } | null = null
  /** Given out last. */
  #piece: Piece | null = null

  constructor(objects: Objects, extents: readonly Extent[], from: number, to: number) {
    this.#objects = objects
    this.#extents = extents
    this.#from = from
    this.#to = to
    while (this.#number < extents.length && this.#begin + extents[this.#number]!.bytes <= from) this.#pass()
    this.oldest = extents.reduce((oldest, { position }) => Math.min(oldest, position), Infinity)
  }

  async next(): Promise<Uint8Array | null> {
    this.#giveBack()
    if (this.#from >= this.#to) {
      this.close()
      return null
    }
    try {
      const extent = this.#extents[this.#number]!
      const reading = this.#takeAhead() ?? this.#objects.pieceNow(extent) ?? this.#objects.piece(extent)
      const begin = this.#begin
      const from = this.#from - begin
      const to = Math.min(extent.bytes, this.#to - begin)
      this.#from = begin + to
      this.#pass()
      const isWaiting = reading instanceof Promise
      const piece = isWaiting ? await reading : reading
      this.#piece = piece
      if (isWaiting) this.#readAhead()
      return piece.bytes.subarray(from, to)
    } catch (error) {
      this.close()
      throw error instanceof FrameDropped
        ? refuse('InternalError', 'The object was moved meanwhile. Please try again.')
        : error
    }
  }

  close(): void {
    void this.#takeAhead()
      ?.then((piece) => this.#objects.giveBack(piece))
      .catch(() => {}) // it was not asked for
    this.#giveBack()
    this.#from = this.#to
    this.#objects.closed(this)
  }

  #giveBack(): void {
    if (this.#piece !== null) this.#objects.giveBack(this.#piece)
    this.#piece = null
  }

  #pass(): void {
    this.#begin += this.#extents[this.#number]!.bytes
    this.#number += 1
  }

  #readAhead(): void {
    if (this.#from >= this.#to) return
    const extent = this.#extents[this.#number]!
    if (this.#objects.aheadBytes + extent.bytes > AHEAD_BYTES_MAX) return
    const piece = this.#objects.piece(extent)
    piece.catch(() => {}) // whoever asks for it hears
    this.#ahead = { bytes: extent.bytes, piece }
    this.#objects.aheadBytes += extent.bytes
  }

  #takeAhead(): Promise<Piece> | undefined {
    const ahead = this.#ahead
    this.#objects.aheadBytes -= ahead?.bytes ?? 0
    this.#ahead = null
    return ahead?.piece
  }
}
