/** Brokers in a cluster, while links, disks and clocks of nodes fail. A ledger outside of them has everything acknowledged. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerLedger } from '../support/broker-ledger.ts'
import { BrokerServer, Delivery } from '../support/broker.ts'
import { TestCluster, testEachNodeHasEverything } from '../support/cluster.ts'
import { natsOrSkip } from '../support/nats-server.ts'
import { CLOCK_FAULTS, DISK_FAULTS, FaultyNodes, LATE, NETWORK_FAULTS } from '../support/node-faults.ts'
import { eventually } from '../support/waiting.ts'

const PUBLISHERS = 2
/** Small: segments fill soon, so that a full disk has an effect. */
const SEGMENT_BYTES = 1 << 20
const PAYLOAD_BYTES = 8000
/** Clocks jump by more than this. */
const HOUR_MS = 3_600_000

const { name, skip } = natsOrSkip('brokers in a cluster where something goes wrong')

describe(name, { skip }, () => {
  const cluster: TestCluster<BrokerServer> = new TestCluster({ servers: 1, end: () => ledger.end() })
  const ledger = new BrokerLedger(() => cluster.nodes, 'orders', { payloadBytes: PAYLOAD_BYTES })
  /** Waits for more answers than may have been on their way: only a leader that stores gives so many. */
  const waitForStored = async (): Promise<void> => {
    const { size } = ledger.acknowledged
    await eventually(() => ledger.acknowledged.size >= size + 20)
  }
  const nodes = new FaultyNodes(cluster, (env) =>
    BrokerServer.start({ flags: ['--segment-bytes', String(SEGMENT_BYTES)], env }),
  )

  it('answers', async () => {
    const { node } = await nodes.leading()
    assert.equal((await node.request('PUT', '/v1/streams/orders', '{}')).status, 201)
    ledger.begin(PUBLISHERS)
    await waitForStored()
  })

  nodes.testFailover([...Object.values(NETWORK_FAULTS), ...Object.values(DISK_FAULTS)], waitForStored)
  nodes.testClientsGoOn('leader', [LATE, ...Object.values(CLOCK_FAULTS)], waitForStored)
  nodes.testClientsGoOn('follower', [NETWORK_FAULTS.alone, ...Object.values(DISK_FAULTS)], waitForStored)

  it('goes on when another process has the id of the leader, which is killed, and both say so before', async () => {
    const { place, node: killed } = await nodes.leading()
    const twin = await nodes.start(place.id)
    for (const one of [killed, twin]) {
      await eventually(async () => {
        const { headers } = await one.request('GET', '/health')
        return headers.get('x-trilog-degraded')?.includes(place.id) === true
      })
    }
    await killed.kill()
    await waitForStored()
    await killed.startAgain()
    await twin.kill()
    cluster.nodes = cluster.nodes.filter((node) => node !== twin)
    await waitForStored()
  })

  it('neither ends a lease nor lengthens one when the leader is killed, whose clock was hours ahead', async () => {
    const ahead = await nodes.leading()
    const stream = await ahead.node.newStream()
    await stream.fill(2)
    const held = await stream.group().claimOne({ lease_timeout_millis: HOUR_MS })
    await CLOCK_FAULTS.ahead.begin(ahead)
    const short = await stream.group().claimOne({ lease_timeout_millis: 1000 })
    await ahead.node.kill()
    const other = await cluster.leader(() => cluster.nodes.filter((node) => node !== ahead.node))
    const group = other.stream(stream.name).group()
    let again: readonly Delivery[] = []
    await eventually(async () => (again = await group.claim({ lease_timeout_millis: HOUR_MS })).length > 0)
    assert.deepEqual(
      again.map(({ offset, attempt }) => [offset, attempt]),
      [[short.offset, 2]],
    )
    assert.equal((await new Delivery(group, held.fields).ack()).code, null)
    await CLOCK_FAULTS.ahead.end(ahead)
    await ahead.node.startAgain()
    await waitForStored()
  })

  testEachNodeHasEverything({
    cluster,
    startNode: (id) => nodes.start(id),
    ledger,
    everything: 'every acknowledged record once',
    acknowledgedMin: 100,
  })
})
