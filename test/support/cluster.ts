/** Nodes of a cluster as tests start and ask them. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { Compile } from 'typebox/schema'
import { ClusterReply } from '../../src/http/cluster.ts'
import { startNatsServers } from './nats-server.ts'
import type { NatsServer } from './nats-server.ts'
import type { RunningService } from './process.ts'
import { abortAfter, eventually, timePasses } from './waiting.ts'

/** Longer than the lease, and longer than followers wait. */
const STOPPED_MS = 5000

type Node = Pick<RunningService, 'url'>

/** Settings of a node whose log is kept by these servers. */
export const nodeEnvironment = (
  servers: readonly Pick<NatsServer, 'url'>[],
  id: string,
  { cluster = 'test', replicas = 3 } = {},
): Record<string, string> => ({
  TRILOG_CLUSTER_SERVERS: servers.map(({ url }) => url).join(),
  TRILOG_CLUSTER_NAME: cluster,
  TRILOG_CLUSTER_SECRET: 'a-secret-that-is-for-tests-only',
  TRILOG_CLUSTER_BIND: '127.0.0.1:0',
  TRILOG_CLUSTER_REPLICAS: String(replicas),
  TRILOG_CLUSTER_KEEP_BYTES: String(1 << 30),
  TRILOG_NODE_ID: id,
})

export const leads = (node: Node): Promise<boolean> =>
  fetch(`${node.url}/health?role=leader`, { signal: abortAfter(2000) }).then(
    ({ status }) => status === 200,
    () => false,
  )

/** Resolves with a node that leads, as soon as one does. */
export async function leaderAmong<Each extends Node>(nodes: () => readonly Each[]): Promise<Each> {
  let found: Each | undefined
  await eventually(async () => {
    for (const node of nodes()) if (await leads(node)) found = node
    return found !== undefined
  })
  return found!
}

const clusterReply = Compile(ClusterReply)

/** @param headers credentials of a caller that may see other nodes */
export async function clusterOf(node: Node, headers: Readonly<Record<string, string>> = {}): Promise<ClusterReply> {
  const reply: unknown = await (await fetch(`${node.url}/v1/cluster`, { headers })).json()
  assert.ok(clusterReply.Check(reply))
  return reply
}

/** Resolves when the node with this id follows, and has everything that was confirmed. */
export async function waitUntilCaughtUp(
  node: Node,
  id: string,
  headers?: Readonly<Record<string, string>>,
): Promise<void> {
  await eventually(async () => {
    const { nodes } = await clusterOf(node, headers)
    return nodes.some((each) => each.node === id && each.role === 'follower' && each.behind.bytes === 0)
  })
}

interface TestClusterOptions {
  readonly servers: 1 | 3
  /** Stops the load on the nodes, before they are killed. */
  readonly end?: () => Promise<void>
}

/** For the tests of one `describe`: NATS servers, and the nodes that the tests start. */
export class TestCluster<Each extends RunningService> {
  nodes: Each[] = []
  readonly #replicas: number
  #servers: readonly NatsServer[] = []

  constructor({ servers, end = async () => {} }: TestClusterOptions) {
    this.#replicas = servers
    before(async () => {
      this.#servers = await startNatsServers(servers)
    })
    after(async () => {
      await end()
      await Promise.all(this.nodes.filter((node) => node.isRunning).map((node) => node.kill()))
      await Promise.all(this.#servers.map((server) => server.kill()))
    })
  }

  get servers(): readonly NatsServer[] {
    return this.#servers
  }

  /** Settings of a node. */
  nodeOf(id: string, cluster?: string): Record<string, string> {
    return nodeEnvironment(this.#servers, id, { replicas: this.#replicas, ...(cluster !== undefined && { cluster }) })
  }

  async started(starting: Promise<Each>): Promise<Each> {
    const node = await starting
    this.nodes.push(node)
    return node
  }

  leader(among: () => readonly Each[] = () => this.nodes): Promise<Each> {
    return leaderAmong(among)
  }

  async killServersFor(ms: number): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.kill()))
    await timePasses(ms)
    for (const server of this.#servers) server.start()
  }
}

/** Clients of the nodes, and what they were told. */
interface Ledger<Each> {
  readonly answered: number
  readonly problems: readonly string[]
  readonly acknowledged: { readonly size: number }
  end(): Promise<void>
  problemsOf(node: Each): Promise<readonly string[]>
}

/** Resolves when clients have got this many more answers. */
export type WaitForAnswers = (count?: number) => Promise<void>

/** Makes a function that waits until the clients of this ledger have got that many more answers. */
export const waitForAnswersOf =
  (ledger: Pick<Ledger<never>, 'answered'>): WaitForAnswers =>
  async (count = 20) => {
    const { answered } = ledger
    await eventually(() => ledger.answered >= answered + count)
  }

interface Survival {
  readonly cluster: TestCluster<RunningService>
  readonly waitForAnswers: WaitForAnswers
  readonly answersAfterStop: number
}

/** Declares tests of two nodes under load, for any service: the leader is killed, told to stop, and stopped for longer than its lease. */
export function testLeaderFailover({ cluster, waitForAnswers, answersAfterStop }: Survival): void {
  it('goes on with the other node when the leader is killed', async () => {
    for (let round = 0; round < 2; round += 1) {
      const killed = await cluster.leader()
      await killed.kill()
      await waitForAnswers()
      await killed.startAgain()
    }
  })

  it('goes on with the other node when the leader is told to stop', async () => {
    const stopped = await cluster.leader()
    await stopped.stop()
    await waitForAnswers()
    await stopped.startAgain()
  })

  it('says nothing wrong when the leader was stopped for longer than its lease', async () => {
    const stopped = await cluster.leader()
    stopped.signal('SIGSTOP')
    await timePasses(STOPPED_MS)
    await waitForAnswers()
    stopped.signal('SIGCONT')
    await waitForAnswers(answersAfterStop)
  })
}

/** Declares a test in which the servers that keep the stream are killed. */
export function testNatsServersKilled({ cluster, waitForAnswers }: Pick<Survival, 'cluster' | 'waitForAnswers'>): void {
  it('goes on when all NATS servers were killed at once', async () => {
    await cluster.killServersFor(STOPPED_MS)
    await waitForAnswers()
  })
}

interface Accounts<Each extends RunningService> {
  readonly cluster: TestCluster<Each>
  readonly startNode: (id: string) => Promise<Each>
  readonly ledger: Ledger<Each>
  /** What is acknowledged, in the names of the tests. */
  readonly everything: string
  readonly acknowledgedMin: number
  /** Credentials of a caller that may see other nodes. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Declares tests after the load: what was acknowledged is on both nodes, and then on a third one that came last. Only the third one runs in the end. */
export function testEachNodeHasEverything<Each extends RunningService>({
  cluster,
  startNode,
  ledger,
  everything,
  acknowledgedMin,
  headers,
}: Accounts<Each>): void {
  it(`has ${everything}, on each of the nodes`, async () => {
    await ledger.end()
    assert.deepEqual(ledger.problems, [])
    assert.ok(ledger.acknowledged.size > acknowledgedMin)
    const first = await cluster.leader()
    assert.deepEqual(await ledger.problemsOf(first), [])
    await first.kill()
    const others = cluster.nodes.filter((node) => node !== first)
    assert.deepEqual(await ledger.problemsOf(await cluster.leader(() => others)), [])
  })

  it('has them on a node that came last, when the others are gone', async () => {
    const running = cluster.nodes.filter((node) => node.isRunning)
    const last = await startNode('node-3')
    await waitUntilCaughtUp(last, 'node-3', headers)
    await (await cluster.leader(() => running)).kill()
    cluster.nodes = [last]
    assert.deepEqual(await ledger.problemsOf(await cluster.leader()), [])
  })
}
