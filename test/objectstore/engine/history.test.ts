import { test } from 'node:test'
import fc from 'fast-check'
import { testSeed } from '../../support/seed.ts'
import { History, STEP_KINDS } from './history.ts'
import type { Step } from './history.ts'

const number = fc.nat(999)
const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.oneof(...STEP_KINDS.map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind) }))),
  a: number,
  b: number,
  c: number,
  yes: fc.boolean(),
})

test('whatever is put, lost, moved or broken in whatever order, the object store is what its log says and gives back what was sent', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.array(step, { maxLength: 150, size: 'max' }), async (seed, steps) => {
      const history = new History(seed)
      await history.begin()
      for (const each of steps) await history.run(each)
      await history.reopen('crash')
      await history.quiesce()
      await history.drain()
    }),
    { seed: testSeed(), numRuns: Number(process.env['TRILOG_MODEL_RUNS'] ?? 40), includeErrorInReport: true },
  )
})
