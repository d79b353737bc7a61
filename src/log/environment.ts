/** What a log needs from the world around it. `node-environment.ts` is the real one; tests bring simulated files, time and lanes. */
import type { Files, PageCache } from './files.ts'

export interface LogEnvironment {
  readonly files: Files
  /** Monotonic, milliseconds with fractions. */
  nowMs(): number
  readonly randomUint32: () => number
  /** Throws StoreError data_directory_locked when another process, or another log of this one, has the directory. */
  lock(directory: string): Promise<DirectoryLock>
  /**
   * Makes a file of zeros whose blocks are allocated and durable, in the background and gently. Resolves when it stands under its
   * name, or when it was cancelled. Rejects when it failed, and leaves nothing behind: a file written in advance is only ever an advantage.
   */
  prepareFile(path: string, bytes: number, isCancelled: () => boolean): Promise<void>
  /** `catchUp` of catch-up.ts, in the background. Rejects with what it throws, and when the signal says stop. */
  catchUp(task: CatchUpTask, signal: AbortSignal): Promise<number>
  startJournal(task: JournalTask, events: JournalEvents): JournalLane
  /** Calls again and again until the returned function is called; does not keep the process alive. */
  every(intervalMs: number, run: () => void): () => void
}

export interface DirectoryLock {
  release(): Promise<void>
}

/** Where a journal begins: what recovery found. */
export interface JournalTail {
  /** Base of the segment to append to, or -1: the next frame opens one. */
  readonly base: number
  /** Position behind the last frame. */
  readonly end: number
  readonly frameCount: number
  readonly epoch: number
  readonly chain: number
}

/** Everything a journal lane starts with; can be sent to a thread. */
export interface JournalTask {
  readonly directory: string
  readonly segmentsName: string
  readonly replica: number
  readonly ring: SharedArrayBuffer
  readonly arena: SharedArrayBuffer | null
  readonly shared: SharedArrayBuffer
  readonly tail: JournalTail
  readonly reserveBytes: number
  readonly pageCache: PageCache
  /** See write-ahead.ts; 0: none. */
  readonly writeAheadBytes: number
  /** Writes in a row that the file system refused although it said that there is room: see free-space.ts. */
  readonly refusals: number
}

/** What catch-up.ts brings to a replica; can be sent to a thread. */
export interface CatchUpTask {
  readonly primary: string
  readonly replica: string
  readonly segmentsName: string
  readonly logId: number
  /** The sealed segments of the primary. */
  readonly segments: readonly { readonly base: number; readonly end: number }[]
  /** Position up to which the replica had synced (catch-up.ts C4); Infinity when that is not known, as before a start. */
  readonly syncedUpTo: number
  /** Where the primary's log begins: what the replica has before it was dropped (catch-up.ts C6). Null: that is not known. */
  readonly begin: number | null
}

/** What a journal tells main. */
export type JournalMessage =
  | { readonly kind: 'progress' }
  | { readonly kind: 'opened'; readonly base: number }
  | { readonly kind: 'sealed'; readonly base: number; readonly end: number }
  /** `isFull`: a write found the disk full; what was written and synced before it stands. `showsRoom`: the file system says it is not full. */
  | {
      readonly kind: 'failed'
      readonly code: string
      readonly message: string
      readonly isFull: boolean
      readonly showsRoom: boolean
    }

export interface JournalEvents {
  onMessage(message: JournalMessage): void
  /** The lane ended without having been stopped. */
  onDeath(error: Error): void
}

export interface JournalLane {
  /** A sealed segment to remove; the caller wakes the lane's ring. */
  post(message: JournalRequest): void
  /** Takes what is in the ring, syncs, ends; the caller wakes the lane's ring. */
  stop(): Promise<void>
}

export interface JournalRequest {
  readonly kind: 'drop'
  readonly base: number
  /** Base of the oldest segment that stays. */
  readonly begin: number
}
