import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReplicationPolicies } from '../../src/broker/engine/replication-policies.ts'
import { ReplicationWorker } from '../../src/broker/operations/replication-worker.ts'
import type { StreamState } from '../../src/broker/state/state.ts'
import { modelRuns, seedOf } from '../support/seed.ts'
import { SimulationFailed, simulate } from './simulator.ts'
import { WORKLOADS } from './workloads.ts'

const seedsFrom = (first: number, count: number): number[] => Array.from({ length: count }, (_, i) => first + i)

test('whatever is lost, late or twice on the way, and whoever dies: each record is at each site once, in order, or said to be skipped', async (context) => {
  await simulate(WORKLOADS.replication, seedsFrom(seedOf(context), modelRuns(40)))
})

test('sites that send back what came from there are found out', async (context) => {
  context.mock.method(ReplicationPolicies.prototype, 'skippedOffsets', (stream: StreamState) => [stream.holes])
  assert.match(await firstBroken(), /N1|never catch up/)
})

test('a worker that does not tell what it skips is found out', async (context) => {
  context.mock.method(ReplicationWorker.prototype, 'noteSkipped', () => {})
  assert.match(await firstBroken(), /N5/)
})

/** The message of the first life that breaks a law. */
async function firstBroken(): Promise<string> {
  try {
    await simulate(WORKLOADS.replication, seedsFrom(1, 60))
  } catch (error) {
    if (error instanceof SimulationFailed) return error.message
    throw error
  }
  return 'no law was broken'
}
