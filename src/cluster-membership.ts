/**
 * How a service takes part in a cluster: its membership, and the view of the cluster that it shows, also before the membership is open. Without a
 * cluster, nothing of src/cluster is loaded.
 */
import type { ClusterMember } from './cluster/member/member.ts'
import type { MemberOptions } from './cluster/member/open-member.ts'
import type { MemberService } from './cluster/member/parts.ts'
import { registerClusterMetrics } from './cluster-metrics.ts'
import type { ClusterSettings } from './config/cluster.ts'
import type { ClusterView } from './http/cluster.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { ClusterOptions } from './log/cluster-part.ts'
import type { Log } from './log/log.ts'
import type { Degradation } from './observability/health.ts'
import type { Metrics } from './observability/metrics.ts'

interface MembershipOptions extends Omit<MemberOptions, 'settings'> {
  /** Absent or null: the log is in no cluster. */
  readonly settings: ClusterSettings | null | undefined
  /** Closes the membership. */
  readonly running: Lifecycle
}

/** Longest time for which main takes frames before other tasks have their turn. */
const SLICE_MS = 10
/** Pause before a log that had no room is tried again. */
const ROOM_MS = 20

interface SliceClock {
  sharedMs(): number
  /** Calls `run` once. */
  after(delayMs: number, run: () => void): void
}

/**
 * How a service whose producer is the main thread takes the frames of a leader: in time slices.
 *
 * @param take takes the frame that begins at that byte. @returns the frame's length; 0: there is no room now
 */
export const followingInSlices =
  (take: (frames: Buffer, at: number) => number, clock: SliceClock): MemberService['follow'] =>
  async (frames, isOver) => {
    const pause = (delayMs: number): Promise<void> => new Promise((resolve) => clock.after(delayMs, resolve))
    let untilMs = clock.sharedMs() + SLICE_MS
    for (let at = 0; at < frames.byteLength;) {
      const taken = take(frames, at)
      at += taken
      if (taken > 0 && clock.sharedMs() < untilMs) continue
      await pause(taken === 0 ? ROOM_MS : 0)
      if (isOver()) return
      untilMs = clock.sharedMs() + SLICE_MS
    }
  }

/** The log of a service, and its membership; null: the service is in no cluster. */
export interface MemberLog {
  readonly log: Log
  readonly member: ClusterMember | null
}

/**
 * Opens the log of a service: alone, or as the cluster of the settings needs it.
 *
 * @param openLog gets null when the log is in no cluster
 * @throws StoreError
 */
export async function openMemberLog(
  { settings, running, ...options }: MembershipOptions,
  openLog: (cluster: ClusterOptions | null) => Promise<Log>,
): Promise<MemberLog> {
  if (!settings) return { log: await openLog(null), member: null }
  const { openMember } = await import('./cluster/member/open-member.ts')
  const member = await running.open(() => openMember({ settings, ...options }))
  return { log: await member.openLog(openLog), member }
}

/** What a service shows of its cluster, from when its port opens. */
export class ClusterStatus {
  readonly #settings: Pick<ClusterSettings, 'name' | 'nodeId'>
  /** Null while it opens. */
  member: ClusterMember | null = null

  /** Null: there is no cluster. */
  static of(settings: ClusterSettings | null | undefined): ClusterStatus | null {
    return settings ? new ClusterStatus(settings) : null
  }

  private constructor(settings: Pick<ClusterSettings, 'name' | 'nodeId'>) {
    this.#settings = settings
  }

  readonly view = (): ClusterView => {
    const { name, nodeId: node } = this.#settings
    return this.member?.view ?? { name, node, leads: false, nodes: [] }
  }

  /** What keeps the node from taking part. */
  get problem(): string | null {
    return this.member?.problem ?? null
  }

  degradations(): readonly Degradation[] {
    if (this.member?.hasTwin !== true) return []
    const reason = `another process in the cluster also has the node id ${this.#settings.nodeId}`
    return [{ kind: 'node_id_twice', reason, action: 'give each node a TRILOG_NODE_ID of its own' }]
  }

  registerMetrics<Scope>(metrics: Metrics<Scope>, service: MemberOptions['service']): void {
    registerClusterMetrics(metrics, { service, view: this.view, measures: () => this.member?.measures ?? null })
  }

  handOver(to: string | null): void {
    this.member?.handOver(to)
  }
}
