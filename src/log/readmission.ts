/**
 * Takes lost replica directories in again while the log is open.
 *
 *   lost ──► is the log there? ──► its lane has ended ──► sealed segments are copied ──► seal, copy what was sealed ──► restart in place
 *            on a thread of its own                       on the thread                                                 takes the tail
 *
 * A1  nothing waits for a lost directory: a thread of its own looks at it first
 * A2  its lane has ended, and its lock is taken anew, before anything is written there: it may be another directory of the same name
 * A3  one directory at a time; after each failure the pause before the next attempt grows
 */
import { messageOf } from '../errors.ts'
import type { CatchUpTask, DirectoryLock, LogEnvironment } from './environment.ts'
import type { JournalLanes } from './journal-lanes.ts'
import type { LogState } from './log-options.ts'
import type { LostDirectories } from './lost-directories.ts'
import type { SegmentInfo } from './segment-list.ts'

const LOOK_INTERVAL_MS = 5000
const WAIT_MS_MAX = 10 * 60_000

interface OpenLog {
  readonly directory: string
  readonly id: number
  readonly segments: readonly SegmentInfo[]
  readonly incidents: readonly { readonly from: number }[]
  readonly state: LogState
  onSealed(listener: () => void): void
  seal(): void
}

export interface ReadmissionParts {
  readonly environment: Pick<LogEnvironment, 'catchUp' | 'every' | 'lock' | 'nowMs'>
  readonly log: OpenLog
  readonly segmentsName: string
  /** The primary first. */
  readonly directories: readonly string[]
  readonly lost: LostDirectories
  readonly lanes: JournalLanes
  /** The list of locks that the log holds, by replica. The log releases every lock that is put into it. */
  readonly locks: (DirectoryLock | null)[]
  /** Restarts the log in place, with the directories that are not lost any more. */
  restart(reason: string): Promise<void>
  /** Reports that a directory stays lost, for another reason than before. */
  reportState(state: LogState): void
}

export class Readmission {
  readonly #parts: ReadmissionParts
  readonly #stopTimer: () => void
  readonly #stopping = new AbortController()
  /** When each replica is tried again, and how long the wait after that try is. */
  readonly #tries = new Map<number, { atMs: number; waitMs: number }>()
  #isRunning = false
  #onSealed = (): void => {}

  constructor(parts: ReadmissionParts) {
    this.#parts = parts
    this.#stopTimer = parts.environment.every(LOOK_INTERVAL_MS, () => this.#look())
    parts.log.onSealed(() => this.#onSealed())
  }

  /** Nothing is copied from now on. */
  stop(): void {
    this.#stopTimer()
    this.#stopping.abort()
    this.#onSealed()
  }

  #look(): void {
    this.#onSealed()
    if (this.#isRunning) return
    const { environment, log, lost } = this.#parts
    const nowMs = environment.nowMs()
    if (log.state.kind !== 'degraded') return
    const replica = lost.replicas.find((each) => (this.#tries.get(each)?.atMs ?? 0) <= nowMs)
    if (replica === undefined) return
    const { waitMs } = this.#tries.get(replica) ?? { waitMs: LOOK_INTERVAL_MS }
    this.#tries.set(replica, { atMs: nowMs + waitMs, waitMs: Math.min(2 * waitMs, WAIT_MS_MAX) }) // A3
    this.#isRunning = true
    void this.#bringBack(replica).finally(() => {
      this.#isRunning = false
    })
  }

  async #bringBack(replica: number): Promise<void> {
    const { directories, environment, log, lost } = this.#parts
    const { signal } = this.#stopping
    try {
      await environment.catchUp({ ...this.#taskOf(replica), segments: [], begin: null }, signal) // A1
      await this.#take(replica)
      await environment.catchUp(this.#taskOf(replica), signal)
      await this.#seal()
      await environment.catchUp(this.#taskOf(replica), signal)
      if (log.state.kind !== 'degraded') return
      lost.readmit(replica)
      await this.#parts.restart(`${directories[replica]!} is back and is used again`)
    } catch (error) {
      if (signal.aborted) return
      lost.add(replica, messageOf(error))
      if (log.state.kind === 'degraded') this.#parts.reportState(lost.degraded(log.state.code))
    }
  }

  #taskOf(replica: number): CatchUpTask {
    const { directories, log, lost, segmentsName } = this.#parts
    return {
      primary: log.directory,
      replica: directories[replica]!,
      segmentsName,
      logId: log.id,
      segments: log.segments.filter(({ sealed }) => sealed).map(({ base, end }) => ({ base, end })),
      syncedUpTo: lost.syncedUpTo(replica),
      begin: this.#begin,
    }
  }

  /** Where the log begins. Null: something before that may be lost, and was not dropped. */
  get #begin(): number | null {
    const { segments, incidents } = this.#parts.log
    const begin = segments[0]?.base ?? null
    return begin === null || incidents.some(({ from }) => from < begin) ? null : begin
  }

  /** A2 */
  async #take(replica: number): Promise<void> {
    const { directories, environment, lanes, locks } = this.#parts
    await lanes.stop(replica)
    await locks[replica]?.release()
    locks[replica] = null
    const lock = await environment.lock(directories[replica]!)
    if (this.#stopping.signal.aborted) await lock.release()
    else locks[replica] = lock
  }

  /** Resolves when the open segment is sealed, or at the next look, because no seal comes while nothing is written. */
  #seal(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onSealed = resolve
    this.#parts.log.seal()
    return promise
  }
}
