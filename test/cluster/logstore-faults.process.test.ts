/** Log stores in a cluster, while decode lanes die and disks fail. A ledger outside of them has everything acknowledged. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { TestCluster, clusterOf, testEachNodeHasEverything } from '../support/cluster.ts'
import { LEDGER_HEADERS, LEDGER_POLICY, LogStoreLedger } from '../support/logstore-ledger.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { natsOrSkip } from '../support/nats-server.ts'
import { DISK_FAULTS, FaultyNodes } from '../support/node-faults.ts'
import { eventually } from '../support/waiting.ts'

const SENDERS = 2
const SEGMENT_BYTES = 1 << 20
/** Where the lane dies in a publish: before it marks the publish, before the frame is the last one, before it is in the journal's ring, and after. */
const OPERATIONS = [1, 2, 3, 4]

const { name, skip } = natsOrSkip('log stores in a cluster where something goes wrong')

describe(name, { skip }, () => {
  const cluster: TestCluster<LogStoreServer> = new TestCluster({ servers: 1, end: () => ledger.end() })
  const ledger = new LogStoreLedger(() => cluster.nodes, 'ledger')
  const nodes = new FaultyNodes(cluster, (env) =>
    LogStoreServer.start({ policy: LEDGER_POLICY, env: { ...env, LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) } }),
  )
  const waitForStored = async (): Promise<void> => {
    const { size } = ledger.acknowledged
    await eventually(() => ledger.acknowledged.size >= size + 5)
  }

  it('answers', async () => {
    await cluster.leader()
    ledger.begin(SENDERS)
    await waitForStored()
  })

  it('goes on when the decode lane of a follower dies while it publishes a frame, which follows with another one', async () => {
    const { node: leader } = await nodes.leading()
    const { node, place } = await nodes.following()
    for (const operation of OPERATIONS) {
      // If a restart of the log ends the lane first, the trigger may go with it. Then the next lane has to die.
      await eventually(place.faults.hits('exit-decode', `${operation} publishAll`, () => diedIn(node)))
      await waitForStored() // so that `end` is taken after the log's restart
      const end = await endOf(leader)
      await eventually(async () => (await positionOf(node, place.id)) >= end)
    }
    assert.match(node.stderr, /the producer died while it published a frame/)
  })

  nodes.testFailover(Object.values(DISK_FAULTS), waitForStored)
  testEachNodeHasEverything({
    cluster,
    startNode: (id) => nodes.start(id),
    ledger,
    everything: 'every acknowledged batch once',
    acknowledgedMin: 20,
    headers: LEDGER_HEADERS,
  })
})

const diedIn = ({ stderr }: LogStoreServer): number => stderr.split('"msg":"the decode lane died').length - 1

/** Position up to which the node's log is confirmed and on its disk. */
async function positionOf(node: LogStoreServer, id: string): Promise<number> {
  const { nodes } = await clusterOf(node, LEDGER_HEADERS)
  return nodes.find((each) => each.node === id)?.position ?? 0
}

async function endOf(leader: LogStoreServer): Promise<number> {
  const { nodes } = await clusterOf(leader, LEDGER_HEADERS)
  return Math.max(...nodes.map(({ position }) => position))
}
