/**
 * How a node reads what it gives to others, while its own clients wait for syncs of the same disk: in small steps, evenly. A sync that meets a read waits
 * for all of it: beside reads of 4 MiB, one took 13 ms on average instead of 4; beside as many bytes in reads of 256 KiB, 3.
 *
 * E1  one step is under way at a time, whatever is asked for at once
 * E2  steps begin no faster than allowed. Only a little time that went unused is made up for, so that timers which fire late cost nothing
 * E3  what the page cache has not got is read past it: through it, the kernel would read megabytes ahead at once, and drop what clients need
 */
import type { DirectReads } from '../../log/direct-reads.ts'
import type { OpenFile } from '../../log/files.ts'

interface EvenReadsParts {
  readonly bytesPerSecond: number
  /** E3. By a file's number, which `pathOf` knows. */
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
  /** Of the step under way. */
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
