/**
 * Writes everything live again at the end of the log, so that all before it can be dropped.
 *
 * C1  it runs while nothing else is written or in flight: the copies are the whole state
 * C2  COPY_END is written only in the generation of the log in which COPY_BEGIN was: none of the copies between them was lost
 * C3  what was copied is dropped only after COPY_END is stored; a compaction cut short before that changes nothing
 */
import type { Log } from '../log/log.ts'
import type { LogWriter, Position } from '../log/log-writer.ts'
import { COPY_BEGIN, COPY_END, FLAG_COPY, markFrame, recordFrame, writeFrame } from './frames.ts'
import type { HelperFrame } from './frames.ts'
import type { RecentObjects } from './recent-objects.ts'

export class Compaction {
  readonly #log: Log
  readonly #writer: LogWriter
  readonly #frames: Iterator<HelperFrame>
  readonly #generation: number
  #next: HelperFrame | undefined
  #beginsAt: Position = 0

  /** C1 holds from here on. */
  constructor(log: Log, writer: LogWriter, recent: RecentObjects) {
    this.#log = log
    this.#writer = writer
    this.#generation = log.generation
    this.#frames = copyOf(recent)
    this.#next = this.#frames.next().value
    writer.rotate() // so that everything before is in segments that are complete
  }

  /** Goes on as far as it can now; call again when the log has news. */
  proceed(): 'going on' | 'done' | 'failed' {
    while (this.#next) {
      if (this.#log.generation !== this.#generation) return 'failed' // C2
      const written = writeFrame(this.#writer, this.#next, 'finish')
      if (written === 'full') return 'going on'
      if (written !== 'ok') return 'failed'
      if (this.#next.type === COPY_BEGIN) this.#beginsAt = this.#writer.position
      this.#next = this.#frames.next().value
    }
    const outcome = this.#log.outcome(this.#writer.end, this.#generation)
    if (outcome === 'waiting') return 'going on'
    if (outcome === 'lost') return 'failed'
    this.#log.dropBefore(this.#beginsAt) // C3
    return 'done'
  }
}

function* copyOf(recent: RecentObjects): Generator<HelperFrame, undefined> {
  yield markFrame(COPY_BEGIN)
  for (const stored of recent.all()) yield recordFrame(stored, FLAG_COPY)
  yield markFrame(COPY_END)
  return undefined
}
