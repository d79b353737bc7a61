/** What a node knows of the nodes of its cluster, itself included, as the lane tells it. */
import { AWAY_MS, leaderOf } from '../../leading-node.ts'
import type { HeardNodes, NodeStatus } from '../lane/protocol.ts'

export type ClusterRole = NodeStatus['role']

export interface MemberView {
  readonly name: string
  readonly node: string
  /** Requests may be answered here. */
  readonly leads: boolean
  readonly nodes: readonly (NodeStatus & { readonly heardMsAgo: number })[]
}

interface KnownNodesOptions {
  readonly cluster: string
  /** This one. */
  readonly node: string
  /** Monotonic, the same in all threads of the process. */
  readonly nowMs: () => number
}

export class KnownNodes {
  readonly #options: KnownNodesOptions
  #heard: HeardNodes & { readonly own: NodeStatus | null } = { own: null, others: [], twinAtMs: null }

  constructor(options: KnownNodesOptions) {
    this.#options = options
  }

  update(heard: HeardNodes & { readonly own: NodeStatus | null }): void {
    this.#heard = heard
  }

  /** Whether another process claims to be this node. Nothing is lost, as each process writes under its own name, but a hand-over may go to the other one. */
  get hasTwin(): boolean {
    const { twinAtMs } = this.#heard
    return twinAtMs !== null && this.#options.nowMs() - twinAtMs <= AWAY_MS
  }

  /** @param role of this node, which main knows before the lane says it */
  viewAs(role: ClusterRole): MemberView {
    const { cluster, node, nowMs } = this.#options
    const { own, others } = this.#heard
    const atMs = nowMs()
    const nodes = others.map(({ atMs: heardMs, ...status }) => ({ ...status, heardMsAgo: atMs - heardMs }))
    if (own !== null) nodes.push({ ...own, role, heardMsAgo: 0 })
    return { name: cluster, node, leads: role === 'leader', nodes }
  }

  /** Null: none is known. @param role of this node */
  leaderAs(role: ClusterRole): NodeStatus | null {
    return role === 'leader' ? this.#heard.own : leaderOf(this.viewAs(role).nodes)
  }

  /** URLs at which other nodes serve their logs, the leader's first. */
  get peers(): readonly string[] {
    const known = this.#heard.others.filter(({ role }) => role !== 'recovering')
    const leadersFirst = known.toSorted((one, other) => Number(other.role === 'leader') - Number(one.role === 'leader'))
    return leadersFirst.flatMap(({ peerUrl }) => (peerUrl === null ? [] : [peerUrl]))
  }
}
