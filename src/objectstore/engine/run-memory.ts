/**
 * Memory of runs, used again and again: a page that is new costs more than copying over one that is not. It is shared with the threads that read
 * into it. Memory that is handed over counts as new for V8 each time, and 4 GETs of 16 MiB were a full collection.
 */
import { EXTENT_BYTES } from './frames.ts'

export const RUN_EXTENTS_MAX = 4
export const RUN_CONTENT_BYTES_MAX = RUN_EXTENTS_MAX * EXTENT_BYTES
/** With the head of the first frame. */
export const RUN_BYTES = RUN_CONTENT_BYTES_MAX + 4096

export class RunMemory {
  readonly #spare: SharedArrayBuffer[] = []
  /** In use. */
  #count = 0

  get usedBytes(): number {
    return this.#count * RUN_BYTES
  }

  take(): SharedArrayBuffer {
    this.#count += 1
    return this.#spare.pop() ?? new SharedArrayBuffer(RUN_BYTES)
  }

  giveBack(memory: SharedArrayBuffer): void {
    this.#count -= 1
    this.#spare.push(memory)
  }

  /** One that a thread may still write to. */
  giveUp(): void {
    this.#count -= 1
  }
}
