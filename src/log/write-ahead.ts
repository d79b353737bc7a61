/**
 * Zeros behind the end of the segment that is written, while little is appended: small groups then overwrite blocks that are there already. Their
 * sync has no allocation and no length of the file to make durable, and takes two thirds of the time (74 instead of 110 µs, `bench/log.bench.ts`).
 *
 *   | frames that are synced | the group | zeros … |      one write each, one sync of both
 *   0                       end        end'        reach
 *
 * W1  whoever reads the segment takes zeros for what may follow its last frame, as in a spare (spare.ts K2); the seal and the next start cut them off
 * W2  they share the sync of a group, and come in pieces, with a pause between two: at full speed they would take from the disk what it is to give
 * W3  they are only ever an advantage: where they are refused, or room gets scarce, the file grows as it did
 */
import type { OpenFile } from './files.ts'

const PAUSE_MS = 100
/** Of a larger group the sync takes long anyway. */
const GROUP_BYTES_MAX = 32 << 10

export class WriteAhead {
  readonly #zeros: Buffer
  #file: OpenFile | null = null
  /** Blocks of the file end there. */
  #reach = 0
  #notBeforeMs = 0

  /** @param pieceBytes 0: the file grows with what is appended, and no other way */
  constructor(pieceBytes: number) {
    this.#zeros = Buffer.alloc(pieceBytes)
  }

  /** Of a file with so many bytes. */
  begin(file: OpenFile, fileBytes: number): void {
    this.#file = this.#zeros.byteLength === 0 ? null : file
    this.#reach = fileBytes
  }

  /** A group of so many bytes that ends at `end` of the file makes it longer, and a piece of zeros may follow it (W2). */
  isDue(end: number, groupBytes: number, nowMs: number): boolean {
    if (end <= this.#reach || this.#file === null) return false
    this.#reach = end
    return groupBytes <= GROUP_BYTES_MAX && nowMs >= this.#notBeforeMs
  }

  /** W3. After the group is written, before it is synced. */
  extend(nowMs: number): void {
    this.#notBeforeMs = nowMs + PAUSE_MS
    try {
      this.#file!.writev([this.#zeros], this.#reach)
      this.#reach += this.#zeros.byteLength
    } catch {
      this.#file = null
    }
  }
}
