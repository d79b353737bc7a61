import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { seedOf } from '../../support/seed.ts'
import { runKillRounds } from '../../../scripts/soak/logstore/kill.ts'
import type { KillOptions, KillSummary } from '../../../scripts/soak/logstore/kill.ts'
import { mergesIn } from '../../../scripts/soak/logstore/compactions.ts'
import { Load, UNLIMITED, bundlesOf } from '../../../scripts/soak/logstore/load.ts'
import { LogStoreServer } from '../../support/logstore.ts'
import { eventually } from '../../support/waiting.ts'

/** `npm run soak` makes as many rounds as one likes, and of all combinations. */
const ROUNDS = 2
/** Few records in many frames: checks take their time by the record. */
const BUNDLES_MERGED = 9
const LOAD = { recordsPerBatch: 10, recordBytes: 750, pauseMs: 25, connections: 4 }

async function run(
  context: TestContext,
  options: Pick<KillOptions, 'replicated' | 'compacting'> = {},
): Promise<KillSummary> {
  const seed = seedOf(context)
  const summary = await runKillRounds({ ...LOAD, ...options, rounds: ROUNDS, seed })
  context.diagnostic(JSON.stringify(summary))
  return summary
}

describe('a log store killed under load with kill -9, again and again', () => {
  it('starts each time and has every acknowledged record exactly once', async (context) => {
    const { kills, bundles } = await run(context)
    assert(kills >= ROUNDS)
    assert(bundles > 0, 'segments were sealed, and became bundles, on the way')
  })

  it('does so while it compacts bundles, and when one of three directories, the primary or a replica, was wiped meanwhile', async (context) => {
    const { kills, killsInCompaction } = await run(context, { replicated: true, compacting: true })
    assert(kills >= ROUNDS)
    assert(killsInCompaction > 0, 'one kill at least left a compaction half done')
  })

  it('does so while it merges bundles', async (context) => {
    const env = { LOGSTORE_SEGMENT_BYTES: String(1 << 20), LOGSTORE_MERGING: 'on' }
    const server = await LogStoreServer.start({ policy: [UNLIMITED], env })
    const load = Load.start(server, {
      seed: seedOf(context),
      connections: 4,
      recordsPerBatch: 4,
      recordBytes: 20_000,
      pauseMs: 0,
    })
    await load.during(eventually(async () => (await bundlesOf(server)) >= BUNDLES_MERGED))
    await load.stop()
    await eventually(() => mergesIn(server.dataDirectory).underWay > 0)
    await server.kill()
    await server.startAgain()
    await load.check()
    await eventually(() => {
      const { underWay, done } = mergesIn(server.dataDirectory)
      return underWay === 0 && done > 0
    })
    await load.checkEverything()
    await server.stop()
  })
})
