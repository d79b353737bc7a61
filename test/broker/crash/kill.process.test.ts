import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { seedOf } from '../../support/seed.ts'
import { runBrokerKillRounds } from '../../../scripts/soak/broker/kill.ts'
import { DEAD_STREAMS, WORK_STREAMS } from '../../../scripts/soak/broker/plan.ts'
import type { BrokerKillOptions, BrokerKillSummary } from '../../../scripts/soak/broker/kill.ts'

const LOCAL = { rounds: 3 }
const STREAMS_OF_THE_PLAN = WORK_STREAMS.length + DEAD_STREAMS.length
const REPLICATED = { rounds: 2 }

async function run(context: TestContext, options: Omit<BrokerKillOptions, 'seed'>): Promise<BrokerKillSummary> {
  const seed = seedOf(context)
  const summary = await runBrokerKillRounds({ ...options, seed, liveMsMax: 600, workersPerGroup: 2 })
  context.diagnostic(JSON.stringify(summary))
  return summary
}

describe('a broker killed under load with kill -9, again and again', () => {
  it('starts each time, and everything is as its answers said', async (context) => {
    const { kills, deliveries, records, auditEvents } = await run(context, LOCAL)
    const made = auditEvents['stream_created'] ?? 0
    assert(made > STREAMS_OF_THE_PLAN, 'the keepers of streams that come and go were at work')
    assert(kills >= LOCAL.rounds)
    assert(deliveries > 0 && records > 0)
  })

  it('does so when one of three directories, the primary or a replica, was wiped meanwhile', async (context) => {
    const { kills } = await run(context, { ...REPLICATED, replicated: true })
    assert(kills >= REPLICATED.rounds)
  })
})
