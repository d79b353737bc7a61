/**
 * Stops accepting connections while the process is short of file descriptors, and continues when some are free again. Clients wait
 * meanwhile in the kernel's queue.
 *
 * Without it, a process at its limit (`ulimit -n`) spins: the listening socket stays readable, and every accept fails. And it has no
 * descriptor left for its own files, so it can store nothing.
 *
 *   descriptors   |0 . . . . . . . . . . . . . . . . . . .|. . . . . . . . limit|
 *                 | connections and files                 | kept for files      |
 *
 * [lowest-first]  the kernel gives out the lowest free descriptor. So connections never get one above the mark, as long as
 *                 none is accepted when all below it are taken
 * [all-at-once]   all listening sockets of the process pause and go on together: they share the limit
 */
import { descriptorLimit, hasDescriptorBelow } from '../libc.ts'
import { ListeningSocket } from './listening-socket.ts'

/** Share of the limit that is kept free for files: most of them are in caches of open segments. */
const KEPT_PART = 1 / 4
const KEPT_MAX = 1024
const LOOK_EVERY_MS = 250
const WARN_EVERY_MS = 60_000

/** Help text of the metric. */
export const ACCEPT_PAUSES_HELP =
  'Times the process stopped accepting connections because it had too few file descriptors'

interface GateParts {
  readonly clock: { nowMs(): number; every(intervalMs: number, task: () => void): () => void }
  readonly logger: { warn(details: object, message: string): void }
}

/** Descriptors of this process, for tests to replace. */
export interface Descriptors {
  limit(): number
  hasOneBelow(descriptor: number): boolean
}

const OWN: Descriptors = { limit: descriptorLimit, hasOneBelow: hasDescriptorBelow }

export class AcceptGate {
  /** How often accepting was stopped. */
  pauses = 0
  readonly #parts: GateParts
  readonly #descriptors: Descriptors
  readonly #listening = new Set<ListeningSocket>()
  #stopLooking: (() => void) | null = null
  #warnedAtMs = -Infinity

  constructor(parts: GateParts, descriptors = OWN) {
    this.#parts = parts
    this.#descriptors = descriptors
  }

  /**
   * @param port where this process began to listen just now
   * @returns a function to call before the process stops listening there
   */
  add(port: number): () => void {
    const added = ListeningSocket.of(port, this.#listening)
    for (const each of added) this.#listening.add(each)
    return () => {
      for (const each of added) {
        this.#listening.delete(each)
        each.release()
      }
    }
  }

  /** To be called for every connection, while it is accepted. */
  opened(): void {
    if (this.#hasRoom()) return
    this.#pause()
    if (this.#stopLooking !== null) return
    this.pauses++
    this.#stopLooking = this.#parts.clock.every(LOOK_EVERY_MS, () => this.#look())
    this.#warn()
  }

  /** Also pauses sockets that began to listen since the last pause. */
  #pause(): void {
    for (const each of this.#listening) each.pause()
  }

  #look(): void {
    if (!this.#hasRoom()) return this.#pause()
    this.#stopLooking?.()
    this.#stopLooking = null
    for (const each of this.#listening) each.resume()
  }

  #hasRoom(): boolean {
    const limit = this.#descriptors.limit()
    return this.#descriptors.hasOneBelow(limit - Math.min(KEPT_MAX, Math.floor(KEPT_PART * limit)))
  }

  #warn(): void {
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs - this.#warnedAtMs < WARN_EVERY_MS) return
    this.#warnedAtMs = nowMs
    this.#parts.logger.warn(
      { open_files_limit: this.#descriptors.limit(), pauses: this.pauses },
      'too many connections for the limit of open files: new ones wait until others close; raise the limit (ulimit -n)',
    )
  }
}
