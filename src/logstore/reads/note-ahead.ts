/**
 * Has what comes noted for searches (src/logstore/walk/note-walk.ts) from the first search on until none came for a while: a store that nobody searches
 * pays nothing. Main thread.
 *
 * N1  one step at a time, so that exports and tails, which the same thread walks, wait for one step at most
 */
import { isRefusal } from '../tenants/caller.ts'
import type { Refusal } from '../refusals.ts'
import type { WalkBody } from '../walk/tasks.ts'
import type { ReaderClock } from './readers.ts'

const LOOK_EVERY_MS = 200
const FOLLOWS_FOR_MS = 60_000

export class NoteAhead {
  readonly #clock: Pick<ReaderClock, 'nowMs' | 'every'>
  readonly #step: () => Promise<WalkBody | Refusal>
  #stopLooking: (() => void) | null = null
  #untilMs = 0
  #running: Promise<void> | null = null
  #closed = false

  /** @param step notes what came since the last one, or the first part of it */
  constructor(clock: Pick<ReaderClock, 'nowMs' | 'every'>, step: () => Promise<WalkBody | Refusal>) {
    this.#clock = clock
    this.#step = step
  }

  /** A search was answered. */
  searched(): void {
    if (this.#closed) return
    this.#untilMs = this.#clock.nowMs() + FOLLOWS_FOR_MS
    this.#stopLooking ??= this.#clock.every(LOOK_EVERY_MS, () => this.#look())
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stop()
    await this.#running
  }

  #look(): void {
    if (this.#clock.nowMs() > this.#untilMs) return this.#stop()
    this.#running ??= this.#catchUp().finally(() => (this.#running = null))
  }

  #stop(): void {
    this.#stopLooking?.()
    this.#stopLooking = null
  }

  /** N1. A step that is refused comes again with the next look. */
  async #catchUp(): Promise<void> {
    while (!this.#closed) {
      const body = await this.#step()
      if (isRefusal(body) || body.isAtEnd) return
    }
  }
}
