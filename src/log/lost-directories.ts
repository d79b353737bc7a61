/**
 * The directories of a log that are not written any more, and why. A directory that failed, or did not keep up, is taken in again when a
 * catch-up has brought it near the others (readmission.ts). A directory that was full is also tried again at the next restart in place.
 */
import { StoreError } from '../errors.ts'
import type { LogState, LostReplica } from './log-options.ts'
import type { Position } from './log-writer.ts'

interface Failure {
  readonly code: string
  readonly reason: string
  /** The disk was full, which says nothing about what was stored before. */
  readonly isFull: boolean
  readonly syncedUpTo: Position
}

export class LostDirectories {
  /** Why the primary directory failed: then the log is read-only, or about to be. */
  primaryFailure: StoreError | null = null
  /** The primary first. */
  readonly #directories: readonly string[]
  readonly #writeQuorum: number
  readonly #failed: Map<number, string>
  readonly #lost = new Map<number, string>()
  /** Up to where each replica had synced when a write or a sync of it failed. */
  readonly #syncedUpTo = new Map<number, Position>()

  /** @param unusable by replica, why it could not be used from the start */
  constructor(directories: readonly string[], writeQuorum: number, unusable: ReadonlyMap<number, string>) {
    this.#directories = directories
    this.#writeQuorum = writeQuorum
    this.#failed = new Map(unusable)
  }

  get all(): readonly LostReplica[] {
    return [...this.#lost].map(([replica, reason]) => ({ directory: this.#directories[replica]!, reason }))
  }

  get replicas(): readonly number[] {
    return [...this.#lost.keys()]
  }

  /** Infinity: it failed before the log was opened, so the position is unknown. */
  syncedUpTo(replica: number): Position {
    return this.#syncedUpTo.get(replica) ?? Infinity
  }

  /** The next restart in place takes the replica in. */
  readmit(replica: number): void {
    this.#failed.delete(replica)
  }

  has(replica: number): boolean {
    return this.#lost.has(replica)
  }

  /** Why a replica failed for good, by replica. No restart in place takes it in again. */
  get failed(): ReadonlyMap<number, string> {
    return this.#failed
  }

  /** Every directory that did not fail is tried again. */
  clear(): void {
    this.#lost.clear()
  }

  add(replica: number, reason: string): void {
    this.#lost.set(replica, reason)
  }

  /** A write or a sync was refused. */
  addFailure(replica: number, { code, reason, isFull, syncedUpTo }: Failure): void {
    this.#syncedUpTo.set(replica, syncedUpTo)
    if (!isFull && replica === 0) {
      this.primaryFailure = new StoreError('unavailable', code, `${this.#directories[0]!}: ${reason}`)
    } else if (!isFull) this.#failed.set(replica, reason)
    if (replica !== 0) this.add(replica, reason)
  }

  /** The state of a log that lacks these directories, and can continue. */
  degraded(code: string): LogState {
    return { kind: 'degraded', code, message: this.#text }
  }

  /** The state of a log that has too few directories left. */
  withoutQuorum(code: string): LogState {
    const left = this.#directories.length - this.#lost.size
    const message =
      `${left} of ${this.#directories.length} log directories are left, but the write quorum is ${this.#writeQuorum} ` +
      `(${this.#text}). Nothing more is accepted: repair the directories, then restart`
    return { kind: 'read-only', code, message }
  }

  get #text(): string {
    return this.all.map(({ directory, reason }) => `replica ${directory}: ${reason}`).join('; ')
  }
}
