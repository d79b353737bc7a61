/** What the membership of a node is made of: the service that has the log, the lane, and what it needs of the process. */
import type { ClusterOptions } from '../../log/cluster-part.ts'
import type { Files } from '../../log/files.ts'
import type { FromLane, LaneTaskData, StreamSettings, ToLane } from '../lane/protocol.ts'

/** What a service does with its log. */
export interface MemberService {
  /**
   * Whole frames of the leader, back to back, have their effect here, too. Resolves when all have, or when this is wanted no more. Rejects with what
   * keeps them from having it.
   */
  follow(frames: Buffer, isOver: () => boolean): Promise<void>
  /** The log was cut where the service had taken frames: it reads its state again. */
  readAgain(): void
  /** Resolves when requests may come. Rejects when this node leads no more. */
  beganToLead(): Promise<void>
  /** Nothing is answered any more, and what waits is to be let go. */
  steppedDown(): void
}

export interface RunningLane {
  post(message: ToLane): void
  stop(): Promise<void>
}

/** A log that lacks more than the stream has is copied from another node. Nobody has the log open meanwhile. */
export interface LogCopy {
  /** Ends what a start before began. @throws what files throw */
  finish(): void
  /**
   * Resolves when the directory has the log of another node, and its anchor.
   *
   * @param from where the other nodes are, the leader first; empty as long as none is known
   * @returns how many bytes it took from there
   */
  run(from: () => readonly string[]): Promise<number>
}

export interface MemberParts {
  readonly settings: StreamSettings & {
    readonly node: string
    readonly leaseMs: number
    readonly ack: ClusterOptions['ack']
    readonly url: string | null
    readonly peerUrl: string | null
  }
  readonly copy: LogCopy
  readonly directory: string
  readonly segmentsName: string
  readonly arena: SharedArrayBuffer | null
  readonly files: Files
  readonly logger: Readonly<Record<'info' | 'warn' | 'error', (details: object, message: string) => void>>
  /** Monotonic, the same in all threads of the process. */
  readonly nowMs: () => number
  /** Calls once. */
  readonly after: (delayMs: number, run: () => void) => void
  readonly startLane: (
    data: LaneTaskData,
    events: { onMessage(message: FromLane): void; onDeath(error: Error): void },
  ) => RunningLane
}
