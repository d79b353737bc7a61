/**
 * kill -9 of the log store under load: connections send batches of every kind until each is acknowledged, and after every start
 * the store is asked for what it acknowledged.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from '../../../test/support/process.ts'
import { eventually } from '../../../test/support/waiting.ts'
import { temporaryDirectory } from '../../../test/support/directories.ts'
import { LogStoreServer } from '../../../test/support/logstore.ts'
import { compactionsIn, mergesIn } from './compactions.ts'
import type { Compactions } from './compactions.ts'
import { Load, UNLIMITED, bundlesOf } from './load.ts'
import type { LoadOptions } from './load.ts'
import { runRounds, underLoad } from '../rounds.ts'
import type { KillCounts, RoundOptions } from '../rounds.ts'

/** From when a compaction is seen to the kill: writing, reading back, renaming and removing take about so long. */
const INTO_COMPACTION_MS_MAX = 20

/** Bundles are merged while none waits to be compacted: a load that compaction keeps up with. */
const GENTLE: Partial<LoadOptions> = { connections: 4, recordsPerBatch: 10, recordBytes: 750, pauseMs: 50 }

export interface KillOptions extends LoadOptions, RoundOptions {
  /** With two replica directories and a write quorum of two, of which one, any, is wiped every so often. */
  readonly replicated?: boolean
  /** Each kill waits until a bundle is being compacted; in the end every directory has compacted bundles. What can be merged is. */
  readonly compacting?: boolean
  /** Each kill waits until bundles are being merged; in the end every directory has merged bundles. */
  readonly merging?: boolean
}

export interface KillSummary extends KillCounts {
  readonly seed: number
  readonly batches: number
  readonly records: number
  /** Requests whose answer the kill took away. */
  readonly unanswered: number
  readonly bundles: number
  /** Kills that left a compaction half done in some directory. */
  readonly killsInCompaction: number
  /** Kills that left a merge half done in some directory. */
  readonly killsInMerge: number
}

/** @throws AssertionError when something acknowledged is missing, stored twice or changed, or a start fails */
export async function runKillRounds(options: KillOptions): Promise<KillSummary> {
  const replicas = options.replicated ? [temporaryDirectory(), temporaryDirectory()] : []
  const env = {
    LOGSTORE_SEGMENT_BYTES: String(1 << 20),
    ...(options.replicated && replicatedIn(replicas)),
  }
  const server = await LogStoreServer.start({ policy: [UNLIMITED], env })
  const load = Load.start(server, { ...(options.merging && GENTLE), ...options })
  return underLoad(load, server, options, () => killAndCheck(options, server, load, replicas, env))
}

async function killAndCheck(
  { seed, rounds, liveMsMax = 600, compacting = false, merging = false, report }: KillOptions,
  server: LogStoreServer,
  load: Load,
  replicas: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<KillSummary> {
  const { random } = load
  const { dataDirectory } = server
  const settings = { LOGSTORE_BIND_ADDRESS: '127.0.0.1:0', LOGSTORE_DATA_DIR: dataDirectory, ...env }
  const command: Command = { entry: 'src/start.js', args: ['--services', 'logstore'], env: settings }
  const directories = [dataDirectory, ...replicas]
  const areUnderWay = (): boolean => directories.some((each) => compactionsIn(each).underWay > 0)
  const areMerging = (): boolean => directories.some((each) => mergesIn(each).underWay > 0)
  let killsInCompaction = 0
  let killsInMerge = 0
  await load.during(eventually(async () => (await bundlesOf(server)) > 0)) // what is killed has bundles, too
  const counts = await runRounds({
    server,
    command,
    random,
    rounds,
    directories,
    liveMs: () => random.between(0, compacting || merging ? INTO_COMPACTION_MS_MAX : liveMsMax),
    live: async (ms) => {
      if (compacting) await load.during(eventually(areUnderWay))
      if (merging) await load.during(eventually(areMerging))
      await load.during(sleep(ms))
    },
    down: async () => {
      if (areUnderWay()) killsInCompaction++
      if (areMerging()) killsInMerge++
    },
    check: async () => `${await load.check()} records`,
    ...(report && { report }),
  })

  await load.stop()
  if (compacting) await eventually(() => directories.every((each) => isCompacted(compactionsIn(each))))
  if (merging) await eventually(() => directories.every((each) => isCompacted(mergesIn(each))))
  await load.checkEverything()
  const bundles = await bundlesOf(server)
  assert(!server.stderr.includes('quarantine'), server.stderr)
  await server.restart() // stopped in order, it has the same
  await load.check()
  await server.stop()
  return {
    seed,
    ...counts,
    batches: load.batches.sent.length,
    records: load.batches.acknowledgedRecords,
    unanswered: load.unanswered,
    bundles,
    killsInCompaction,
    killsInMerge,
  }
}

const isCompacted = ({ underWay, done }: Compactions): boolean => underWay === 0 && done > 0

const replicatedIn = (replicas: readonly string[]): Record<string, string> => ({
  LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
  LOGSTORE_WAL_REPLICA_PATHS: replicas.join(','),
  LOGSTORE_WAL_WRITE_QUORUM: '2',
})
