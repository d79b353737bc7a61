/** Object stores on real NATS servers, with an outside ledger of everything that was acknowledged, while leaders and servers are killed and stopped. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { goesOnWithAnother, inStep, leaderAmong, nodeEnvironment } from '../support/cluster.ts'
import { natsOrSkip, startNatsServers } from '../support/nats-server.ts'
import type { NatsServer } from '../support/nats-server.ts'
import { ObjectLedger } from '../support/object-ledger.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { eventually } from '../support/waiting.ts'

const WRITERS = 4
/** Small, so that segments are sealed, checkpoints are written and the log is cleaned meanwhile. */
const SEGMENT_BYTES = 4 << 20

const { name, skip } = natsOrSkip('object stores in a cluster on real NATS servers')

const firstSegmentOf = ({ dataDirectory }: ObjectStoreServer): number =>
  Math.min(...readdirSync(`${dataDirectory}/segments`).map((base) => Number.parseInt(base, 16)))

describe(name, { skip }, () => {
  let servers: readonly NatsServer[] = []
  let nodes: ObjectStoreServer[] = []
  const ledger = new ObjectLedger(() => nodes, 'photos')

  const startNode = (id: string): Promise<ObjectStoreServer> =>
    ObjectStoreServer.start({
      env: { ...nodeEnvironment(servers, id), OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) },
    })
  const leader = (among = nodes): Promise<ObjectStoreServer> => leaderAmong(() => among)
  const numberOf = async (node: ObjectStoreServer, metric: string): Promise<number> => {
    const { text } = await node.request('GET', '/v1/metrics')
    return Number(new RegExp(`^\\S*${metric} (\\S+)$`, 'm').exec(text)?.[1])
  }
  const isAnsweredAgain = async (count = 20): Promise<void> => {
    const { answered } = ledger
    await eventually(() => ledger.answered >= answered + count)
  }

  before(async () => {
    servers = await startNatsServers(3)
    nodes = await Promise.all(['node-1', 'node-2'].map(startNode))
  })
  after(async () => {
    await ledger.end()
    await Promise.all(nodes.filter((node) => node.isRunning).map((node) => node.kill()))
    await Promise.all(servers.map((server) => server.kill()))
  })

  it('answers on one node, and the other one says that it does not lead', async () => {
    const first = await leader()
    const other = nodes.find((node) => node !== first)!
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
    await isAnsweredAgain(100)
  })

  goesOnWithAnother({ leader, isAnsweredAgain, answersAfterStop: 50 })

  it('cleans the log on the leader, and each node drops its own segments', async () => {
    const first = await leader()
    await eventually(async () => (await numberOf(first, 'objstore_segments_cleaned(?:_total)?')) > 0)
    await eventually(async () => nodes.every((node) => firstSegmentOf(node) > 0))
  })

  it('has everything that was acknowledged, on each of the nodes', async () => {
    await ledger.end()
    assert.deepEqual(ledger.problems, [])
    assert.ok(ledger.acknowledged.size > 20)
    const first = await leader()
    assert.deepEqual(await ledger.problemsOf(first), [])
    await first.kill()
    const other = nodes.find((node) => node !== first)!
    assert.deepEqual(await ledger.problemsOf(await leader([other])), [])
  })

  it('has it on a node that came last, when the others are gone', async () => {
    const last = await startNode('node-3')
    await inStep(last, 'node-3')
    await (await leader(nodes.filter((node) => node.isRunning))).kill()
    nodes = [last]
    assert.deepEqual(await ledger.problemsOf(await leader()), [])
  })
})
