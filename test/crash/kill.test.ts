import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { it } from 'node:test'
import { runKillRounds } from '../../scripts/soak/kill.ts'

const ROUNDS = 20
/** On a busy machine fewer rounds are made rather than the suite held up. */
const WITHIN_MS = 40_000

it('has every acknowledged record exactly once after kill -9 under load, again and again', async (context) => {
  const seed = Number(process.env['SOAK_SEED'] ?? randomInt(2 ** 32))
  context.diagnostic(`SOAK_SEED=${seed} makes the same choices`)
  const summary = await runKillRounds({ rounds: ROUNDS, withinMs: WITHIN_MS, seed })
  context.diagnostic(JSON.stringify(summary))
  assert(summary.kills >= 2)
  assert(summary.bundles > 0, 'segments were sealed, and became bundles, on the way')
})
