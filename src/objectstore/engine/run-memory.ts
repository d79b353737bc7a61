/**
 * Memory of runs, which is reused: a page that is new costs more than copying over one that is not. It is shared with the threads that read into it,
 * as V8 counts memory that is handed over as new each time: with it, 4 GETs of 16 MiB brought a full collection.
 */
import { EXTENT_BYTES } from './frames.ts'

export const RUN_EXTENTS_MAX = 4
export const RUN_CONTENT_BYTES_MAX = RUN_EXTENTS_MAX * EXTENT_BYTES
/** With the head of the first frame. */
export const RUN_BYTES = RUN_CONTENT_BYTES_MAX + 4096

export class RunMemory {
  readonly #spare: SharedArrayBuffer[] = []
  /** How many are in use. */
  #count = 0

  get usedBytes(): number {
    return this.#count * RUN_BYTES
  }

  take(): SharedArrayBuffer {
    this.#count += 1
    return this.#spare.pop() ?? new SharedArrayBuffer(RUN_BYTES)
  }

  release(memory: SharedArrayBuffer): void {
    this.#count -= 1
    this.#spare.push(memory)
  }

  /** Gives up memory that a thread may still write to. */
  giveUp(): void {
    this.#count -= 1
  }
}
