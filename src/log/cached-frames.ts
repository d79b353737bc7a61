/**
 * Frames in the page cache, read and verified by main at once. The way to a reader thread and back would take longer.
 *
 * C1  nothing here waits for the disk: a frame that is not wholly in memory is left to a thread, and so is a file that is not open yet
 * C2  a frame is given out only when it is valid (read S1). An invalid one is left to a thread, too, which finds out whether it is damaged
 * C3  readers share memory; the piece used last is used first, because the processor's cache still has it
 * C4  frames that their reader keeps stand side by side in pieces of memory that are never used again. So a piece is collected as soon as none
 *     of its frames is kept
 * C5  a file system that cannot tell what is in memory is not asked again
 * C6  a segment has one file here at most: what is being opened is not opened again, and is kept only if it still may be read (open-segments O1, O2)
 */
import { frameBytes } from '../../native-free-codecs/frame.ts'
import type { ReadMemory } from '../libc.ts'
import type { CachedFile } from './files.ts'
import type { Log } from './log.ts'
import { OpenSegments } from './open-segments.ts'
import { readFrame } from './read.ts'
import type { FrameView } from './read.ts'
import { hasSegment, segmentOf } from './segment-list.ts'

/** C4 */
const PIECE_BYTES = 256 * 1024
const PIECED_FRAME_BYTES_MAX = 80 * 1024

export interface CachedFramesOptions {
  readonly log: Pick<Log, 'id' | 'segments' | 'generation'>
  readonly open: (path: string) => Promise<CachedFile>
  /** Makes memory of some length. */
  readonly memory: (byteLength: number) => ReadMemory
  /** The longest frame that is read here, header included. */
  readonly frameBytesMax: number
  /** Memories kept for the next ones. */
  readonly spareMax: number
}

/** A frame in cached memory. The memory is used again after `release`. */
export interface CachedFrame {
  readonly type: number
  readonly payload: Buffer<ArrayBuffer>
  readonly memory: ReadMemory
}

interface Place {
  readonly file: CachedFile
  readonly segmentBase: number
  readonly offset: number
}

export class CachedFrames {
  readonly #options: CachedFramesOptions
  readonly #files = new OpenSegments<CachedFile>()
  /** Bases of segments whose files are being opened (C6). */
  readonly #opening = new Set<number>()
  /** C3 */
  readonly #spare: ReadMemory[] = []
  /** C4 */
  #piece: ReadMemory | null = null
  #pieceUsed = 0
  /** C5 */
  #cannotTell = false
  #isClosed = false

  constructor(options: CachedFramesOptions) {
    this.#options = options
  }

  /** @param expectBytes of the frame, header included. Null: a thread that may wait has to read it (C1, C2) */
  read(position: number, expectBytes: number): CachedFrame | null {
    const { frameBytesMax, memory: make } = this.#options
    const place = expectBytes > frameBytesMax ? null : this.#placeOf(position)
    if (place === null) return null
    const memory = this.#spare.pop() ?? make(frameBytesMax)
    const frame = this.#readInto(memory, 0, place, expectBytes)
    if (frame !== null) return { type: frame.type, payload: frame.payload as Buffer<ArrayBuffer>, memory } // of `memory`
    this.release(memory)
    return null
  }

  /** As `read`, for a reader that keeps the frame (C4). Null also when the frame is longer than PIECED_FRAME_BYTES_MAX. */
  readToKeep(position: number, expectBytes: number): FrameView | null {
    const place = expectBytes > PIECED_FRAME_BYTES_MAX ? null : this.#placeOf(position)
    if (place === null) return null
    if (this.#piece === null || this.#pieceUsed + expectBytes > PIECE_BYTES) {
      this.#piece = this.#options.memory(PIECE_BYTES)
      this.#pieceUsed = 0
    }
    const frame = this.#readInto(this.#piece, this.#pieceUsed, place, expectBytes)
    if (frame !== null) this.#pieceUsed += frameBytes(frame.payload.byteLength)
    return frame
  }

  release(memory: ReadMemory): void {
    if (this.#spare.length < this.#options.spareMax) this.#spare.push(memory)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#files.closeAll()
  }

  #placeOf(position: number): Place | null {
    if (this.#cannotTell) return null
    const segment = segmentOf(this.#options.log.segments, position)
    if (segment === null || position >= segment.end) return null
    const file = this.#file(segment.base, segment.recordsPath)
    return file && { file, segmentBase: segment.base, offset: position - segment.base }
  }

  /** Null: the frame is not in memory as a whole, or is not valid. */
  #readInto(
    memory: ReadMemory,
    from: number,
    { file, segmentBase, offset }: Place,
    expectBytes: number,
  ): FrameView | null {
    const { bytes } = memory
    const cached = {
      read: (into: Uint8Array, at: number): number => {
        if (into.buffer !== bytes.buffer) return 0 // longer than the memory
        memory.point(into.byteOffset - bytes.byteOffset, into.byteLength)
        const count = file.read(memory, at)
        if (count === null) this.#cannotTell = true // C5
        return count ?? 0
      },
    }
    const given = (byteLength: number): Buffer =>
      from + byteLength <= bytes.byteLength ? bytes.subarray(from, from + byteLength) : Buffer.alloc(byteLength)
    const read = readFrame(cached, this.#options.log.id, segmentBase, offset, expectBytes, given)
    return read.kind === 'frame' ? read.frame : null
  }

  #file(base: number, path: string): CachedFile | null {
    const known = this.#openFiles().get(base)
    if (known === undefined && !this.#isClosed && !this.#opening.has(base)) void this.#open(base, path)
    return known ?? null
  }

  async #open(base: number, path: string): Promise<void> {
    const { log, open } = this.#options
    const { generation } = log
    this.#opening.add(base)
    const file = await open(path).catch(() => null) // the thread that reads it reports why
    this.#opening.delete(base)
    const mayBeRead = !this.#isClosed && generation === log.generation && hasSegment(log.segments, base) // C6
    if (mayBeRead && file !== null) this.#openFiles().add(base, file)
    else file?.close()
  }

  #openFiles(): OpenSegments<CachedFile> {
    const { generation, segments } = this.#options.log
    this.#files.begin(segments[0]?.base ?? 0, generation)
    return this.#files
  }
}
