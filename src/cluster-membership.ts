/**
 * The part that a service takes in a cluster: its membership, and what is seen of the cluster from before there is one. Where there is no cluster,
 * nothing of clusters is loaded.
 */
import type { ClusterMember } from './cluster/member/member.ts'
import type { MemberOptions } from './cluster/member/open-member.ts'
import type { ClusterSettings } from './config/cluster.ts'
import type { ClusterView } from './http/cluster.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Degradation } from './observability/health.ts'

interface MembershipOptions extends Omit<MemberOptions, 'settings'> {
  /** Absent or null: the log is in no cluster. */
  readonly settings: ClusterSettings | null | undefined
  /** Closes it. */
  readonly running: Lifecycle
}

/** Null: the log is in no cluster. */
export async function openMembership({
  settings,
  running,
  ...options
}: MembershipOptions): Promise<ClusterMember | null> {
  if (!settings) return null
  const { openMember } = await import('./cluster/member/open-member.ts')
  return running.open(() => openMember({ settings, ...options }))
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

  handOver(to: string | null): void {
    this.member?.handOver(to)
  }
}
