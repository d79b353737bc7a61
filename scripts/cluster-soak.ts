/**
 * Kills or stops the leader of a cluster of two nodes on three NATS servers again and again, under load, and says how long clients waited:
 * `npm run soak:cluster -- [rounds] [kill|stop|server] [broker|objectstore]`. In the end everything acknowledged must be there once, on both nodes.
 */
import assert from 'node:assert/strict'
import { BrokerLedger } from '../test/support/broker-ledger.ts'
import { BrokerServer } from '../test/support/broker.ts'
import { leaderAmong, nodeEnvironment } from '../test/support/cluster.ts'
import { findNatsServer, startNatsServers } from '../test/support/nats-server.ts'
import { ObjectLedger } from '../test/support/object-ledger.ts'
import { ObjectStoreServer } from '../test/support/objectstore.ts'
import type { RunningService } from '../test/support/process.ts'
import { eventually, timePasses } from '../test/support/waiting.ts'

const STOPPED_MS = 5000
const SETTLE_MS = 3000
const CLIENTS = 8
const IDS = ['node-1', 'node-2']

const [roundsGiven = '10', what = 'kill', service = 'broker'] = process.argv.slice(2)
assert.ok(findNatsServer() !== null, 'no nats-server: run `npm run nats-server`')

interface Soak {
  readonly nodes: readonly (BrokerServer | ObjectStoreServer)[]
  /** What is counted, each as often as it was answered. */
  readonly counts: Readonly<Record<string, () => number>>
  readonly problems: () => readonly string[]
  readonly problemsOf: (node: RunningService) => Promise<readonly string[]>
  readonly end: () => Promise<void>
}

const servers = await startNatsServers(3)
const env = (id: string): Record<string, string> => nodeEnvironment(servers, id, { cluster: 'soak' })

async function soakOfBroker(): Promise<Soak> {
  const nodes = await Promise.all(IDS.map((id) => BrokerServer.start({ env: env(id) })))
  const ledger = new BrokerLedger(() => nodes, 'orders')
  assert.equal((await (await leaderAmong(() => nodes)).request('PUT', '/v1/streams/orders', '{}')).status, 201)
  ledger.begin(CLIENTS)
  return {
    nodes,
    counts: { publish: () => ledger.acknowledged.size, claim: () => ledger.claimed },
    problems: () => ledger.problems,
    problemsOf: (node) => ledger.problemsOf(nodes.find((each) => each === node)!),
    end: () => ledger.end(),
  }
}

async function soakOfObjectStore(): Promise<Soak> {
  const nodes = await Promise.all(
    IDS.map((id) => ObjectStoreServer.start({ env: { ...env(id), OBJSTORE_SEGMENT_BYTES: String(16 << 20) } })),
  )
  const ledger = new ObjectLedger(() => nodes, 'photos')
  assert.equal((await (await leaderAmong(() => nodes)).request('PUT', '/photos')).status, 200)
  ledger.begin(CLIENTS)
  return {
    nodes,
    counts: { answer: () => ledger.answered },
    problems: () => ledger.problems,
    problemsOf: (node) => ledger.problemsOf(nodes.find((each) => each === node)!),
    end: () => ledger.end(),
  }
}

const soak = service === 'objectstore' ? await soakOfObjectStore() : await soakOfBroker()
const { nodes } = soak
const waitedMs = new Map<string, number[]>(Object.keys(soak.counts).map((name) => [name, []]))

/** Until the first of what is answered from now on. */
async function measure(): Promise<void> {
  const beganMs = performance.now()
  await Promise.all(
    Object.entries(soak.counts).map(async ([name, count]) => {
      const before = count()
      await eventually(() => count() > before)
      waitedMs.get(name)!.push(performance.now() - beganMs)
    }),
  )
}

for (let round = 1; round <= Number(roundsGiven); round += 1) {
  const node = await leaderAmong(() => nodes)
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
  const waited = Array.from(waitedMs, ([name, ms]) => `first ${name} after ${Math.round(ms.at(-1)!)} ms`)
  console.log(`round ${round}: ${waited.join(', ')}`)
}
await soak.end()
for (const [name, ms] of waitedMs) {
  const sorted = ms.toSorted((one, other) => one - other).map(Math.round)
  console.log(
    `${name}: least ${sorted[0]}, median ${sorted[sorted.length >> 1]}, most ${sorted.at(-1)} ms; ${soak.counts[name]!()} in all`,
  )
}
const first = await leaderAmong(() => nodes)
const problems = [...soak.problems(), ...(await soak.problemsOf(first))]
await first.kill()
const others = nodes.filter((node) => node !== first)
problems.push(...(await soak.problemsOf(await leaderAmong(() => others))))
for (const problem of problems.slice(0, 20)) console.error(problem)
console.log(problems.length === 0 ? 'nothing was lost, and nothing is there twice' : `${problems.length} problems`)
process.exitCode = problems.length === 0 ? 0 : 1
await Promise.all(others.map((node) => node.kill()))
await Promise.all(servers.map((server) => server.kill()))
process.exit()
