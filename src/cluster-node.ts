/** The services of a process, as the listener for other nodes asks them. */
import type { ListeningNode } from './cluster/catch-up/listener.ts'
import { StoreError, messageOf } from './errors.ts'
import { clusterReply } from './http/cluster.ts'
import type { ClusterReply, ClusterView } from './http/cluster.ts'

interface Member {
  readonly cluster?: { readonly view: () => ClusterView; handOver(to: string | null): void } | null
}

export class NodeOfCluster implements ListeningNode {
  readonly #services: Readonly<Record<string, Member>>

  /** @param services gets each service when it has started */
  constructor(services: Readonly<Record<string, Member>>) {
    this.#services = services
  }

  nodes(): Readonly<Record<string, ClusterReply>> {
    const known = this.#members.map(([name, { view }]) => [name, clusterReply(view())] as const)
    return Object.fromEntries(known)
  }

  handOver(service: string | null, to: string | null): readonly string[] {
    const asked = this.#members.filter(([name]) => service === null || name === service)
    if (asked.length === 0)
      throw refused(
        'no_such_service',
        `this node has no ${service ?? 'service'} in the cluster, or it is still starting`,
      )
    const leading = asked.filter(([, { view }]) => view().leads)
    if (leading.length === 0) throw refused('not_leading', 'this node does not lead: ask the leader')
    for (const [name, { view }] of leading) {
      const { node, nodes } = view()
      if (to !== null && (to === node || !nodes.some((each) => each.node === to)))
        throw refused('no_such_node', `the ${name} knows no other node ${to}`)
    }
    for (const [, member] of leading) member.handOver(to)
    return leading.map(([name]) => name)
  }

  handOverAll(logger: Readonly<Record<'info' | 'warn', (details: object, message: string) => void>>): void {
    try {
      logger.info({ services: this.handOver(null, null) }, 'the lead is handed over, as SIGUSR2 asked')
    } catch (error) {
      logger.warn({ reason: messageOf(error) }, 'the lead was not handed over')
    }
  }

  get #members(): readonly (readonly [string, NonNullable<Member['cluster']>])[] {
    return Object.entries(this.#services).flatMap(([name, { cluster }]) => (cluster ? [[name, cluster] as const] : []))
  }
}

const refused = (code: string, message: string): StoreError => new StoreError('conflict', code, message)
