import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { seedOf } from '../../support/seed.ts'
import { runKillRounds } from '../../../scripts/soak/logstore/kill.ts'
import type { KillSummary } from '../../../scripts/soak/logstore/kill.ts'

/** `npm run soak` makes as many rounds as one likes. */
const LOCAL = { rounds: 2 }
const REPLICATED = { rounds: 2 }
const COMPACTING = { rounds: 2 }
const MERGING = { rounds: 2 }
/** Few records in many frames: checks take their time by the record. */
const LOAD = { recordsPerBatch: 10, recordBytes: 750, pauseMs: 25, connections: 4 }

async function run(
  context: TestContext,
  options: typeof LOCAL & { replicated?: boolean; compacting?: boolean; merging?: boolean },
): Promise<KillSummary> {
  const seed = seedOf(context)
  const summary = await runKillRounds({ ...LOAD, ...options, seed })
  context.diagnostic(JSON.stringify(summary))
  return summary
}

describe('a log store killed under load with kill -9, again and again', () => {
  it('starts each time and has every acknowledged record exactly once', async (context) => {
    const { kills, bundles } = await run(context, LOCAL)
    assert(kills >= LOCAL.rounds)
    assert(bundles > 0, 'segments were sealed, and became bundles, on the way')
  })

  it('does so when one of three directories, the primary or a replica, was wiped meanwhile', async (context) => {
    const { kills } = await run(context, { ...REPLICATED, replicated: true })
    assert(kills >= REPLICATED.rounds)
  })

  for (const replicated of [false, true]) {
    it(`does so when it compacts bundles, ${replicated ? 'in three directories' : 'in one directory'}`, async (context) => {
      const { kills, killsInCompaction } = await run(context, { ...COMPACTING, replicated, compacting: true })
      assert(kills >= COMPACTING.rounds)
      assert(killsInCompaction > 0, 'one kill at least left a compaction half done')
    })
  }

  it('does so when it merges bundles, in three directories', async (context) => {
    const { kills, killsInMerge } = await run(context, { ...MERGING, replicated: true, merging: true })
    assert(kills >= MERGING.rounds)
    assert(killsInMerge > 0, 'one kill at least left a merge half done')
  })
})
