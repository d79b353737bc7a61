/**
 * Kills or stops the leader of a cluster of two brokers on three NATS servers again and again, under load, and says how long clients waited:
 * `npm run soak:cluster -- [rounds] [kill|stop|server]`. In the end every acknowledged record must be there once, on both nodes.
 */
import assert from 'node:assert/strict'
import { BrokerLedger } from '../test/support/broker-ledger.ts'
import { BrokerServer } from '../test/support/broker.ts'
import { findNatsServer, startNatsServers } from '../test/support/nats-server.ts'
import { eventually, givesUpAfter, timePasses } from '../test/support/waiting.ts'

const STOPPED_MS = 5000
const SETTLE_MS = 3000
const PUBLISHERS = 8

const [roundsGiven = '10', what = 'kill'] = process.argv.slice(2)
assert.ok(findNatsServer() !== null, 'no nats-server: run `npm run nats-server`')

const servers = await startNatsServers(3)
const env = (id: string): Record<string, string> => ({
  TRILOG_CLUSTER_SERVERS: servers.map(({ url }) => url).join(),
  TRILOG_CLUSTER_NAME: 'soak',
  TRILOG_CLUSTER_SECRET: '0123456789abcdef0123456789abcdef',
  TRILOG_CLUSTER_BIND: '127.0.0.1:0',
  TRILOG_NODE_ID: id,
})
const nodes = await Promise.all(['node-1', 'node-2'].map((id) => BrokerServer.start({ env: env(id) })))

const leads = (node: BrokerServer): Promise<boolean> =>
  fetch(`${node.url}/health?role=leader`, { signal: givesUpAfter(2000) }).then(
    ({ status }) => status === 200,
    () => false,
  )
async function leader(among: readonly BrokerServer[] = nodes): Promise<BrokerServer> {
  let found: BrokerServer | undefined
  await eventually(async () => {
    for (const node of among) if (await leads(node)) found = node
    return found !== undefined
  })
  return found!
}

const ledger = new BrokerLedger(() => nodes, 'orders')
assert.equal((await (await leader()).request('PUT', '/v1/streams/orders', '{}')).status, 201)
ledger.begin(PUBLISHERS)
const publishMs: number[] = []
const claimMs: number[] = []

/** Of what is acknowledged from now on. */
async function measure(): Promise<void> {
  const beganMs = performance.now()
  const { size } = ledger.acknowledged
  const { claimed } = ledger
  await Promise.all([
    eventually(() => ledger.acknowledged.size > size).then(() => publishMs.push(performance.now() - beganMs)),
    eventually(() => ledger.claimed > claimed).then(() => claimMs.push(performance.now() - beganMs)),
  ])
}

for (let round = 1; round <= Number(roundsGiven); round += 1) {
  const node = await leader()
  if (what === 'kill') {
    await node.kill()
    await measure()
    await node.startAgain()
  } else if (what === 'stop') {
    node.signal('SIGSTOP')
    await timePasses(100) // what was on its way is answered
    await measure()
    await timePasses(STOPPED_MS)
    node.signal('SIGCONT')
  } else {
    const server = servers[round % servers.length]!
    await server.kill()
    await measure()
    server.start()
  }
  await timePasses(SETTLE_MS)
  const [published, claimed] = [publishMs.at(-1)!, claimMs.at(-1)!].map(Math.round)
  console.log(`round ${round}: first publish after ${published} ms, first claim after ${claimed} ms`)
}
await ledger.end()
const spread = (ms: readonly number[]): string => {
  const sorted = ms.toSorted((one, other) => one - other).map(Math.round)
  return `least ${sorted[0]}, median ${sorted[sorted.length >> 1]}, most ${sorted.at(-1)} ms`
}
console.log(`publish: ${spread(publishMs)}; claim: ${spread(claimMs)}; ${ledger.acknowledged.size} acknowledged`)
const first = await leader()
const problems = [...ledger.problems, ...(await ledger.problemsOf(first))]
await first.kill()
problems.push(...(await ledger.problemsOf(await leader(nodes.filter((node) => node !== first)))))
for (const problem of problems.slice(0, 20)) console.error(problem)
console.log(problems.length === 0 ? 'nothing was lost, and nothing is there twice' : `${problems.length} problems`)
process.exitCode = problems.length === 0 ? 0 : 1
await Promise.all(nodes.filter((node) => node !== first).map((node) => node.kill()))
await Promise.all(servers.map((server) => server.kill()))
process.exit()
