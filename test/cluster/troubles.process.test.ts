/** Brokers in a cluster, with an outside ledger of everything that was acknowledged, while links, disks and clocks of nodes go wrong. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { BrokerLedger } from '../support/broker-ledger.ts'
import { BrokerServer } from '../support/broker.ts'
import { TestCluster, hasAllOnEach } from '../support/cluster.ts'
import { natsOrSkip } from '../support/nats-server.ts'
import { CLOCK_TROUBLES, DISK_TROUBLES, LATE, NETWORK_TROUBLES, Place } from '../support/troubles.ts'
import type { Placed } from '../support/troubles.ts'
import { eventually } from '../support/waiting.ts'

const PUBLISHERS = 2
/** Segments fill soon, so that a disk without room is felt. */
const SEGMENT_BYTES = 1 << 20
const PAYLOAD_BYTES = 8000
/** Shorter than by default: each trouble of a leader takes a lease. */
const LEASE = { TRILOG_CLUSTER_LEASE_MS: '1000' }

const { name, skip } = natsOrSkip('brokers in a cluster where something goes wrong')

describe(name, { skip }, () => {
  const cluster: TestCluster<BrokerServer> = new TestCluster({ servers: 1, end: () => ledger.end() })
  const ledger = new BrokerLedger(() => cluster.nodes, 'orders', { payloadBytes: PAYLOAD_BYTES })
  /** More than can be on its way: reads are answered for the time of a lease. */
  const isStoredAgain = async (): Promise<void> => {
    const { size } = ledger.acknowledged
    await eventually(() => ledger.acknowledged.size >= size + 20)
  }
  const placed: Placed<BrokerServer>[] = []

  const startNode = async (id: string): Promise<BrokerServer> => {
    const place = await Place.of(id, cluster.servers)
    const env = { ...place.environment({ replicas: 1 }), ...LEASE }
    const node = await cluster.started(BrokerServer.start({ flags: ['--segment-bytes', String(SEGMENT_BYTES)], env }))
    placed.push({ place, node })
    return node
  }
  const leading = async (): Promise<Placed<BrokerServer>> => {
    const node = await cluster.leader()
    return placed.find((each) => each.node === node)!
  }
  const following = async (): Promise<Placed<BrokerServer>> => {
    const { node } = await leading()
    return placed.find((each) => each.node !== node)!
  }

  before(() => Promise.all(['node-1', 'node-2'].map(startNode)))
  after(() => Promise.all(placed.map(({ place }) => place.close())))

  it('answers', async () => {
    const { node } = await leading()
    assert.equal((await node.request('PUT', '/v1/streams/orders', '{}')).status, 201)
    ledger.begin(PUBLISHERS)
    await isStoredAgain()
  })

  for (const { what, begin, end } of [...Object.values(NETWORK_TROUBLES), ...Object.values(DISK_TROUBLES)]) {
    it(`goes on with the other node when the leader ${what}`, async () => {
      const troubled = await leading()
      await begin(troubled)
      await cluster.leader(() => cluster.nodes.filter((node) => node !== troubled.node))
      await isStoredAgain()
      await end(troubled)
      await isStoredAgain()
    })
  }

  for (const { what, begin, end } of [LATE, ...Object.values(CLOCK_TROUBLES)]) {
    it(`goes on when the leader ${what}`, async () => {
      const troubled = await leading()
      await begin(troubled)
      await isStoredAgain()
      await end(troubled)
      await isStoredAgain()
    })
  }

  for (const { what, begin, end } of [NETWORK_TROUBLES.alone, ...Object.values(DISK_TROUBLES)]) {
    it(`goes on when the follower ${what}`, async () => {
      const troubled = await following()
      await begin(troubled)
      await isStoredAgain()
      await end(troubled)
      await isStoredAgain()
    })
  }

  it('goes on when another process has the id of the leader, which is killed, and both say so before', async () => {
    const { place, node: killed } = await leading()
    const twin = await startNode(place.id)
    for (const node of [killed, twin]) {
      await eventually(async () => {
        const { headers } = await node.request('GET', '/health')
        return headers.get('x-trilog-degraded')?.includes(place.id) === true
      })
    }
    await killed.kill()
    await isStoredAgain()
    await killed.startAgain()
    await twin.kill()
    cluster.nodes = cluster.nodes.filter((node) => node !== twin)
    await isStoredAgain()
  })

  hasAllOnEach({ cluster, startNode, ledger, everything: 'every acknowledged record once', acknowledgedMin: 100 })
})
