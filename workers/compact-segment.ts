/** Compacts segments, and merges bundles: at the lowest priority, and resting half as long as it works, unless they are urgent. */
import { performance } from 'node:perf_hooks'
import { nodeFiles } from '../src/log/node-files.ts'
import { compactSegment } from '../src/logstore/compact/compact-segment.ts'
import type { BackgroundJob, BackgroundResult } from '../src/logstore/compact/compactor.ts'
import { mergeBundles } from '../src/logstore/compact/merge-bundles.ts'
import { LOWEST, giveWay } from '../src/pipeline/niceness.ts'

const RESTS = 0.5
const sleeper = new Int32Array(new SharedArrayBuffer(4))

let isLowest = false

export default function run(job: BackgroundJob): BackgroundResult {
  const isUrgent = 'isUrgent' in job && job.isUrgent
  if (!isUrgent && !isLowest) {
    giveWay(LOWEST)
    isLowest = true
  }
  let startMs = performance.now()
  const rest = (): void => {
    if (isUrgent) return
    Atomics.wait(sleeper, 0, 0, RESTS * (performance.now() - startMs))
    startMs = performance.now()
  }
  if (!('stop' in job)) return compactSegment(nodeFiles, job, rest)
  const stop = new Int32Array(job.stop)
  return mergeBundles(nodeFiles, job, () => {
    rest()
    return Atomics.load(stop, 0) === 0
  })
}
