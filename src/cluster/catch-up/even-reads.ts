/**
 * Reads files for other nodes in small, evenly paced steps, as this node's own clients wait for syncs of the same disk. A sync waits for the whole read
 * that is under way: beside reads of 4 MiB a sync took 13 ms on average instead of 4; beside as many bytes in reads of 256 KiB, it took 3.
 *
 * E1  one step is under way at a time, however many reads are requested
 * E2  steps begin no faster than `bytesPerSecond` allows. At most MADE_UP_MS of unused time is made up for, so that timers which fire late cost nothing
 * E3  bytes that are not in the page cache are read past it: otherwise the kernel would read megabytes ahead at once, and evict what clients need
 */
import type { DirectReads } from '../../log/direct-reads.ts'
import type { OpenFile } from '../../log/files.ts'

interface EvenReadsParts {
  readonly bytesPerSecond: number
  /** E3. Reads past the page cache; `pathOf` gives the path of a file's number. */
  readonly direct: (pathOf: (file: number) => string) => Pick<DirectReads, 'load' | 'close'>
  readonly nowMs: () => number
  readonly after: (delayMs: number, run: () => void) => void
}

const STEP_BYTES = 256 << 10
/** E2 */
const MADE_UP_MS = 5

export class EvenReads {
  readonly #parts: EvenReadsParts
  readonly #direct: Pick<DirectReads, 'load' | 'close'>
  /** File of the step under way. */
  #path = ''
  #step: Promise<unknown> = Promise.resolve()
  #dueMs: number

  constructor(parts: EvenReadsParts) {
    this.#parts = parts
    this.#direct = parts.direct(() => this.#path)
    this.#dueMs = parts.nowMs()
  }

  /** @see ReadPart */
  async read(file: OpenFile, path: string, into: Buffer, from: number): Promise<number> {
    let filled = 0
    while (filled < into.byteLength) {
      const part = into.subarray(filled, filled + STEP_BYTES)
      const at = from + filled
      const count = await this.#inTurn(() => this.#readStep(file, path, part, at))
      filled += count
      if (count < part.byteLength) break
    }
    return filled
  }

  /** E1 */
  #inTurn(run: () => Promise<number>): Promise<number> {
    const step = this.#step.then(run)
    this.#step = step.catch(() => {})
    return step
  }

  async #readStep(file: OpenFile, path: string, into: Buffer, at: number): Promise<number> {
    await this.#pace(into.byteLength)
    this.#path = path
    const loaded = await this.#direct.load([{ base: 0, at, bytes: into.byteLength }])
    const found = loaded.at(0, at, into.byteLength)
    const count = found?.copy(into) ?? file.read(into, at)
    this.#direct.close() // the next step may be of another file
    return count
  }

  /** E2 */
  async #pace(bytes: number): Promise<void> {
    const { bytesPerSecond, nowMs, after } = this.#parts
    const beganMs = nowMs()
    const waitMs = this.#dueMs - beganMs
    this.#dueMs = Math.max(this.#dueMs, beganMs - MADE_UP_MS) + (bytes / bytesPerSecond) * 1000
    if (waitMs > 0) await new Promise<void>((resolve) => after(waitMs, resolve))
  }
}
