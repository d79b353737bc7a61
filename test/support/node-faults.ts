/** What can go wrong with a node of a cluster: its links to the NATS servers, its disk, its clock, its process. */
import { after, before, it } from 'node:test'
import { nodeEnvironment } from './cluster.ts'
import type { TestCluster } from './cluster.ts'
import { Faults } from './faults.ts'
import { Link } from './link.ts'
import type { NatsServer } from './nats-server.ts'
import type { RunningService } from './process.ts'

/** Longer than any lease or retention of a test. */
const JUMP_MS = 5 * 3_600_000
/** Longer than a node waits for an acknowledgement before it asks what became of the message. */
const LATE_MS = 400
/** Each fault of a leader takes one lease. A shorter lease would expire by itself on a busy machine. */
const SHORT_LEASE = { TRILOG_CLUSTER_LEASE_MS: '2000' }

/** Where a node runs: everything around it that can be broken. */
export class Place {
  readonly id: string
  readonly links: readonly Link[]
  readonly faults = new Faults()

  static async of(id: string, servers: readonly NatsServer[]): Promise<Place> {
    return new Place(id, await Promise.all(servers.map(({ url }) => Link.to(url))))
  }

  private constructor(id: string, links: readonly Link[]) {
    this.id = id
    this.links = links
  }

  /** Settings of the node that runs here. */
  environment(options?: Parameters<typeof nodeEnvironment>[2]): Record<string, string> {
    return { ...nodeEnvironment(this.links, this.id, options), ...this.faults.env }
  }

  async close(): Promise<void> {
    await Promise.all(this.links.map((link) => link.close()))
  }
}

export interface Placed<Each extends RunningService> {
  readonly place: Place
  readonly node: Each
}

type PlacedNode = Placed<RunningService & { readonly dataDirectory: string }>

export interface NodeFault {
  /** What goes wrong with a node, for the name of a test. */
  readonly what: string
  readonly begin: (of: PlacedNode) => Promise<void> | void
  readonly end: (of: PlacedNode) => Promise<void> | void
}

const heal = ({ place }: PlacedNode): void => {
  for (const link of place.links) link.heal()
}

const onLinks = (what: string, change: (link: Link) => void): NodeFault => ({
  what,
  begin: ({ place }) => place.links.forEach(change),
  end: heal,
})

const onFaults = (
  what: string,
  [trigger, content]: readonly [trigger: string, content: string | ((of: PlacedNode) => string)],
  end: NodeFault['end'] = () => {},
): NodeFault => ({
  what,
  begin: (of) => of.place.faults.set(trigger, typeof content === 'string' ? content : content(of)),
  async end(of) {
    of.place.faults.clear(trigger)
    await end(of)
  },
})

export const NETWORK_FAULTS = {
  unheard: onLinks('sends what does not arrive', (link) => link.hold('there')),
  deaf: onLinks('gets nothing of what it is sent', (link) => link.hold('back')),
  alone: onLinks('is cut off silently, both ways', (link) => link.hold('there', 'back')),
  cut: onLinks('finds its connections reset, and can make none', (link) => link.cut()),
} as const satisfies Record<string, NodeFault>

/** With this fault, a leader may go on leading. */
export const LATE: NodeFault = onLinks('gets what it is sent late', (link) => link.delay('back', LATE_MS))

export const DISK_FAULTS = {
  /** The log is read-only until a restart: a sync that succeeds after one that failed proves nothing. */
  sync: onFaults('cannot sync its log', ['fdatasync-eio', 'records.log'], async ({ node }) => {
    await node.kill()
    await node.startAgain()
  }),
  anchor: onFaults('cannot write how far it is in the stream', ['fdatasync-eio', 'cluster-anchor']),
  room: onFaults('has no room left for new records', ['disk-full', '0']),
  /** Must be the last fault: the log looks for room again only after a while. */
  full: onFaults('finds its disk full', ['write-enospc', ({ node }) => node.dataDirectory]),
} as const satisfies Record<string, NodeFault>

export const CLOCK_FAULTS = {
  ahead: onFaults('has a clock that is suddenly hours ahead', ['wall-shift', String(JUMP_MS)]),
  behind: onFaults('has a clock that is suddenly hours behind', ['wall-shift', String(-JUMP_MS)]),
} as const satisfies Record<string, NodeFault>

/** Nodes of a cluster in which tests cause faults, for the tests of one `describe`. */
export class FaultyNodes<Each extends RunningService & { readonly dataDirectory: string }> {
  readonly #cluster: TestCluster<Each>
  readonly #startWith: (env: Record<string, string>) => Promise<Each>
  readonly #placed: Placed<Each>[] = []

  /** Starts two nodes. @param start starts a node with these settings */
  constructor(cluster: TestCluster<Each>, start: (env: Record<string, string>) => Promise<Each>) {
    this.#cluster = cluster
    this.#startWith = start
    before(() => Promise.all(['node-1', 'node-2'].map((id) => this.start(id))))
    after(() => Promise.all(this.#placed.map(({ place }) => place.close())))
  }

  async start(id: string): Promise<Each> {
    const place = await Place.of(id, this.#cluster.servers)
    const env = { ...place.environment({ replicas: this.#cluster.servers.length }), ...SHORT_LEASE }
    const node = await this.#cluster.started(this.#startWith(env))
    this.#placed.push({ place, node })
    return node
  }

  async leading(): Promise<Placed<Each>> {
    const node = await this.#cluster.leader()
    return this.#placed.find((each) => each.node === node)!
  }

  async following(): Promise<Placed<Each>> {
    const { node } = await this.leading()
    return this.#placed.find((each) => each.node !== node)!
  }

  /** Declares a test for each fault of the leader: another node leads, and clients go on. @param waitForStored resolves when the nodes have stored more */
  testFailover(faults: readonly NodeFault[], waitForStored: () => Promise<void>): void {
    for (const { what, begin, end } of faults) {
      it(`goes on with the other node when the leader ${what}`, async () => {
        const faulty = await this.leading()
        await begin(faulty)
        await this.#cluster.leader(() => this.#cluster.nodes.filter((node) => node !== faulty.node))
        await waitForStored()
        await end(faulty)
        await waitForStored()
      })
    }
  }

  /** Declares a test for each fault: clients go on, whichever node leads. */
  testClientsGoOn(who: 'leader' | 'follower', faults: readonly NodeFault[], waitForStored: () => Promise<void>): void {
    for (const { what, begin, end } of faults) {
      it(`goes on when the ${who} ${what}`, async () => {
        const faulty = await (who === 'leader' ? this.leading() : this.following())
        await begin(faulty)
        await waitForStored()
        await end(faulty)
        await waitForStored()
      })
    }
  }
}
