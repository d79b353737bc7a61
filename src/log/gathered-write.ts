/**
 * One write to a file, gathered from many parts: large ones stay where they are, runs of small ones are copied together, because each
 * further part of a writev costs more than the copy.
 *
 *   parts  [ staged run | large part | staged run | … ]  at byte `at` of the file, without a gap
 */
import { copyBytes } from '../../native-free-codecs/copy-bytes.ts'
import type { OpenFile } from './files.ts'

/** Parts of one writev: IOV_MAX of Linux, less the run that may still be open. */
const PARTS_MAX = 1023
const COPIED_BYTES_MAX = 16 << 10
/** Many logs never have more in a write. */
const STAGING_BYTES_FIRST = 64 << 10
const STAGING_BYTES_MAX = 1 << 20

export class GatheredWrite {
  #staging = Buffer.alloc(STAGING_BYTES_FIRST)
  #file: OpenFile | null = null
  #at = 0
  #staged = 0
  #runStart = 0
  #parts: Uint8Array[] = []
  #bytes = 0

  /** What is added from now on goes to this file, from byte `at` on. Nothing is waiting. */
  begin(file: OpenFile, at: number): void {
    this.#file = file
    this.#at = at
  }

  /** Bytes [from, from + bytes) of the source, which stay as they are until `flush` returned. Writes when there is no more room. */
  add(source: Uint8Array, from: number, bytes: number): void {
    if (bytes === 0) return
    if (this.#parts.length >= PARTS_MAX - 1) this.flush()
    if (bytes > COPIED_BYTES_MAX) {
      this.#closeRun()
      this.#parts.push(source.subarray(from, from + bytes))
    } else {
      if (this.#staged + bytes > this.#staging.byteLength) this.#makeRoom()
      this.#staged = copyBytes(source.subarray(from, from + bytes), this.#staging, this.#staged)
    }
    this.#bytes += bytes
  }

  /** Writes what was added. False: there was nothing. */
  flush(): boolean {
    if (this.#bytes === 0) return false
    this.#closeRun()
    this.#file!.writev(this.#parts, this.#at)
    this.#at += this.#bytes
    this.#parts = []
    this.#bytes = 0
    this.#staged = 0
    this.#runStart = 0
    return true
  }

  /** Makes room for more staged bytes. Those that are staged already stay where they are until they are written. */
  #makeRoom(): void {
    if (this.#staging.byteLength === STAGING_BYTES_MAX) {
      this.flush()
      return
    }
    this.#closeRun()
    this.#staging = Buffer.alloc(STAGING_BYTES_MAX)
    this.#staged = 0
    this.#runStart = 0
  }

  #closeRun(): void {
    if (this.#staged > this.#runStart) this.#parts.push(this.#staging.subarray(this.#runStart, this.#staged))
    this.#runStart = this.#staged
  }
}
