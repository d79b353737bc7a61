/**
 * Copies of a body on its way into the log, as the runs that its readers will ask for: large writes go past the page cache, so its first reader
 * would wait for the disk.
 *
 * W1  copies take only memory that nothing else needs, those of one body only a share of it. After the first run without room, no more are made
 * W2  no reader gets a copy before the object that the body became is stored
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import type { Extent } from './extent-list.ts'
import { RUN_BYTES, RUN_EXTENTS_MAX } from './run-memory.ts'
import type { RunReads } from './run-reads.ts'

/** Bodies from this length on are copied: shorter ones stay in the page cache (log/direct-writes.ts). */
export const COPIED_BODY_BYTES_MIN = 1 << 20
/** W1 */
const SHARE_OF_ROOM = 1 / 4

interface Copy {
  readonly extents: Extent[]
  readonly memory: SharedArrayBuffer
  bytes: number
}

export class WrittenRuns {
  readonly #runs: RunReads
  readonly #copies: Copy[] = []
  /** How many extents were copied. */
  #count = 0
  #isOver = false

  constructor(runs: RunReads) {
    this.#runs = runs
  }

  /** Copies the next extent of the body, whose bytes may be overwritten when this returns. */
  add(extent: Extent, bytes: Uint8Array): void {
    if (this.#isOver) return
    const copy = this.#count % RUN_EXTENTS_MAX === 0 ? this.#begin() : this.#copies.at(-1)!
    if (copy === null) return
    copyBytes(bytes, Buffer.from(copy.memory), copy.bytes)
    copy.extents.push(extent)
    copy.bytes += extent.bytes
    this.#count += 1
  }

  /** W2. @param owner position of the frame that lists the extents */
  keep(owner: number): void {
    for (const { extents, memory, bytes } of this.#copies.splice(0)) {
      this.#runs.add(extents, owner, Buffer.from(memory, 0, bytes))
    }
    this.#isOver = true
  }

  drop(): void {
    for (const { memory } of this.#copies.splice(0)) this.#runs.memory.release(memory)
    this.#isOver = true
  }

  /** Null: there is no room (W1). */
  #begin(): Copy | null {
    const runs = this.#runs
    const room = runs.roomBytes
    const copiedBytes = this.#copies.length * RUN_BYTES
    if (copiedBytes + RUN_BYTES > (room + copiedBytes) * SHARE_OF_ROOM) {
      this.#isOver = true
      return null
    }
    const copy: Copy = { extents: [], memory: runs.memory.take(), bytes: 0 }
    this.#copies.push(copy)
    return copy
  }
}
