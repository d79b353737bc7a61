/** Log stores on real NATS servers, with an outside ledger of everything that was acknowledged, while leaders and servers are killed and stopped. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { STOPPED_MS, goesOnWithAnother, inStep, leaderAmong, nodeEnvironment } from '../support/cluster.ts'
import { LEDGER_HEADERS, LEDGER_POLICY, LogStoreLedger } from '../support/logstore-ledger.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { natsOrSkip, startNatsServers } from '../support/nats-server.ts'
import type { NatsServer } from '../support/nats-server.ts'
import { eventually, timePasses } from '../support/waiting.ts'

const SENDERS = 4
/** Small, so that segments are sealed, indexed and compacted meanwhile. */
const SEGMENT_BYTES = 1 << 20

const { name, skip } = natsOrSkip('log stores in a cluster on real NATS servers')

describe(name, { skip }, () => {
  let servers: readonly NatsServer[] = []
  let nodes: LogStoreServer[] = []
  const ledger = new LogStoreLedger(() => nodes, 'ledger')

  const startNode = (id: string): Promise<LogStoreServer> =>
    LogStoreServer.start({
      policy: LEDGER_POLICY,
      env: { ...nodeEnvironment(servers, id), LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) },
    })
  const leader = (among = nodes): Promise<LogStoreServer> => leaderAmong(() => among)
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

  it('answers on one node', async () => {
    await leader()
    ledger.begin(SENDERS)
    await isAnsweredAgain(100)
  })

  goesOnWithAnother({ leader, isAnsweredAgain, answersAfterStop: 50 })

  it('goes on when all NATS servers were killed at once', async () => {
    await Promise.all(servers.map((server) => server.kill()))
    await timePasses(STOPPED_MS)
    for (const server of servers) server.start()
    await isAnsweredAgain()
  })

  it('makes and compacts bundles on each node', async () => {
    await eventually(() => nodes.every((node) => node.bundles.some((bundle) => node.isCompacted(bundle))))
  })

  it('has every acknowledged batch once, on each of the nodes', async () => {
    await ledger.end()
    assert.deepEqual(ledger.problems, [])
    assert.ok(ledger.acknowledged.size > 50)
    const first = await leader()
    assert.deepEqual(await ledger.problemsOf(first), [])
    await first.kill()
    const other = nodes.find((node) => node !== first)!
    assert.deepEqual(await ledger.problemsOf(await leader([other])), [])
  })

  it('has them on a node that came last, when the others are gone', async () => {
    const last = await startNode('node-3')
    await inStep(last, 'node-3', LEDGER_HEADERS)
    await (await leader(nodes.filter((node) => node.isRunning))).kill()
    nodes = [last]
    assert.deepEqual(await ledger.problemsOf(await leader()), [])
  })
})
