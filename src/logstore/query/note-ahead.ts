/**
 * Has new frames noted for searches (note-frames.ts), so that searches need not read them. For a while after each search all of them are noted; later
 * only while little comes, as a store that takes in all that it can is searched seldom and needs its cores. Runs on the main thread.
 *
 * N1  one step at a time, so that questions, which the same threads answer, wait for one step at most
 */
import { isRefusal } from '../tenants/caller.ts'
import { askThread } from './query-front.ts'
import type { AskParts } from './query-front.ts'
import { processNowMs } from './task.ts'
import type { NoteQuestion } from './task.ts'

const LOOK_EVERY_MS = 200
const NOTES_AFTER_SEARCH_MS = 60_000
/** More than this between two looks is much: some 30 MiB a second. To note 20 MiB a second takes 2 to 4 % of a core. */
const MUCH_BYTES = 6 * 1024 * 1024
/** A step that failed may fail again, as when the disk cannot read a frame, and each failure is counted. */
const RETRY_AFTER_MS = 5000

export interface NoteClock {
  /** Monotonic. */
  nowMs(): number
  /** Calls again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

/** What a step noted: part of what is there, or all of it. 'nothing': the step was refused, and is tried again after a while. */
export type Noted = 'part' | 'all' | 'nothing'

/** How far there are frames to be noted, and in which generation of the log. */
export interface NotedLog {
  readonly committed: number
  readonly generation: number
}

/** A step takes some milliseconds, and may wait for other questions. */
const NOTE: NoteQuestion = { kind: 'note', deadlineMs: 30_000 }
const NO_TENANT = ''

/** Has a query thread do a step. */
export async function noteStep(parts: AskParts<NoteQuestion, Uint8Array>): Promise<Noted> {
  const isAll = await askThread(parts, NO_TENANT, NOTE, processNowMs())
  if (isRefusal(isAll)) return 'nothing'
  return Buffer.from(isAll).toString() === 'true' ? 'all' : 'part'
}

export class NoteAhead {
  readonly #clock: NoteClock
  readonly #log: NotedLog
  readonly #step: () => Promise<Noted>
  readonly #stopLooking: () => void
  /** Until then frames are noted even if many come: searches came, and may come again. */
  #untilMs = -Infinity
  /** Until then no step is tried: the last one was refused. */
  #retryAtMs = -Infinity
  /** Committed position at the last look. */
  #committed = 0
  /** Everything before this position was noted, in this generation of the log. */
  #noted: NotedLog = { committed: 0, generation: -1 }
  #running: Promise<void> | null = null
  #closed = false

  /** @param step notes what came since the last one, or the first part of it */
  constructor(clock: NoteClock, log: NotedLog, step: () => Promise<Noted>) {
    this.#clock = clock
    this.#log = log
    this.#step = step
    this.#stopLooking = clock.every(LOOK_EVERY_MS, () => this.#look())
  }

  /** A search was answered. */
  searched(): void {
    if (this.#closed) return
    const nowMs = this.#clock.nowMs()
    const isFollowing = nowMs <= this.#untilMs
    this.#untilMs = nowMs + NOTES_AFTER_SEARCH_MS
    if (!isFollowing) this.#look()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopLooking()
    await this.#running
  }

  #look(): void {
    const { committed, generation } = this.#log
    const isMuch = committed - this.#committed > MUCH_BYTES
    this.#committed = committed
    const isNoted = committed === this.#noted.committed && generation === this.#noted.generation
    const nowMs = this.#clock.nowMs()
    if (isNoted || nowMs < this.#retryAtMs || (isMuch && nowMs > this.#untilMs)) return
    this.#running ??= this.#catchUp({ committed, generation }).finally(() => (this.#running = null))
  }

  /** N1 */
  async #catchUp(to: NotedLog): Promise<void> {
    while (!this.#closed) {
      const noted = await this.#step()
      if (noted === 'all') this.#noted = to
      if (noted === 'nothing') this.#retryAtMs = this.#clock.nowMs() + RETRY_AFTER_MS
      if (noted !== 'part') return
    }
  }
}
