/** Log stores on real NATS servers, while leaders and servers are killed and stopped. A ledger outside of them has everything acknowledged. */
import { before, describe, it } from 'node:test'
import {
  TestCluster,
  testEachNodeHasEverything,
  testLeaderFailover,
  testNatsServersKilled,
  waitForAnswersOf,
} from '../support/cluster.ts'
import { LEDGER_HEADERS, LEDGER_POLICY, LogStoreLedger } from '../support/logstore-ledger.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { natsOrSkip } from '../support/nats-server.ts'
import { eventually } from '../support/waiting.ts'

const SENDERS = 4
/** Small, so that segments are sealed, indexed and compacted during the test. */
const SEGMENT_BYTES = 1 << 20

const { name, skip } = natsOrSkip('log stores in a cluster on real NATS servers')

describe(name, { skip }, () => {
  const cluster: TestCluster<LogStoreServer> = new TestCluster({ servers: 3, end: () => ledger.end() })
  const ledger = new LogStoreLedger(() => cluster.nodes, 'ledger')
  const waitForAnswers = waitForAnswersOf(ledger)
  const startNode = (id: string): Promise<LogStoreServer> => {
    const env = { ...cluster.nodeOf(id), LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) }
    return cluster.started(LogStoreServer.start({ policy: LEDGER_POLICY, env }))
  }

  before(() => Promise.all(['node-1', 'node-2'].map(startNode)))

  it('answers on one node', async () => {
    const first = await cluster.leader()
    ledger.begin(SENDERS)
    await waitForAnswers(100)
    const leads = 'trilog_cluster_role{cluster="test",service="logstore",role="leader"} 1\n'
    await eventually(async () => (await first.request('/metrics', null)).text.includes(leads))
  })

  testLeaderFailover({ cluster, waitForAnswers, answersAfterStop: 50 })
  testNatsServersKilled({ cluster, waitForAnswers })

  it('makes and compacts bundles on each node', async () => {
    await eventually(() => cluster.nodes.every((node) => node.bundles.some((bundle) => node.isCompacted(bundle))))
  })

  testEachNodeHasEverything({
    cluster,
    startNode,
    ledger,
    everything: 'every acknowledged batch once',
    acknowledgedMin: 50,
    headers: LEDGER_HEADERS,
  })
})
