/**
 * How far a journal may write: it publishes the limits of its file system, up to which the producer takes frames.
 *
 * F1  room is what the file system reports as free. If it refuses a write although it reports room (reserved blocks, quotas), its report no
 *     longer counts: room is then the number of bytes that could be written into a probe file
 * F2  the probe file is filled step by step, so that frames never wait for it, and removed at once. It is filled again when the room it found is
 *     nearly used up; after a refusal, when something was freed or some time has passed
 * F3  if a frame is refused within a minute of the refusal before, the time until the next probe doubles, and nothing is taken meanwhile
 * F4  each probe that succeeds as a whole makes the next one larger. After a large one the file system's report counts again
 */
import { TEMPORARY_SUFFIX } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import type { LogShared } from './log-shared.ts'
import type { Position } from './log-writer.ts'

/** Room that not even frames that finish something may use: for footers, directories and the mark. */
export const FINISH_RESERVE_BYTES = 1 << 20
const STEP_BYTES = 32 << 20
const PIECE_BYTES = 256 << 10
/** F2, F4. What is sought at first besides the reserve, and what is enough to trust the file system again. */
const SOUGHT_BYTES_FIRST = 64 << 20
const SOUGHT_BYTES_LAST = 512 << 20
/** F2. Room that counts as nearly used up; also what counts as freed. */
const LITTLE_BYTES = 16 << 20
const AFTER_REFUSAL_MS = 1000
const AGAIN_MS = 10_000
/** F3 */
const IN_A_ROW_MS = 60_000
const WAIT_MS_FIRST = 1000
const WAIT_MS_LAST = 30_000

export interface FreeSpaceOptions {
  readonly files: Files
  readonly directory: string
  /** Path of the directory with the segments. */
  readonly segments: string
  readonly shared: LogShared
  readonly replica: number
  readonly reserveBytes: number
  /** F3. Refusals in a row; 0: the file system's report counts. */
  readonly refusals: number
  readonly nowMs: () => number
}

/** F3. Writes to the directories of one log that found the disk full, each within a minute of the one before. */
export class Refusals {
  readonly #last = new Map<number, { readonly count: number; readonly atMs: number }>()

  /** @param showsRoom the file system reports room in spite of the refusal. Otherwise its report still counts, unless a refusal came shortly before */
  add(replica: number, showsRoom: boolean, atMs: number): void {
    const last = this.#recent(replica, atMs)
    this.#last.set(replica, { count: showsRoom || last ? (last?.count ?? 0) + 1 : 0, atMs })
  }

  count(replica: number, atMs: number): number {
    return this.#recent(replica, atMs)?.count ?? 0
  }

  #recent(replica: number, atMs: number) {
    const last = this.#last.get(replica)
    return last !== undefined && atMs - last.atMs < IN_A_ROW_MS ? last : undefined
  }
}

/** F1. The file that is filled to see how much room there is. */
interface Filling {
  readonly file: OpenFile
  readonly wantedBytes: number
  bytes: number
}

export class FreeSpace {
  readonly #options: FreeSpaceOptions
  readonly #path: string
  /** F1. Where the room ends that a probe found; null: the file system's report counts. */
  #found: Position | null
  #filling: Filling | null = null
  #soughtBytes: number
  #wasRefused = true
  #notBeforeMs: number
  #againMs: number
  #freeBytesThen = Infinity

  constructor(options: FreeSpaceOptions) {
    this.#options = options
    const { refusals, reserveBytes } = options
    this.#path = `${options.segments}/room${TEMPORARY_SUFFIX}`
    this.#found = refusals === 0 ? null : 0
    this.#soughtBytes = Math.min(SOUGHT_BYTES_FIRST, reserveBytes)
    const waitMs = refusals === 0 ? 0 : Math.min(WAIT_MS_LAST, WAIT_MS_FIRST * 2 ** (refusals - 1))
    this.#notBeforeMs = options.nowMs() + waitMs
    this.#againMs = this.#notBeforeMs
  }

  /** Bytes that may be written, the reserve included. */
  get bytes(): number {
    const { files, directory, shared, replica } = this.#options
    const freeBytes = files.freeBytes(directory)
    if (this.#found === null) return freeBytes
    return Math.max(0, Math.min(freeBytes, this.#found - shared.written(replica)))
  }

  /** Looks again, and tells the producer how far it may go. */
  publish(): void {
    if (this.#found !== null) this.#seek(this.#found)
    const { shared, replica, reserveBytes } = this.#options
    publishRoom(this.bytes, shared, replica, reserveBytes)
  }

  close(): void {
    if (this.#filling !== null) this.#remove(this.#filling)
  }

  /** F2 */
  #seek(found: Position): void {
    const { files, directory, reserveBytes, nowMs } = this.#options
    const freeBytes = files.freeBytes(directory)
    if (this.#filling === null) {
      if (!this.#isDue(found, freeBytes)) return
      // At most half of what is free: others write there, too.
      const wantedBytes = Math.min(reserveBytes + this.#soughtBytes, Math.floor(freeBytes / 2))
      this.#filling = this.#begin(wantedBytes)
    }
    const filling = this.#filling
    const isRefused = filling === null || !this.#fillOn(filling)
    if (!isRefused && filling.bytes < filling.wantedBytes) return
    if (filling !== null) this.#remove(filling)
    this.#learn(filling?.bytes ?? 0, isRefused)
    this.#wasRefused = isRefused
    this.#notBeforeMs = nowMs() + (isRefused ? AFTER_REFUSAL_MS : 0)
    this.#againMs = nowMs() + AGAIN_MS
    this.#freeBytesThen = files.freeBytes(directory)
  }

  #isDue(found: Position, freeBytes: number): boolean {
    const { shared, replica, reserveBytes, nowMs } = this.#options
    const atMs = nowMs()
    if (atMs < this.#notBeforeMs) return false
    if (this.#wasRefused) return atMs >= this.#againMs || freeBytes >= this.#freeBytesThen + LITTLE_BYTES
    return found - shared.written(replica) < reserveBytes + Math.min(LITTLE_BYTES, this.#soughtBytes / 4)
  }

  #learn(bytes: number, isRefused: boolean): void {
    const { shared, replica } = this.#options
    if (isRefused || this.#soughtBytes < SOUGHT_BYTES_LAST) this.#found = shared.written(replica) + bytes
    else this.#found = null // F4
    if (!isRefused) this.#soughtBytes *= 2
  }

  #begin(wantedBytes: number): Filling | null {
    const { files } = this.#options
    try {
      if (files.exists(this.#path)) files.removeFile(this.#path)
      return { file: files.create(this.#path), wantedBytes, bytes: 0 }
    } catch {
      return null // no room for a name
    }
  }

  /** False: the write was refused. A disk that fails is noticed when frames are written. */
  #fillOn(filling: Filling): boolean {
    const bytes = Math.min(STEP_BYTES, filling.wantedBytes - filling.bytes)
    const pieces = Array.from({ length: Math.ceil(bytes / PIECE_BYTES) }, (_, i) =>
      PIECE.subarray(0, Math.min(PIECE_BYTES, bytes - i * PIECE_BYTES)),
    )
    try {
      for (const piece of pieces) {
        filling.file.writev([piece], filling.bytes)
        filling.bytes += piece.byteLength
      }
      return true
    } catch {
      return false
    }
  }

  #remove({ file }: Filling): void {
    this.#filling = null
    file.close()
    this.#options.files.removeFile(this.#path)
  }
}

const PIECE = Buffer.alloc(PIECE_BYTES)

/** Publishes what the file system reports, while no journal runs. */
export function publishSpace(
  files: Files,
  directory: string,
  shared: LogShared,
  replica: number,
  reserveBytes: number,
): void {
  publishRoom(files.freeBytes(directory), shared, replica, reserveBytes)
}

function publishRoom(bytes: number, shared: LogShared, replica: number, reserveBytes: number): void {
  const end = shared.written(replica) + bytes
  shared.publishLimits(replica, Math.max(0, end - reserveBytes), Math.max(0, end - FINISH_RESERVE_BYTES))
}
