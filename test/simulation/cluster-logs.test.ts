/** Some lives of a cluster of real logs: `npm run simulate:cluster-logs` has more. Each failure says its seed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterOfLogs } from './cluster-logs.ts'

describe('a cluster of real logs', () => {
  // With seed 14, a lane dies while its node joins again.
  for (const seed of [1, 2, 14]) {
    it(`keeps what it acknowledged, whatever happens (seed ${seed})`, async () => {
      const cluster = new ClusterOfLogs(seed)
      await cluster.run()
      assert.ok(cluster.acknowledged.size > 0)
    })
  }
})
