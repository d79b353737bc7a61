/**
 * What a cluster costs, and how long it takes to do its work: three NATS servers and two nodes of each service beside a node alone, all on this machine, so
 * everything that is written is written seven times to one disk. The load goes to the node alone and to the leader in turn.
 *
 *   rates     publishes over 64 connections and over one, OTLP batches of 512 records, PUTs of 4 KiB
 *   copy      a second node of the object store joins when the first holds `--gib`: how fast it copies, and what clients of the leader wait meanwhile.
 *             It is stopped every other load, as this machine is not the same from one minute to the next. Its disk is another one, as on another
 *             machine, when `--second-dir` names one
 *   takeover  the leader of the log store is killed when both nodes hold `--records`: how long until the other one answers
 *
 * Exits with 0 when all was measured, 1 when something failed, 2 for bad usage or without nats-server.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import type { LoadResult } from '../../bench/load/result.ts'
import { servicePolicy } from '../../bench/support/policy.ts'
import { BrokerServer } from '../../test/support/broker.ts'
import { clusterOf, leaderAmong, nodeEnvironment } from '../../test/support/cluster.ts'
import { entryFile } from '../../test/support/entry.ts'
import { killAtEnd } from '../../test/support/left-behind.ts'
import { LEDGER_HEADERS } from '../../test/support/logstore-ledger.ts'
import { LogStoreServer } from '../../test/support/logstore.ts'
import { findNatsServer, startNatsServers } from '../../test/support/nats-server.ts'
import type { NatsServer } from '../../test/support/nats-server.ts'
import { ObjectStoreServer } from '../../test/support/objectstore.ts'
import { environmentOf } from '../../test/support/process.ts'
import type { RunningService } from '../../test/support/process.ts'
import { bytesBelow } from './disk.ts'
import { load } from './load.ts'
import { medianOf, medianRatio, round3 } from './medians.ts'
import { scratchDirectory } from './server.ts'

const PARTS = ['rates', 'copy', 'takeover'] as const
const IDS = ['node-1', 'node-2'] as const
const GIB = 1 << 30
/** Seldom enough to cost the leader nothing. */
const FOLLOWER_POLL_MS = 250
const LACKS_BYTES_MAX = 8 << 20
/** Until what was just written no longer keeps the disk busy. */
const SETTLE_MS = 10_000

const USAGE = `usage: node scripts/compare/cluster.ts [options]

  --rounds 3          of rates, with a first one that is not counted, and of the loads before and after a copy
  --duration 5s       of each load
  --gib 10            that copy begins with
  --copy-rate 200     MiB a second that the first node of copy gives
  --second-dir DIR    where the second node of copy keeps its data (default: beside the first)
  --records 10000000  that takeover begins with
  --parts LIST        of ${PARTS.join(', ')}
`

const options = {
  rounds: { type: 'string', default: '3' },
  duration: { type: 'string', default: '5s' },
  gib: { type: 'string', default: '10' },
  'copy-rate': { type: 'string', default: '200' },
  'second-dir': { type: 'string', default: tmpdir() },
  records: { type: 'string', default: '10000000' },
  parts: { type: 'string', default: PARTS.join(',') },
} satisfies ParseArgsOptionsConfig

function parse() {
  try {
    const { values } = parseArgs({ options })
    const { rounds, gib, records, copyRate } = {
      rounds: Number(values.rounds),
      gib: Number(values.gib),
      records: Number(values.records),
      copyRate: Number(values['copy-rate']),
    }
    const parts = values.parts.split(',')
    const known: readonly string[] = PARTS
    const isUsable =
      rounds >= 1 && gib > 0 && copyRate > 0 && records >= 1 && parts.every((part) => known.includes(part))
    const secondDir = resolve(values['second-dir'])
    return isUsable ? { rounds, gib, copyRate, records, parts, secondDir, duration: values.duration } : null
  } catch {
    return null
  }
}

const asked = parse()
if (asked === null || findNatsServer() === null) {
  process.stderr.write(asked === null ? USAGE : 'there is no nats-server: run `npm run nats-server`\n')
  process.exit(2)
}
const root = scratchDirectory(join(tmpdir(), 'trilog-cluster-'))
const policy = servicePolicy(root)

/** A load, and what starts the service that it is for. */
interface Question {
  readonly name: string
  readonly start: (env: Readonly<Record<string, string>>) => Promise<RunningService>
  readonly args: readonly string[]
}

/** As the scripts of package.json start them. */
const AS_USERS = { NODE_OPTIONS: '--v8-pool-size=0' }

const startBroker = (env: Readonly<Record<string, string>>): Promise<BrokerServer> =>
  BrokerServer.start({ env: { ...AS_USERS, ...env } })
const startObjectStore = (env: Readonly<Record<string, string>>): Promise<ObjectStoreServer> =>
  ObjectStoreServer.start({ env: { ...AS_USERS, ...env } })
const startLogStore = (env: Readonly<Record<string, string>>): Promise<LogStoreServer> =>
  LogStoreServer.start({ env: { ...AS_USERS, ...policy, ...env } })

const QUESTIONS: readonly Question[] = [
  { name: 'publish, 64 connections', start: startBroker, args: ['broker', '--connections', '64'] },
  { name: 'publish, 1 connection', start: startBroker, args: ['broker', '--connections', '1'] },
  { name: 'OTLP, batches of 512', start: startLogStore, args: ['logstore', '--connections', '8'] },
  { name: 'PUT of 4 KiB, 64 connections', start: startObjectStore, args: ['objectstore', '--connections', '64'] },
]

const loadAt = (node: RunningService, args: readonly string[]): Promise<LoadResult> =>
  load([...args, '--url', node.url], () => performance.now())

const clusterEnvironment = (servers: readonly NatsServer[], id: string): Record<string, string> =>
  nodeEnvironment(servers, id, { cluster: 'compare' })

/** Resolves when the node with this id follows: it lacks no more than what came since it last said where it is. */
async function waitUntilCaughtUp(leader: RunningService, id: string): Promise<void> {
  for (;;) {
    const { nodes } = await clusterOf(leader, LEDGER_HEADERS)
    const found = nodes.find(({ node }) => node === id)
    if (found?.role === 'follower' && found.position > 0 && found.behind.bytes < LACKS_BYTES_MAX) return
    await sleep(FOLLOWER_POLL_MS)
  }
}

async function ratesOf(servers: readonly NatsServer[]): Promise<object[]> {
  const rows: object[] = []
  for (const { name, start, args } of QUESTIONS) {
    const alone = await start({})
    const nodes = await Promise.all(IDS.map((id) => start(clusterEnvironment(servers, id))))
    const places = [async () => alone, () => leaderAmong(() => nodes)]
    const rates = places.map((): number[] => [])
    const p50 = places.map((): number[] => [])
    for (let round = 0; round <= asked!.rounds; round += 1) {
      for (const [i, node] of places.entries()) {
        const { throughput, latencyMs } = await loadAt(await node(), [...args, '--duration', asked!.duration])
        if (round === 0) continue // both sides compile their code
        rates[i]!.push(throughput.unitsPerSecond)
        p50[i]!.push(latencyMs.p50)
      }
    }
    rows.push({
      load: name,
      'alone/s': Math.round(medianOf(rates[0]!)),
      'cluster/s': Math.round(medianOf(rates[1]!)),
      share: medianRatio(rates[1]!, rates[0]!),
      'p50 alone, ms': round3(medianOf(p50[0]!)),
      'p50 in the cluster, ms': round3(medianOf(p50[1]!)),
    })
    await Promise.all([alone, ...nodes].map((node) => node.kill()))
  }
  return rows
}

async function copyOf(servers: readonly NatsServer[]): Promise<object[]> {
  const { gib, copyRate, duration, rounds } = asked!
  const first = await startObjectStore({
    ...clusterEnvironment(servers, IDS[0]),
    TRILOG_CLUSTER_COPY_BYTES_PER_SECOND: String(Math.round(copyRate * 2 ** 20)),
  })
  await leaderAmong(() => [first])
  const objects = Math.ceil((gib * GIB) / (8 << 20))
  await loadAt(first, ['objectstore', '--object-size', '8MiB', '--connections', '4', '--batches', String(objects)])
  const clients = ['objectstore', '--connections', '4', '--rate', '200', '--warm-up', '1s']
  await sleep(SETTLE_MS)
  const p99 = async (): Promise<number> => (await loadAt(first, [...clients, '--duration', duration])).latencyMs.p99
  const before = await inTurn(rounds, p99)
  const heldBytes = bytesBelow(first.dataDirectory)
  const secondRoot = scratchDirectory(join(asked!.secondDir, 'trilog-second-'))
  const env = {
    ...AS_USERS,
    ...clusterEnvironment(servers, IDS[1]),
    OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
    OBJSTORE_DATA_DIR: join(secondRoot, 'data'),
  }
  const second = new Joining(first, env)
  const stopped: number[] = []
  const meanwhile: number[] = []
  while (second.isCopying) {
    meanwhile.push(await p99())
    if (second.isCopying) stopped.push(await second.stoppedFor(p99))
  }
  await second.joined
  const seconds = second.ranMs / 1000
  const after = await inTurn(rounds, p99)
  await Promise.all([first.kill(), second.kill()])
  return [
    {
      'GiB copied': round3(heldBytes / GIB),
      seconds: round3(seconds),
      'MB/s': Math.round(heldBytes / 1e6 / seconds),
      'p99 before, ms': round3(medianOf(before)),
      'p99 meanwhile, ms': round3(medianOf(meanwhile)),
      'p99 while the copy is stopped, ms': round3(medianOf(stopped)),
      turns: stopped.length,
      'p99 after, ms': round3(medianOf(after)),
    },
  ]
}

/** The second node of the object store, which is not ready before it has copied what the first one holds. */
class Joining {
  readonly joined: Promise<void>
  isCopying = true
  /** Time that the copy took, without the time in which it was stopped. */
  ranMs = 0
  readonly #process: ChildProcess
  #beganMs = performance.now()

  constructor(first: RunningService, env: Readonly<Record<string, string>>) {
    this.#process = spawn(process.execPath, [entryFile('src/start.js'), '--services', 'objectstore'], {
      env: environmentOf(env),
      stdio: 'ignore',
    })
    killAtEnd(this.#process, () => this.#process.kill('SIGKILL'))
    this.joined = this.#join(first)
  }

  async #join(first: RunningService): Promise<void> {
    await waitUntilCaughtUp(first, IDS[1])
    this.isCopying = false
    this.ranMs += performance.now() - this.#beganMs
  }

  async stoppedFor<Result>(run: () => Promise<Result>): Promise<Result> {
    this.#process.kill('SIGSTOP')
    this.ranMs += performance.now() - this.#beganMs
    const result = await run()
    this.#beganMs = performance.now()
    this.#process.kill('SIGCONT')
    return result
  }

  async kill(): Promise<void> {
    this.#process.kill('SIGKILL')
    await once(this.#process, 'exit')
  }
}

async function inTurn<Result>(times: number, run: () => Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  while (results.length < times) results.push(await run())
  return results
}

async function takeoverOf(servers: readonly NatsServer[]): Promise<object[]> {
  const nodes = await Promise.all(IDS.map((id) => startLogStore(clusterEnvironment(servers, id))))
  const leader = await leaderAmong(() => nodes)
  const batches = Math.ceil(asked!.records / 512)
  await loadAt(leader, ['logstore', '--connections', '8', '--batches', String(batches)])
  const follower = nodes.find((node) => node !== leader)!
  await waitUntilCaughtUp(leader, leader === nodes[0] ? IDS[1] : IDS[0])
  const beganMs = performance.now()
  await leader.kill()
  await leaderAmong(() => [follower])
  await loadAt(follower, ['logstore', '--connections', '1', '--batches', '1'])
  const ms = performance.now() - beganMs
  await follower.kill()
  return [{ records: batches * 512, 'first batch stored after, ms': Math.round(ms) }]
}

const MEASURES = { rates: ratesOf, copy: copyOf, takeover: takeoverOf }
for (const part of PARTS) {
  if (!asked.parts.includes(part)) continue
  const servers = await startNatsServers(3)
  console.table(await MEASURES[part](servers))
  await Promise.all(servers.map((server) => server.kill()))
}
process.exit() // what still runs ends with it
