import assert from 'node:assert/strict'
import { it } from 'node:test'
import { runReplicateRounds } from '../../../scripts/soak/broker/replicate.ts'
import { seedOf } from '../../support/seed.ts'

const ROUNDS = 2

it('two brokers that replicate to each other, killed with kill -9 under load, have each record once', async (context) => {
  const summary = await runReplicateRounds({ seed: seedOf(context), rounds: ROUNDS, liveMsMax: 600 })
  context.diagnostic(JSON.stringify(summary))
  assert.equal(summary.kills, ROUNDS)
  assert(summary.records > 0)
})
