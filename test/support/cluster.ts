/** Nodes of a cluster as tests start and ask them. */
import assert from 'node:assert/strict'
import { after, before, it } from 'node:test'
import { Compile } from 'typebox/schema'
import { ClusterReply } from '../../src/http/cluster.ts'
import { startNatsServers } from './nats-server.ts'
import type { NatsServer } from './nats-server.ts'
import type { RunningService } from './process.ts'
import { eventually, givesUpAfter, timePasses } from './waiting.ts'

/** Longer than the lease, and than followers wait. */
export const STOPPED_MS = 5000

type Node = Pick<RunningService, 'url'>

/** Settings of a node: its logs are kept by these servers. */
export const nodeEnvironment = (
  servers: readonly NatsServer[],
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
  fetch(`${node.url}/health?role=leader`, { signal: givesUpAfter(2000) }).then(
    ({ status }) => status === 200,
    () => false,
  )

/** Resolves when one of them leads. */
export async function leaderAmong<Each extends Node>(nodes: () => readonly Each[]): Promise<Each> {
  let found: Each | undefined
  await eventually(async () => {
    for (const node of nodes()) if (await leads(node)) found = node
    return found !== undefined
  })
  return found!
}

const clusterReply = Compile(ClusterReply)

/** @param headers of somebody who may see other nodes */
export async function clusterOf(node: Node, headers: Readonly<Record<string, string>> = {}): Promise<ClusterReply> {
  const reply: unknown = await (await fetch(`${node.url}/v1/cluster`, { headers })).json()
  assert.ok(clusterReply.Check(reply))
  return reply
}

/** Resolves when the node with this id follows, and lacks nothing that was confirmed. */
export async function inStep(node: Node, id: string, headers?: Readonly<Record<string, string>>): Promise<void> {
  await eventually(async () => {
    const { nodes } = await clusterOf(node, headers)
    return nodes.some((each) => each.node === id && each.role === 'follower' && each.behind.bytes === 0)
  })
}

/** For the tests of one `describe`: a NATS server, and the nodes that they start. */
export class SmallCluster<Each extends RunningService> {
  readonly nodes: Each[] = []
  #servers: readonly NatsServer[] = []

  constructor() {
    before(async () => {
      this.#servers = await startNatsServers(1)
    })
    after(async () => {
      await Promise.all(this.nodes.filter((node) => node.isRunning).map((node) => node.kill()))
      await Promise.all(this.#servers.map((server) => server.kill()))
    })
  }

  /** Settings of a node. */
  nodeOf(id: string): Record<string, string> {
    return nodeEnvironment(this.#servers, id, { replicas: 1 })
  }

  async started(starting: Promise<Each>): Promise<Each> {
    const node = await starting
    this.nodes.push(node)
    return node
  }
}

interface Survival {
  readonly leader: () => Promise<RunningService>
  /** Resolves when clients were given so many more answers. */
  readonly isAnsweredAgain: (count?: number) => Promise<void>
  readonly answersAfterStop: number
}

/** Tests of two nodes under load, whichever service they run: the leader is killed, told to stop, and stopped for longer than its lease. */
export function goesOnWithAnother({ leader, isAnsweredAgain, answersAfterStop }: Survival): void {
  it('goes on with the other node when the leader is killed', async () => {
    for (let round = 0; round < 2; round += 1) {
      const killed = await leader()
      await killed.kill()
      await isAnsweredAgain()
      await killed.startAgain()
    }
  })

  it('goes on with the other node when the leader is told to stop', async () => {
    const stopped = await leader()
    await stopped.stop()
    await isAnsweredAgain()
    await stopped.startAgain()
  })

  it('says nothing wrong when the leader was stopped for longer than its lease', async () => {
    const stopped = await leader()
    stopped.signal('SIGSTOP')
    await timePasses(STOPPED_MS)
    await isAnsweredAgain()
    stopped.signal('SIGCONT')
    await isAnsweredAgain(answersAfterStop)
  })
}
