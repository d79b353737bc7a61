/** What the membership of a node is made of: the service that has the log, the lane, and what it needs of the process. */
import type { ClusterOptions } from '../../log/cluster-part.ts'
import type { Files } from '../../log/files.ts'
import type { FromLane, LaneTaskData, StreamSettings, ToLane } from '../lane/protocol.ts'

/** What a service does with its log. */
export interface MemberService {
  /**
   * Applies whole frames of the leader, back to back. Resolves when all are applied, or when `isOver` says that they are not wanted any more. Rejects
   * with what prevents it.
   */
  follow(frames: Buffer, isOver: () => boolean): Promise<void>
  /** The log was cut where the service had taken frames: it reads its state again. */
  readAgain(): void
  /** Resolves when requests may come. Rejects when this node leads no more. */
  beganToLead(): Promise<void>
  /** The service answers nothing any more, and lets waiting requests go. */
  steppedDown(): void
}

export interface RunningLane {
  post(message: ToLane): void
  stop(): Promise<void>
}

/** Copies the log of another node, if the stream no longer has all that is missing here. The log is not open meanwhile. */
export interface LogCopy {
  /** Completes what an earlier start began. @throws what files throw */
  completeEarlier(): void
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
