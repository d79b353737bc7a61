/** Three nodes on three NATS servers, while leaders and servers are killed and stopped. A ledger outside of them has everything acknowledged. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { natsOrSkip, startNatsServers } from '../../support/nats-server.ts'
import type { NatsServer } from '../../support/nats-server.ts'
import { eventually, timePasses } from '../../support/waiting.ts'
import { Ledger } from './ledger.ts'
import { NodeProcess, answerWithinTimeout } from './node-process.ts'

/** Longer than the lease of the nodes, and than followers wait for a leader. */
const STOPPED_MS = 5000
const CLIENTS = 4

const { name, skip } = natsOrSkip('nodes on real NATS servers')

describe(name, { skip }, () => {
  let servers: readonly NatsServer[] = []
  let nodes: NodeProcess[] = []
  const ledger = new Ledger()

  before(async () => {
    servers = await startNatsServers(3)
    const urls = servers.map(({ url }) => url).join()
    nodes = ['node-1', 'node-2', 'node-3'].map((each) => new NodeProcess(urls, each))
    await Promise.all(nodes.map((node) => node.start()))
  })
  after(async () => {
    ledger.end()
    for (const node of nodes) node.kill()
    await Promise.all(servers.map((server) => server.kill()))
  })

  /** Waits until clients have got this many more answers. */
  const waitForAnswers = async (count = 20): Promise<void> => {
    const from = ledger.answered
    await eventually(() => ledger.answered >= from + count)
  }
  const leader = async (): Promise<NodeProcess> => {
    for (;;) {
      for (const node of nodes)
        if ((await answerWithinTimeout(node.ask({ kind: 'look' })))?.role === 'leading') return node
      await timePasses(50)
    }
  }

  it('answers while nothing goes wrong', async () => {
    for (let client = 0; client < CLIENTS; client += 1) void ledger.run(() => nodes, client)
    await waitForAnswers(200)
  })

  it('goes on with another leader when the one is killed', async () => {
    for (let round = 0; round < 2; round += 1) {
      const killed = await leader()
      killed.kill()
      await waitForAnswers()
      await killed.start()
    }
  })

  it('says nothing wrong when a leader was stopped for longer than its lease', async () => {
    const stopped = await leader()
    stopped.signal('SIGSTOP')
    await timePasses(STOPPED_MS)
    await waitForAnswers()
    stopped.signal('SIGCONT')
    await waitForAnswers(100)
  })

  it('hands the lead over', async () => {
    const before = await leader()
    await answerWithinTimeout(before.ask({ kind: 'hand over' }))
    await eventually(async () => (await leader()) !== before)
    await waitForAnswers()
  })

  it('goes on when a NATS server is killed and loses its disk', async () => {
    const [server] = servers as [NatsServer]
    await server.kill()
    server.wipe()
    await waitForAnswers()
    server.start()
    await eventually(() => hasAllReplicas(server)) // until then no second copy may be lost
    await waitForAnswers()
  })

  it('goes on when all NATS servers were killed at once', async () => {
    await Promise.all(servers.map((server) => server.kill()))
    for (const server of servers) server.start()
    await waitForAnswers()
  })

  it('has everything that was acknowledged once, on every node, in the same order', async () => {
    ledger.end()
    assert.deepEqual(ledger.problems, [])
    const idsOf = async (node: NodeProcess): Promise<readonly number[]> =>
      (await answerWithinTimeout(node.ask({ kind: 'look' })))?.ids ?? []
    const all = async (): Promise<readonly (readonly number[])[]> => Promise.all(nodes.map(idsOf))
    await eventually(async () => new Set((await all()).map((ids) => ids.join())).size === 1)
    const ids = await idsOf(nodes[0]!)
    assert.equal(new Set(ids).size, ids.length)
    assert.ok(ledger.acknowledged.size > 100)
    for (const [id, version] of ledger.acknowledged) assert.equal(ids[version - 1], id)
  })
})

/** Whether every server has the whole stream. */
async function hasAllReplicas({ url }: NatsServer): Promise<boolean> {
  const connection = await connect({ servers: url, timeout: 2000 }).catch(() => null)
  if (connection === null) return false
  try {
    const manager = await jetstreamManager(connection, { timeout: 2000 })
    const { cluster } = await manager.streams.info('trilog-test-broker')
    const replicas = cluster?.replicas ?? []
    return replicas.length === 2 && replicas.every(({ current, offline }) => current && !(offline ?? false))
  } catch {
    return false
  } finally {
    await connection.close()
  }
}
