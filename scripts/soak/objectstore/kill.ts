/**
 * kill -9 of the object store under load: everything that can be done with objects, on small segments, so that sealing, checkpoints and cleaning go on
 * all the time. Most starts are followed by a check while all actors wait; after the others the load goes on at once.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ObjectStoreServer } from '../../../test/support/objectstore.ts'
import { HASTENED } from '../../../test/support/process.ts'
import type { Command } from '../../../test/support/process.ts'
import { lifeMs, runRounds, underLoad } from '../rounds.ts'
import type { KillCounts, RoundOptions } from '../rounds.ts'
import { Load } from './load.ts'
import type { LoadOptions } from './load.ts'

const SEGMENT_BYTES = 1 << 20
/** Share of the starts, without those that are killed. */
const CHECKED_PERCENT = 80
export type ObjectKillOptions = LoadOptions & RoundOptions

export interface ObjectKillSummary extends KillCounts {
  readonly seed: number
  readonly operations: number
  /** Requests whose answer the kill took away. */
  readonly unanswered: number
  readonly refusals: Readonly<Record<string, number>>
  readonly keys: number
  /** Bytes of the log: all that were ever written, those that are left, and those of them that are needed. */
  readonly writtenBytes: number
  readonly logBytes: number
  readonly liveBytes: number
}

/** @throws AssertionError when something is not as it was answered, or a start fails */
export async function runObjectKillRounds(options: ObjectKillOptions): Promise<ObjectKillSummary> {
  const env = { ...HASTENED, OBJSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES) }
  const server = await ObjectStoreServer.start({ env })
  const load = await Load.start(server, options)
  return underLoad(load, server, options, () => killAndCheck(options, server, env, load))
}

async function killAndCheck(
  { seed, rounds, liveMsMax = 2000, report }: ObjectKillOptions,
  server: ObjectStoreServer,
  env: Command['env'],
  load: Load,
): Promise<ObjectKillSummary> {
  const { random, scene } = load
  const { traffic } = scene
  const assertWell = (): void => assert(!/quarantine|request failed/.test(server.stderr), server.stderr)
  const directories = [server.dataDirectory]
  const settings = { OBJSTORE_BIND_ADDRESS: '127.0.0.1:0', OBJSTORE_DATA_DIR: server.dataDirectory, ...env }
  await load.untilWorked(1) // there is something to lose
  const counts = await runRounds({
    server,
    command: { entry: 'src/start.js', args: ['--services', 'objectstore'], env: settings },
    random,
    rounds,
    directories,
    liveMs: () => lifeMs(random, liveMsMax),
    async live(ms) {
      await load.during(sleep(ms))
      assertWell()
    },
    down: () => load.hold(),
    async check() {
      const checked = await load.checkSometimes(CHECKED_PERCENT)
      assertWell()
      const [logBytes, liveBytes, end] = await load.gauges('log_bytes', 'live_bytes', 'log_committed_position')
      const log = `log ${mib(logBytes!)} of ${mib(end!)} MiB, ${mib(liveBytes!)} needed`
      return `${checked}${scene.keys.length} keys, ${traffic.operations} operations, ${traffic.unanswered} unanswered, ${log}`
    },
    ...(report && { report }),
  })

  await load.finish()
  await load.giveBackSpace(SEGMENT_BYTES)
  assertWell()
  await server.restart()
  await load.finish()
  assertWell()
  const [logBytes, liveBytes, end] = await load.gauges('log_bytes', 'live_bytes', 'log_committed_position')
  await server.stop()
  return {
    seed,
    ...counts,
    operations: traffic.operations,
    unanswered: traffic.unanswered,
    refusals: traffic.refusals,
    keys: scene.keys.length,
    writtenBytes: end!,
    logBytes: logBytes!,
    liveBytes: liveBytes!,
  }
}

const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0)
