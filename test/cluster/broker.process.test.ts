/** Brokers on real NATS servers, while leaders and servers are killed and stopped. A ledger outside of them has everything acknowledged. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { BrokerServer, failToStartBroker } from '../support/broker.ts'
import {
  TestCluster,
  testEachNodeHasEverything,
  testLeaderFailover,
  testNatsServersKilled,
} from '../support/cluster.ts'
import type { WaitForAnswers } from '../support/cluster.ts'
import { Exposition } from '../support/exposition.ts'
import { RawClient } from '../support/http-server.ts'
import { natsOrSkip } from '../support/nats-server.ts'
import { eventually } from '../support/waiting.ts'
import { BrokerLedger } from '../support/broker-ledger.ts'

const PUBLISHERS = 4

const { name, skip } = natsOrSkip('brokers in a cluster on real NATS servers')

describe(name, { skip }, () => {
  const cluster: TestCluster<BrokerServer> = new TestCluster({ servers: 3, end: () => ledger.end() })
  const ledger = new BrokerLedger(() => cluster.nodes, 'orders')
  const startNode = (id: string): Promise<BrokerServer> =>
    cluster.started(BrokerServer.start({ env: { ...cluster.nodeOf(id), MQ_METRICS_EXPOSURE: 'http' } }))
  const waitForAnswers: WaitForAnswers = async (count = 20) => {
    const { answered, claimed } = ledger
    await eventually(() => ledger.answered >= answered + count && ledger.claimed > claimed)
  }

  before(() => Promise.all(['node-1', 'node-2'].map(startNode)))

  it('answers on one node, and the other one says that it does not lead', async () => {
    const first = await cluster.leader()
    const other = cluster.nodes.find((node) => node !== first)!
    const refused = await other.request('GET', '/v1/streams')
    assert.equal(refused.code, 'not_leading')
    assert.equal(refused.headers.get('retry-after'), '1')
    assert.equal((await other.request('GET', '/health')).status, 200)
    assert.equal((await first.request('PUT', '/v1/streams/orders', '{}')).status, 201)
    ledger.begin(PUBLISHERS)
    await waitForAnswers(200)
  })

  it('shows in its metrics who leads, and what the stream acknowledged', async () => {
    const first = await cluster.leader()
    const other = cluster.nodes.find((node) => node !== first)!
    const shownBy = async (node: BrokerServer) => {
      const shown = new Exposition((await node.request('GET', '/metrics')).text)
      return (name: string, labels = {}): number | undefined =>
        shown.value(`trilog_cluster_${name}`, { cluster: 'test', service: 'broker', ...labels })
    }
    const leader = await shownBy(first)
    assert.equal(leader('role', { role: 'leader' }), 1)
    assert.equal(leader('role_changes_total', { role: 'leader' }), 1)
    assert.ok(leader('lease_seconds')! > 0)
    assert.ok(leader('acknowledged_seconds_ago')! < 2)
    assert.ok(leader('publish_duration_seconds_count')! > 10)
    await eventually(async () => {
      const follower = await shownBy(other)
      const isFollower = follower('role', { role: 'follower' }) === 1 && follower('leader_known') === 1
      return isFollower && follower('nodes') === 2 && follower('sequence')! > 10 && follower('lease_seconds') === 0
    })
  })

  testLeaderFailover({ cluster, waitForAnswers, answersAfterStop: 100 })

  it('goes on with the other node while the leader, which is told to stop, waits for a slow client', async () => {
    const stopped = await cluster.leader()
    const { hostname: host, port } = new URL(stopped.url)
    const slow = await RawClient.connect({ host, port: Number(port) })
    const begin = 'POST /v1/streams/orders/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n'
    await slow.send(`${begin}Expect: 100-continue\r\n\r\n`)
    assert.equal((await slow.reply())?.status, 100)
    stopped.signal('SIGTERM')
    await cluster.leader(() => cluster.nodes.filter((node) => node !== stopped))
    assert.ok(stopped.isRunning)
    slow.destroy()
    await stopped.ended()
    await stopped.startAgain()
  })

  testNatsServersKilled({ cluster, waitForAnswers })
  testEachNodeHasEverything({
    cluster,
    startNode,
    ledger,
    everything: 'every acknowledged record once',
    acknowledgedMin: 100,
  })

  it('keeps a log that was there before the cluster', async () => {
    const alone = await BrokerServer.start()
    const stream = await alone.newStream()
    await stream.fill(100)
    await alone.stop()
    await alone.startAgain(cluster.nodeOf('node-1', 'second'))
    await cluster.leader(() => [alone])
    assert.equal((await alone.stream(stream.name).describe()).next_offset, 100)
    assert.equal((await alone.stream(stream.name).publish('more')).offset, 100)
    await alone.kill()
    await alone.startAgain()
    await cluster.leader(() => [alone])
    assert.equal((await alone.stream(stream.name).describe()).next_offset, 101)
    await alone.kill()
  })

  it('does not cut what was acknowledged outside of it: the node is refused, and may begin a cluster of another name', async () => {
    const node = await BrokerServer.start()
    const stream = await node.newStream()
    await node.stop()
    await node.startAgain(cluster.nodeOf('node-1', 'third'))
    await cluster.leader(() => [node])
    await node.stream(stream.name).fill(10)
    await node.stop()
    await node.startAgain()
    assert.equal((await node.stream(stream.name).publish('outside')).offset, 10)
    await node.stop()
    const again = { ...cluster.nodeOf('node-1', 'third'), MQ_DATA_DIR: node.dataDirectory }
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const { code, stderr } = await failToStartBroker([], again)
      assert.equal(code, 2)
      assert.match(stderr, /was then started outside of it/)
    }
    for (let life = 0; life < 2; life += 1) {
      await node.startAgain(cluster.nodeOf('node-1', 'fourth'))
      await cluster.leader(() => [node])
      const { offset } = await node.stream(stream.name).publish('inside')
      assert.equal(offset, 11 + life)
      await node.kill()
    }
  })
})
