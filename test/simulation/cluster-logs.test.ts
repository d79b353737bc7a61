/** A slice of the lives of a cluster of real logs; each failure says its seed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterOfLogs } from './cluster-logs.ts'

const SEEDS = Number(process.env['CLUSTER_LOGS_SEEDS'] ?? 4)
const FROM = Number(process.env['CLUSTER_LOGS_FROM'] ?? 1)

describe('a cluster of real logs', () => {
  for (let seed = FROM; seed < FROM + SEEDS; seed += 1) {
    it(`keeps what it acknowledged, whatever happens (seed ${seed})`, async () => {
      const cluster = new ClusterOfLogs(seed)
      await cluster.run()
      assert.ok(cluster.acknowledged.size > 0)
    })
  }
})
