/**
 * kill -9 under load, again and again, on one data directory: connections send batches of every kind until each is acknowledged,
 * the process is killed at random moments (every so often while it is still starting), and after every start the store is asked
 * for what it acknowledged.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { LogStoreServer, temporaryDirectory } from '../../test/support/server.ts'
import { Load, UNLIMITED, bundlesOf } from './load.ts'
import type { LoadOptions } from './load.ts'

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** One start in so many is killed before it is ready. */
const STARTS_PER_EARLY_KILL = 5
const EARLY_KILL_MS_MAX = 1200

export interface KillOptions extends LoadOptions {
  readonly rounds: number
  /** No round is begun after it. */
  readonly withinMs?: number
  /** Between a start that is ready and the kill. */
  readonly liveMsMax?: number
  /** With two replica directories and a write quorum of two, of which one, any, is wiped every so often. */
  readonly replicated?: boolean
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
  readonly bundles: number
  readonly startMs: { readonly mean: number; readonly max: number }
}

/** @throws AssertionError when something acknowledged is missing, stored twice or changed, or a start fails */
export async function runKillRounds(options: KillOptions): Promise<KillSummary> {
  const replicas = options.replicated ? [temporaryDirectory(), temporaryDirectory()] : []
  const env = { LOGSTORE_SEGMENT_BYTES: String(1 << 20), ...(options.replicated && replicatedIn(replicas)) }
  const server = await LogStoreServer.start({ policy: [UNLIMITED], env })
  const load = Load.start(server, options)
  try {
    return await killAndCheck(options, server, load, replicas, env)
  } catch (error) {
    options.report?.(server.stderr)
    throw error
  } finally {
    load.abandon()
  }
}

async function killAndCheck(
  { seed, rounds, withinMs = Infinity, liveMsMax = 600, report }: KillOptions,
  server: LogStoreServer,
  load: Load,
  replicas: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<KillSummary> {
  const { random } = load
  const directories = [server.dataDirectory, ...replicas]
  const dueMs = performance.now() + withinMs
  const startsMs: number[] = []
  let killsWhileStarting = 0
  for (let round = 1; round <= rounds && performance.now() < dueMs; round++) {
    const liveMs = random.between(0, liveMsMax)
    await load.during(sleep(liveMs))
    await server.kill()
    // Only what a start made whole again may be lost next: the others hold every record by then.
    const wiped = replicas.length > 0 && random.between(0, 1) === 0 ? directories[random.between(0, 2)]! : null
    if (wiped !== null) rmSync(wiped, { recursive: true })
    if (random.between(1, STARTS_PER_EARLY_KILL) === 1) {
      await killWhileStarting(server, random.between(0, EARLY_KILL_MS_MAX), env)
      killsWhileStarting++
    }
    const startedMs = performance.now()
    await server.startAgain()
    startsMs.push(performance.now() - startedMs)
    const matched = await load.check()
    const start = `ready in ${startsMs.at(-1)!.toFixed(0)} ms`
    report?.(`${round}: killed after ${liveMs} ms, ${wiped ? `${wiped} wiped, ` : ''}${start}, ${matched} records`)
  }

  await load.stop()
  await load.checkEverything()
  const bundles = await bundlesOf(server)
  assert(!server.stderr.includes('quarantine'), server.stderr)
  await server.restart() // stopped in order, it has the same
  await load.check()
  await server.stop()
  return {
    seed,
    kills: startsMs.length + killsWhileStarting,
    killsWhileStarting,
    batches: load.batches.sent.length,
    records: load.batches.acknowledgedRecords,
    unanswered: load.unanswered,
    bundles,
    startMs: { mean: startsMs.reduce((sum, ms) => sum + ms, 0) / startsMs.length, max: Math.max(...startsMs) },
  }
}

const replicatedIn = (replicas: readonly string[]): Record<string, string> => ({
  LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
  LOGSTORE_WAL_REPLICA_PATHS: replicas.join(','),
  LOGSTORE_WAL_WRITE_QUORUM: '2',
})

async function killWhileStarting(
  { dataDirectory }: LogStoreServer,
  afterMs: number,
  env: Readonly<Record<string, string>>,
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
