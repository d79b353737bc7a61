/**
 * kill -9 under load, again and again, on one data directory: connections send batches of every kind until each is acknowledged,
 * the process is killed at random moments (every so often while it is still starting), and after every start the store is asked
 * for what it acknowledged.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { mix32, Random } from '../../bench/load/random.ts'
import { LogStoreServer, policyTenant } from '../../test/support/server.ts'
import type { PolicyTenant } from '../../test/support/server.ts'
import { Batches, ROUTES } from './batches.ts'
import { checkAll, checkCount, checkSample } from './checks.ts'
import type { Ask, QueryReply } from './checks.ts'
import { Sender } from './sender.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const SAMPLED_BATCHES = 12
/** One start in so many is killed before it is ready. */
const STARTS_PER_EARLY_KILL = 5
const EARLY_KILL_MS_MAX = 1200

export interface KillOptions {
  readonly rounds: number
  readonly seed: number
  readonly connections?: number
  readonly recordsPerBatch?: number
  /** Between a start that is ready and the kill. */
  readonly liveMsMax?: number
  readonly pauseMs?: number
  readonly env?: Readonly<Record<string, string>>
  readonly report?: (line: string) => void
}

export interface KillSummary {
  readonly seed: number
  readonly kills: number
  readonly killsWhileStarting: number
  readonly batches: number
  readonly records: number
  /** Requests whose answer the kill took away. */
  readonly unanswered: number
  /** Records that came again after they had been stored. */
  readonly bundles: number
  readonly startMs: { readonly mean: number; readonly max: number }
}

/** Nothing is refused for being too much. */
export const UNLIMITED: PolicyTenant = policyTenant('local', 'local-dev-token', {
  records: null,
  bytes: null,
  concurrent_requests: null,
})

export const askOf =
  (server: LogStoreServer): Ask =>
  async (query) =>
    (await server.request('/v1/query', query)).ok<QueryReply>()

/** @throws AssertionError when something acknowledged is missing, stored twice or changed, or a start fails */
export async function runKillRounds(options: KillOptions): Promise<KillSummary> {
  const { rounds, seed, connections = 8, recordsPerBatch = 40, liveMsMax = 600, pauseMs = 2, report } = options
  const random = new Random(mix32(seed))
  const batches = new Batches(seed, recordsPerBatch)
  const server = await LogStoreServer.start({
    policy: [UNLIMITED],
    env: { LOGSTORE_SEGMENT_BYTES: String(1 << 20), ...options.env },
  })
  const ask = askOf(server)
  const authority = (): string => server.readyLine.http
  const senders = Array.from(
    { length: connections },
    (_, n) => new Sender({ batches, route: ROUTES[n % ROUTES.length]!, authority, pauseMs }),
  )
  const sending = Promise.all(senders.map((sender) => sender.run()))
  const failed = sending.then(() => {
    throw new Error('the senders stopped by themselves')
  })
  failed.catch(() => {}) // seen by the race below, or by the end

  const startsMs: number[] = []
  let killsWhileStarting = 0
  for (let round = 1; round <= rounds; round++) {
    const liveMs = random.between(0, liveMsMax)
    await Promise.race([sleep(liveMs), failed])
    await server.kill()
    if (random.between(1, STARTS_PER_EARLY_KILL) === 1) {
      await killWhileStarting(server, random.between(0, EARLY_KILL_MS_MAX), options.env)
      killsWhileStarting++
    }
    const startedMs = performance.now()
    await server.startAgain()
    startsMs.push(performance.now() - startedMs)
    const matched = await checkCount(ask, batches)
    await checkSample(ask, batches, random, SAMPLED_BATCHES)
    report?.(`round ${round}: killed after ${liveMs} ms, ready in ${startsMs.at(-1)!.toFixed(0)} ms, ${matched} records`)
  }

  for (const sender of senders) sender.stop()
  await sending
  await checkEverything(ask, batches)
  const bundles = await bundlesOf(server)
  await server.restart() // stopped in order, it has the same
  await checkEverything(ask, batches)
  await server.stop()
  assert(!server.stderr.includes('quarantine'), server.stderr)
  return {
    seed,
    kills: rounds + killsWhileStarting,
    killsWhileStarting,
    batches: batches.sent.length,
    records: batches.acknowledgedRecords,
    unanswered: senders.reduce((sum, { unanswered }) => sum + unanswered, 0),
    bundles,
    startMs: { mean: startsMs.reduce((sum, ms) => sum + ms, 0) / startsMs.length, max: Math.max(...startsMs) },
  }
}

async function checkEverything(ask: Ask, batches: Batches): Promise<void> {
  assert.equal(batches.acknowledgedRecords, batches.sentRecords)
  assert.equal(await checkCount(ask, batches), batches.sentRecords)
  await checkAll(ask, batches)
}

async function killWhileStarting(
  { dataDirectory }: LogStoreServer,
  afterMs: number,
  env: KillOptions['env'],
): Promise<void> {
  const settings = { LOGSTORE_BIND_ADDRESS: '127.0.0.1:0', LOGSTORE_DATA_DIR: dataDirectory, ...env }
  const child = spawn(process.execPath, [MAIN, '--services', 'logstore'], {
    env: { ...process.env, ...settings },
    stdio: 'ignore',
  })
  const exited = once(child, 'exit')
  await sleep(afterMs)
  child.kill('SIGKILL')
  const [, signal] = await exited
  assert.equal(signal, 'SIGKILL', 'it ended by itself while it was starting')
}

async function bundlesOf(server: LogStoreServer): Promise<number> {
  const { text } = await server.request('/metrics', null)
  return Number(/^logstore_bundles (\d+)$/m.exec(text)?.[1])
}
