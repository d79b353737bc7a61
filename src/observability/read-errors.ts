/**
 * Reads of stored data that failed for other reasons than what they found: the disk answers EIO, or not at all. Each is counted, the first in a
 * while is logged, and the service is degraded until there was none for an hour.
 */
import { StoreError, messageOf } from '../errors.ts'
import type { Degradation } from './health.ts'
import type { Logger } from './logger.ts'

const NOT_BEGUN = new Set(['jobs_closed', 'jobs_queue_full'])
const LINE_EVERY_MS = 10_000
const DEGRADED_FOR_MS = 3_600_000

export class ReadErrors {
  count = 0
  readonly #nowMs: () => number
  readonly #logger: Pick<Logger, 'error'>
  #last = { reason: '', atMs: -Infinity }
  #loggedAtMs = -Infinity
  #unlogged = 0

  /** @param nowMs monotonic */
  constructor(nowMs: () => number, logger: Pick<Logger, 'error'>) {
    this.#nowMs = nowMs
    this.#logger = logger
  }

  /** @param reason what could not be read, and the code of the system: 'segment 0000000000000000: EIO' */
  note(reason: string): void {
    const nowMs = this.#nowMs()
    this.count += 1
    this.#unlogged += 1
    this.#last = { reason, atMs: nowMs }
    if (nowMs - this.#loggedAtMs < LINE_EVERY_MS) return
    this.#loggedAtMs = nowMs
    this.#logger.error({ reason, errors: this.#unlogged }, 'stored data could not be read')
    this.#unlogged = 0
  }

  /** Notes a job that failed to read. A job that never began, because its pool is full or closing, says nothing about the disk. */
  noteFailed(what: string, error: unknown): void {
    if (error instanceof StoreError && NOT_BEGUN.has(error.code)) return
    this.note(`${what}: ${messageOf(error)}`)
  }

  degradations(): readonly Degradation[] {
    const { reason, atMs } = this.#last
    if (this.#nowMs() - atMs >= DEGRADED_FOR_MS) return []
    return [
      {
        kind: 'read_errors',
        reason: `${this.count} reads of stored data failed, the last one: ${reason}`,
        action: 'check the log of the system, and replace the disk if it fails',
      },
    ]
  }
}
