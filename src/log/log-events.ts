/** The listeners of a log. */
import type { LogState } from './log-options.ts'
import type { SegmentInfo } from './segment-list.ts'

export class LogEvents {
  readonly #progress: (() => void)[] = []
  readonly #sealed: ((segment: SegmentInfo) => void)[] = []
  readonly #state: ((state: LogState) => void)[] = []
  readonly #full: ((isFull: boolean) => void)[] = []

  /** One call per coalesced wake of main: positions moved. */
  onProgress(listener: () => void): void {
    this.#progress.push(listener)
  }

  /** The footer is durable, the segment is immutable now. */
  onSealed(listener: (segment: SegmentInfo) => void): void {
    this.#sealed.push(listener)
  }

  onStateChange(listener: (state: LogState) => void): void {
    this.#state.push(listener)
  }

  /** The disk has no room for anything new, or has again; found out within some seconds. */
  onFull(listener: (isFull: boolean) => void): void {
    this.#full.push(listener)
  }

  protected emitProgress(): void {
    for (const listener of this.#progress) listener()
  }

  protected emitSealed(segment: SegmentInfo): void {
    for (const listener of this.#sealed) listener(segment)
  }

  protected emitState(state: LogState): void {
    for (const listener of this.#state) listener(state)
  }

  protected emitFull(isFull: boolean): void {
    for (const listener of this.#full) listener(isFull)
  }
}
