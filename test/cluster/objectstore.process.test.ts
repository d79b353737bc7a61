/** Object stores on real NATS servers, while leaders and servers are killed and stopped. A ledger outside of them has everything acknowledged. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import { TestCluster, testEachNodeHasEverything, testLeaderFailover, waitForAnswersOf } from '../support/cluster.ts'
import { natsOrSkip } from '../support/nats-server.ts'
import { ObjectLedger } from '../support/object-ledger.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { eventually } from '../support/waiting.ts'

const WRITERS = 4
/** Small, so that segments are sealed, checkpoints are written and the log is cleaned during the test. */
const SEGMENT_BYTES = 4 << 20

const { name, skip } = natsOrSkip('object stores in a cluster on real NATS servers')

const firstSegmentOf = ({ dataDirectory }: ObjectStoreServer): number =>
  Math.min(...readdirSync(`${dataDirectory}/segments`).map((base) => Number.parseInt(base, 16)))

describe(name, { skip }, () => {
  const cluster: TestCluster<ObjectStoreServer> = new TestCluster({ servers: 3, end: () => ledger.end() })
  const ledger = new ObjectLedger(() => cluster.nodes, 'photos')
  const waitForAnswers = waitForAnswersOf(ledger)
  const startNode = (id: string): Promise<ObjectStoreServer> => {
    const env = { ...cluster.nodeOf(id), OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) }
    return cluster.started(ObjectStoreServer.start({ env }))
  }
  const numberOf = async (node: ObjectStoreServer, metric: string): Promise<number> => {
    const { text } = await node.request('GET', '/v1/metrics')
    return Number(new RegExp(`^\\S*${metric} (\\S+)$`, 'm').exec(text)?.[1])
  }

  before(() => Promise.all(['node-1', 'node-2'].map(startNode)))

  it('answers on one node, and the other one says that it does not lead', async () => {
    const first = await cluster.leader()
    const other = cluster.nodes.find((node) => node !== first)!
    for (const target of ['/photos/x', '/photos?list-type=2', '/']) {
      const refused = await other.request('GET', target)
      assert.deepEqual([refused.status, refused.header('x-obj-error-code')], [503, 'SlowDown'])
      assert.equal(refused.header('retry-after'), '1')
    }
    assert.equal((await other.request('GET', '/health')).status, 200)
    assert.equal((await other.request('GET', '/v1/metrics')).status, 200)
    assert.equal((await other.request('GET', '/v1/endpoint/a/recent')).status, 503)
    assert.equal((await first.request('PUT', '/photos')).status, 200)
    ledger.begin(WRITERS)
    await waitForAnswers(100)
    const leads = 'trilog_cluster_role{cluster="test",service="objectstore",role="leader"} 1\n'
    await eventually(async () => (await first.request('GET', '/v1/metrics')).text.includes(leads))
  })

  testLeaderFailover({ cluster, waitForAnswers, answersAfterStop: 50 })

  it('cleans the log on the leader, and each node drops its own segments', async () => {
    const first = await cluster.leader()
    await eventually(async () => (await numberOf(first, 'objstore_segments_cleaned(?:_total)?')) > 0)
    await eventually(async () => cluster.nodes.every((node) => firstSegmentOf(node) > 0))
  })

  testEachNodeHasEverything({
    cluster,
    startNode,
    ledger,
    everything: 'everything that was acknowledged',
    acknowledgedMin: 20,
  })
})
