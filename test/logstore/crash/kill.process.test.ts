import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { seedOf } from '../../support/seed.ts'
import { runKillRounds } from '../../../scripts/soak/logstore/kill.ts'
import type { KillOptions, KillSummary } from '../../../scripts/soak/logstore/kill.ts'

/** `npm run soak` makes any number of rounds, in all combinations. */
const ROUNDS = 2
/** Few records in many frames: the time of a check grows with the records. */
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
})
