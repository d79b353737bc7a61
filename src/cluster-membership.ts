/**
 * The part that a service takes in a cluster: its membership, and what is seen of the cluster from before there is one. Where there is no cluster,
 * nothing of clusters is loaded.
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
  /** Closes it. */
  readonly running: Lifecycle
}

/** How long main may make frames its own before others have their turn. */
const SLICE_MS = 10
/** Before a log without room is asked again. */
const ROOM_MS = 20

interface SliceClock {
  sharedMs(): number
  /** Calls once. */
  after(delayMs: number, run: () => void): void
}

/**
 * What a service whose producer is main does with the frames of a leader.
 *
 * @param take of the frame at that place. @returns its length; 0: there is no room now
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

/** The log of a service, and its membership. Null: it is in no cluster. */
export interface MemberLog {
  readonly log: Log
  readonly member: ClusterMember | null
}

/**
 * Opens the log of a service as the settings say: by itself, or as the cluster needs it.
 *
 * @param openLog null: by itself
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
export class ClusterSight {
  readonly #settings: Pick<ClusterSettings, 'name' | 'nodeId'>
  /** Null: it opens. */
  member: ClusterMember | null = null

  /** Null: there is no cluster. */
  static of(settings: ClusterSettings | null | undefined): ClusterSight | null {
    return settings ? new ClusterSight(settings) : null
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
    const reason = `another process of the cluster is node ${this.#settings.nodeId}, too`
    return [{ kind: 'node_id_twice', reason, action: 'give each node a TRILOG_NODE_ID of its own' }]
  }

  registerMetrics<Scope>(metrics: Metrics<Scope>, service: MemberOptions['service']): void {
    registerClusterMetrics(metrics, { service, view: this.view, measures: () => this.member?.measures ?? null })
  }

  handOver(to: string | null): void {
    this.member?.handOver(to)
  }
}
