/** A seed repeats its life, and a broken law is reported with the seed and the steps that break it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { History } from '../broker/engine/history.ts'
import { SimulationFailed, cutDown, planOf, runLife, simulate } from './simulator.ts'
import type { Workload } from './simulator.ts'
import { WORKLOADS } from './workloads.ts'

/** A workload that breaks its law with the third claim after a crash. */
const brittle = (): Workload => ({
  kinds: [
    ['claim', 1],
    ['crash', 1],
    ['other', 8],
  ],
  always: new Set(['claim', 'crash']),
  calamities: new Set(),
  async begin() {
    let hasCrashed = false
    let claims = 0
    return {
      async run({ kind }) {
        hasCrashed ||= kind === 'crash'
        if (hasCrashed && kind === 'claim') claims += 1
        assert.ok(claims < 3, 'three claims after a crash')
      },
      async reopen() {},
      async quiesce() {},
      async drain() {},
    }
  },
})

async function failureOf(workload: Workload): Promise<SimulationFailed> {
  const failed = await simulate(
    workload,
    Array.from({ length: 20 }, (_, i) => i + 1),
  ).catch((error: unknown) => error)
  assert.ok(failed instanceof SimulationFailed)
  return failed
}

describe('the simulator', () => {
  it('makes the same steps of the same seed, and others of another', () => {
    assert.deepEqual(planOf(WORKLOADS.broker, 7), planOf(WORKLOADS.broker, 7))
    assert.notDeepEqual(planOf(WORKLOADS.broker, 7).steps, planOf(WORKLOADS.broker, 8).steps)
  })

  it('brings about the same frames when a life is lived again', async () => {
    const plan = planOf(WORKLOADS.broker, 7)
    const framesOf = async (): Promise<readonly string[]> => {
      const history = new History(plan.seed)
      await runLife({ ...WORKLOADS.broker, begin: () => history.begin(0).then(() => history) }, plan)
      return history.trace.frames.map(({ position, type, payload }) => `${position} ${type} ${payload.toString('hex')}`)
    }
    const frames = await framesOf()
    assert.ok(frames.length > 10)
    assert.deepEqual(await framesOf(), frames)
  })

  it('says which seed breaks a law, in which step', async () => {
    const failed = await failureOf(brittle())
    assert.match(failed.message, /^seed \d+, after \d+ steps: three claims after a crash/)
    const again = planOf(brittle(), failed.plan.seed)
    await assert.rejects(runLife(brittle(), again), { message: failed.message })
  })

  it('cuts a life down to the steps that it takes to break the law', async () => {
    const { plan, taken } = await cutDown(brittle(), await failureOf(brittle()))
    assert.deepEqual(
      plan.steps.slice(0, taken).map(({ kind }) => kind),
      ['crash', 'claim', 'claim', 'claim'],
    )
  })
})
