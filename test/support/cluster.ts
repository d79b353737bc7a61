/** Nodes of a cluster as tests start and ask them. */
import type { NatsServer } from './nats-server.ts'
import type { RunningService } from './process.ts'
import { eventually, givesUpAfter } from './waiting.ts'

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
