/**
 * kill -9 of the broker under load: publishers, workers, readers and keepers of cursors do everything that can be done, on small
 * segments, so that sealing, checkpoints, retention and the cleaning of the log go on all the time. Most starts are followed by a check while
 * all actors wait; after the others the load goes on at once.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { TieringReadinessReply } from '../../../src/broker/wire/storage-answers.ts'
import { BrokerServer } from '../../../test/support/broker.ts'
import { temporaryDirectory } from '../../../test/support/directories.ts'
import { HASTENED } from '../../../test/support/process.ts'
import type { Command } from '../../../test/support/process.ts'
import { eventually } from '../../../test/support/waiting.ts'
import { lifeMs, runRounds, underLoad } from '../rounds.ts'
import type { KillCounts, RoundOptions } from '../rounds.ts'
import { Load } from './load.ts'
import type { LoadOptions } from './load.ts'

const SEGMENT_BYTES = 1 << 20
/** Share of the starts, without those that are killed. */
const CHECKED_PERCENT = 75
export type BrokerKillOptions = LoadOptions & RoundOptions

export interface BrokerKillSummary extends KillCounts {
  readonly seed: number
  readonly operations: number
  /** Requests whose answer the kill took away. */
  readonly unanswered: number
  readonly refusals: Readonly<Record<string, number>>
  readonly records: number
  readonly deliveries: number
  readonly auditEvents: Readonly<Record<string, number>>
  /** Bytes of the log that are gone, and whether records were moved to let them go. */
  readonly droppedBytes: number
  readonly moved: boolean
}

/** @throws AssertionError when something is not as it was answered, or a start fails */
export async function runBrokerKillRounds(options: BrokerKillOptions): Promise<BrokerKillSummary> {
  const replicas = options.replicated ? [temporaryDirectory(), temporaryDirectory()] : []
  const flags = [
    '--segment-bytes',
    String(SEGMENT_BYTES),
    ...replicas.flatMap((directory) => ['--replica-dir', directory]),
    ...(options.replicated ? ['--write-quorum', '2'] : []),
  ]
  const env = HASTENED
  const server = await BrokerServer.start({ flags, env })
  const load = await Load.start(() => server.readyLine.http, { ...options, onlyWorkers: false })
  return underLoad(load, server, options, () => {
    const args = ['--http-bind', '127.0.0.1:0', '--data-dir', server.dataDirectory, ...flags]
    const command: Command = { entry: 'src/cli/mq.js', args, env }
    return killAndCheck(options, server, command, load, [server.dataDirectory, ...replicas])
  })
}

async function killAndCheck(
  { seed, rounds, liveMsMax = 2000, report }: BrokerKillOptions,
  server: BrokerServer,
  command: Command,
  load: Load,
  directories: readonly string[],
): Promise<BrokerKillSummary> {
  const { random, scene } = load
  const assertNoDamage = (): void => assert(!server.stderr.includes('quarantine'), server.stderr)
  await load.during(eventually(() => load.deliveries > 0)) // there is something to lose
  const counts = await runRounds({
    server,
    command,
    random,
    rounds,
    directories,
    liveMs: () => lifeMs(random, liveMsMax),
    live: (ms) => load.during(sleep(ms)),
    down: () => load.hold(),
    async check() {
      assertNoDamage()
      const checked = await load.checkSometimes(CHECKED_PERCENT)
      const { operations, unanswered } = scene.traffic
      return `${checked}${load.records} records, ${load.deliveries} deliveries, ${operations} operations, ${unanswered} unanswered`
    },
    ...(report && { report }),
  })

  await load.finish()
  assertNoDamage()
  const { eligible_segments, blocked } = await server.get('/streams/plain/tiering/readiness', TieringReadinessReply)
  const bases = [...eligible_segments, ...blocked].map(({ segment }) => Number.parseInt(segment, 16))
  const [oldest] = eligible_segments
  await server.stop()
  return {
    seed,
    ...counts,
    operations: scene.traffic.operations,
    unanswered: scene.traffic.unanswered,
    refusals: scene.traffic.refusals,
    records: load.records,
    deliveries: load.deliveries,
    auditEvents: scene.audit.counts,
    droppedBytes: Math.min(...bases),
    moved: oldest !== undefined && oldest.first_offset > 0,
  }
}
