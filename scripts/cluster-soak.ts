/**
 * Causes trouble for the leader of a cluster of two nodes on three NATS servers again and again, under load, and says how long clients waited:
 * `npm run soak:cluster -- [rounds] [kill|stop|server|all|…] [broker|objectstore|logstore]`; `all` takes everything of `TROUBLES` in turn. In the end
 * everything acknowledged must be there once, on both nodes.
 */
import assert from 'node:assert/strict'
import { BrokerLedger } from '../test/support/broker-ledger.ts'
import { BrokerServer } from '../test/support/broker.ts'
import { leaderAmong } from '../test/support/cluster.ts'
import { LEDGER_POLICY, LogStoreLedger } from '../test/support/logstore-ledger.ts'
import { LogStoreServer } from '../test/support/logstore.ts'
import { findNatsServer, startNatsServers } from '../test/support/nats-server.ts'
import { CLOCK_FAULTS, DISK_FAULTS, LATE, NETWORK_FAULTS, Place } from '../test/support/node-faults.ts'
import type { NodeFault, Placed } from '../test/support/node-faults.ts'
import { ObjectLedger } from '../test/support/object-ledger.ts'
import { ObjectStoreServer } from '../test/support/objectstore.ts'
import { eventually, timePasses } from '../test/support/waiting.ts'

/** Longer than the lease, and than followers wait. */
const STOPPED_MS = 5000
/** Time in which requests in flight are answered. */
const ON_ITS_WAY_MS = 100
const SETTLE_MS = 3000
const CLIENTS = 8
/** Attempts to read all of a node that leads. */
const ATTEMPTS = 3
/** Small, so that disks without room are felt, and segments are sealed, indexed and cleaned meanwhile. */
const SEGMENT_BYTES = String(4 << 20)
const PAYLOAD_BYTES = 2000

const [roundsGiven = '10', what = 'kill', service = 'broker'] = process.argv.slice(2)
assert.ok(findNatsServer() !== null, 'no nats-server: run `npm run nats-server`')
const servers = await startNatsServers(3)
let round = 0

const FAULTS: Readonly<Record<string, NodeFault>> = {
  kill: { what: 'is killed', begin: ({ node }) => node.kill(), end: ({ node }) => node.startAgain() },
  stop: {
    what: 'is stopped',
    begin: ({ node }) => node.signal('SIGSTOP'),
    async end({ node }) {
      await timePasses(STOPPED_MS)
      node.signal('SIGCONT')
    },
  },
  server: {
    what: 'works on, and one of the NATS servers is killed',
    begin: () => servers[round % servers.length]!.kill(),
    end: () => servers[round % servers.length]!.start(),
  },
  ...NETWORK_FAULTS,
  late: LATE,
  ...DISK_FAULTS,
  ...CLOCK_FAULTS,
}

type Server = BrokerServer | ObjectStoreServer | LogStoreServer

interface Soak {
  readonly placed: readonly Placed<Server>[]
  /** How many requests of each kind were answered. */
  readonly counts: Readonly<Record<string, () => number>>
  readonly ledger: { readonly problems: readonly string[]; end(): Promise<void> }
  readonly problemsOf: (node: Server) => Promise<readonly string[]>
}

/** Two nodes, and the ledger of clients that do not begin yet. */
async function placedWith<Each extends Server>(
  start: (env: Record<string, string>) => Promise<Each>,
): Promise<readonly Placed<Each>[]> {
  return Promise.all(
    ['node-1', 'node-2'].map(async (id) => {
      const place = await Place.of(id, servers)
      return { place, node: await start(place.environment({ cluster: 'soak' })) }
    }),
  )
}

/** @returns what is wrong with one of the nodes */
const asked =
  <Each extends Server>(
    nodes: readonly Each[],
    problemsOf: (node: Each) => Promise<readonly string[]>,
  ): Soak['problemsOf'] =>
  (node) =>
    problemsOf(nodes.find((each) => each === node)!)

async function soakOfBroker(): Promise<Soak> {
  const placed = await placedWith((env) => BrokerServer.start({ flags: ['--segment-bytes', SEGMENT_BYTES], env }))
  const nodes = placed.map(({ node }) => node)
  const ledger = new BrokerLedger(() => nodes, 'orders', { payloadBytes: PAYLOAD_BYTES })
  assert.equal((await (await leaderAmong(() => nodes)).request('PUT', '/v1/streams/orders', '{}')).status, 201)
  ledger.begin(CLIENTS)
  const counts = { publish: () => ledger.acknowledged.size, claim: () => ledger.claimed }
  return { placed, counts, ledger, problemsOf: asked(nodes, (node) => ledger.problemsOf(node)) }
}

async function soakOfObjectStore(): Promise<Soak> {
  const placed = await placedWith((env) =>
    ObjectStoreServer.start({ env: { ...env, OBJSTORE_SEGMENT_BYTES: SEGMENT_BYTES } }),
  )
  const nodes = placed.map(({ node }) => node)
  const ledger = new ObjectLedger(() => nodes, 'photos')
  assert.equal((await (await leaderAmong(() => nodes)).request('PUT', '/photos')).status, 200)
  ledger.begin(CLIENTS)
  const counts = { answer: () => ledger.answered }
  return { placed, counts, ledger, problemsOf: asked(nodes, (node) => ledger.problemsOf(node)) }
}

async function soakOfLogStore(): Promise<Soak> {
  const placed = await placedWith((env) =>
    LogStoreServer.start({ policy: LEDGER_POLICY, env: { ...env, LOGSTORE_SEGMENT_BYTES: SEGMENT_BYTES } }),
  )
  const nodes = placed.map(({ node }) => node)
  const ledger = new LogStoreLedger(() => nodes, 'ledger')
  await leaderAmong(() => nodes)
  ledger.begin(CLIENTS)
  const counts = { batch: () => ledger.acknowledged.size }
  return { placed, counts, ledger, problemsOf: asked(nodes, (node) => ledger.problemsOf(node)) }
}

const SOAKS: Readonly<Record<string, () => Promise<Soak>>> = {
  broker: soakOfBroker,
  objectstore: soakOfObjectStore,
  logstore: soakOfLogStore,
}

const faults = what === 'all' ? Object.values(FAULTS) : [FAULTS[what]].filter((each) => each !== undefined)
assert.ok(faults.length > 0, `what goes wrong is one of: all, ${Object.keys(FAULTS).join(', ')}`)
const soakOf = SOAKS[service]
assert.ok(soakOf !== undefined, `the service is one of: ${Object.keys(SOAKS).join(', ')}`)
const { placed, counts, ledger, problemsOf } = await soakOf()
const nodes = placed.map(({ node }) => node)
const waitedMs = new Map<string, number[]>(Object.keys(counts).map((name) => [name, []]))

/** The time from `beganMs` to the first answer of each kind that comes from now on. */
async function measure(beganMs: number): Promise<void> {
  await Promise.all(
    Object.entries(counts).map(async ([name, count]) => {
      const before = count()
      await eventually(() => count() > before)
      waitedMs.get(name)!.push(performance.now() - beganMs)
    }),
  )
}

/** Problems of the node that leads; asked again when its lead ends before it has answered. */
async function problemsAmong(
  among: readonly Server[],
): Promise<{ readonly problems: readonly string[]; readonly node: Server }> {
  for (let attempt = 1; ; attempt += 1) {
    const node = await leaderAmong(() => among)
    try {
      return { problems: await problemsOf(node), node }
    } catch (error) {
      if (attempt === ATTEMPTS) throw error
    }
  }
}

for (round = 1; round <= Number(roundsGiven); round += 1) {
  const node = await leaderAmong(() => nodes)
  const faulty = placed.find((each) => each.node === node)!
  const fault = faults[(round - 1) % faults.length]!
  const beganMs = performance.now()
  await fault.begin(faulty)
  await timePasses(ON_ITS_WAY_MS)
  await measure(beganMs)
  await fault.end(faulty)
  await timePasses(SETTLE_MS)
  const waited = Array.from(waitedMs, ([name, ms]) => `first ${name} after ${Math.round(ms.at(-1)!)} ms`)
  console.log(`round ${round}, ${faulty.place.id} ${fault.what}: ${waited.join(', ')}`)
}
await ledger.end()
for (const [name, ms] of waitedMs) {
  const sorted = ms.toSorted((one, other) => one - other).map(Math.round)
  console.log(
    `${name}: least ${sorted[0]}, median ${sorted[sorted.length >> 1]}, most ${sorted.at(-1)} ms; ${counts[name]!()} in all`,
  )
}
const first = await problemsAmong(nodes)
await first.node.kill()
const others = nodes.filter((node) => node !== first.node)
const second = await problemsAmong(others)
const problems = [...ledger.problems, ...first.problems, ...second.problems]
for (const problem of problems.slice(0, 20)) console.error(problem)
console.log(problems.length === 0 ? 'nothing was lost, and nothing is there twice' : `${problems.length} problems`)
process.exitCode = problems.length === 0 ? 0 : 1
await Promise.all(others.map((node) => node.kill()))
await Promise.all(servers.map((server) => server.kill()))
process.exit()
