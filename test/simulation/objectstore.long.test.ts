import { test } from 'node:test'
import { modelRuns, seedOf } from '../support/seed.ts'
import { simulate } from './simulator.ts'
import { WORKLOADS } from './workloads.ts'

test('whatever is put, lost, moved or broken in whatever order, the object store is what its log says and gives back what was sent', async (context) => {
  const first = seedOf(context)
  await simulate(
    WORKLOADS.objectstore,
    Array.from({ length: modelRuns(80) }, (_, i) => first + i),
  )
})
