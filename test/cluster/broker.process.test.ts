/** Brokers on real NATS servers, with an outside ledger of everything that was acknowledged, while leaders and servers are killed and stopped. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { BrokerServer } from '../support/broker.ts'
import { STOPPED_MS, goesOnWithAnother, inStep, leaderAmong, nodeEnvironment } from '../support/cluster.ts'
import { natsOrSkip, startNatsServers } from '../support/nats-server.ts'
import type { NatsServer } from '../support/nats-server.ts'
import { eventually, timePasses } from '../support/waiting.ts'
import { BrokerLedger } from '../support/broker-ledger.ts'

const PUBLISHERS = 4

const { name, skip } = natsOrSkip('brokers in a cluster on real NATS servers')

describe(name, { skip }, () => {
  let servers: readonly NatsServer[] = []
  let nodes: BrokerServer[] = []
  const ledger = new BrokerLedger(() => nodes, 'orders')

  const nodeOf = (id: string, cluster = 'test'): Record<string, string> => nodeEnvironment(servers, id, { cluster })
  const startNode = (id: string): Promise<BrokerServer> => BrokerServer.start({ env: nodeOf(id) })
  const leader = (among = nodes): Promise<BrokerServer> => leaderAmong(() => among)
  /** Goes on when clients are answered again. */
  const isAnsweredAgain = async (count = 20): Promise<void> => {
    const { answered, claimed } = ledger
    await eventually(() => ledger.answered >= answered + count && ledger.claimed > claimed)
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
    const refused = await other.request('GET', '/v1/streams')
    assert.equal(refused.code, 'not_leading')
    assert.equal(refused.headers.get('retry-after'), '1')
    assert.equal((await other.request('GET', '/health')).status, 200)
    assert.equal((await first.request('PUT', '/v1/streams/orders', '{}')).status, 201)
    ledger.begin(PUBLISHERS)
    await isAnsweredAgain(200)
  })

  goesOnWithAnother({ leader, isAnsweredAgain, answersAfterStop: 100 })

  it('goes on when all NATS servers were killed at once', async () => {
    await Promise.all(servers.map((server) => server.kill()))
    await timePasses(STOPPED_MS)
    for (const server of servers) server.start()
    await isAnsweredAgain()
  })

  it('has every acknowledged record once, on each of the nodes', async () => {
    await ledger.end()
    assert.deepEqual(ledger.problems, [])
    assert.ok(ledger.acknowledged.size > 100)
    const first = await leader()
    assert.deepEqual(await ledger.problemsOf(first), [])
    await first.kill()
    const other = nodes.find((node) => node !== first)!
    assert.deepEqual(await ledger.problemsOf(await leader([other])), [])
  })

  it('has them on a node that came last, when the others are gone', async () => {
    const last = await startNode('node-3')
    await inStep(last, 'node-3')
    await (await leader(nodes.filter((node) => node.isRunning))).kill()
    nodes = [last]
    assert.deepEqual(await ledger.problemsOf(await leader()), [])
  })

  it('says on both that another process has the same id, and goes on', async () => {
    const [last] = nodes
    const twin = await startNode('node-3')
    for (const node of [last!, twin]) {
      await eventually(async () => {
        const { headers } = await node.request('GET', '/health')
        return headers.get('x-trilog-degraded')?.includes('node-3') === true
      })
    }
    assert.deepEqual(await ledger.problemsOf(await leader()), [])
    await twin.kill()
  })

  it('keeps a log that was there before the cluster', async () => {
    const alone = await BrokerServer.start()
    const stream = await alone.newStream()
    await stream.fill(100)
    await alone.stop()
    await alone.startAgain(nodeOf('node-1', 'second'))
    await leader([alone])
    assert.equal((await alone.stream(stream.name).describe()).next_offset, 100)
    assert.equal((await alone.stream(stream.name).publish('more')).offset, 100)
    await alone.kill()
    await alone.startAgain()
    await leader([alone])
    assert.equal((await alone.stream(stream.name).describe()).next_offset, 101)
    await alone.kill()
  })
})
