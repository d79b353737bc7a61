/**
 * Lives of a cluster of real logs in a simulated world, each from a seed: test/simulation/cluster-logs.ts, where the laws are.
 * `npm run simulate:cluster-logs -- [seeds] [first seed]`.
 */
import { ClusterOfLogs } from '../test/simulation/cluster-logs.ts'

const [seeds = 100, from = 1] = process.argv.slice(2).map(Number)
const counts = new Map<string, number>()
let acknowledged = 0
let broken = 0
for (let seed = from; seed < from + seeds; seed += 1) {
  const cluster = new ClusterOfLogs(seed)
  try {
    await cluster.run()
  } catch (error) {
    broken += 1
    console.error(`seed ${seed}, after ${Math.round(cluster.nowMs)} ms of its life:`, error)
  }
  acknowledged += cluster.acknowledged.size
  for (const [what, count] of cluster.counts) counts.set(what, (counts.get(what) ?? 0) + count)
}
console.log(`${seeds} seeds from ${from}: ${broken} broken, ${acknowledged} writes acknowledged`)
for (const [what, count] of counts) console.log(`${String(count).padStart(8)}  ${what}`)
process.exitCode = broken === 0 ? 0 : 1
