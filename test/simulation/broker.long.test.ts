import { test } from 'node:test'
import { modelRuns, seedOf } from '../support/seed.ts'
import { simulate } from './simulator.ts'
import { WORKLOADS } from './workloads.ts'

test('whatever is asked, lost, delayed or broken in whatever order, the broker is what its log says and says so', async (context) => {
  const first = seedOf(context)
  await simulate(
    WORKLOADS.broker,
    Array.from({ length: modelRuns(100) }, (_, i) => first + i),
  )
})
