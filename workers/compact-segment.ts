/**
 * Compacts segments, mends and merges bundles, and removes from them what has expired. From its first job that is not urgent, the thread has a low
 * priority. It rests half as long as it works, but not while it compacts or mends and is late.
 */
import { performance } from 'node:perf_hooks'
import { trimMalloc } from '../src/libc.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import type { BackgroundJob, BackgroundResult } from '../src/logstore/compact/background.ts'
import { compactSegment } from '../src/logstore/compact/compact-segment.ts'
import { mendBundle } from '../src/logstore/compact/mend-bundle.ts'
import { mergeBundles } from '../src/logstore/compact/merge-bundles.ts'
import { RemovedFiles } from '../src/logstore/compact/removed-files.ts'
import { trimBundle } from '../src/logstore/compact/trim-bundle.ts'
import { lowerPriority, yieldCore } from '../src/pipeline/niceness.ts'

const REST_PER_WORK = 0.5
/** The end of the thread closes them. */
const removed = new RemovedFiles(nodeFiles)

let givesWay = false

export default function run(job: BackgroundJob): BackgroundResult {
  try {
    return runJob(job)
  } finally {
    trimMalloc()
  }
}

function runJob(job: BackgroundJob): BackgroundResult {
  const isStoppable = 'stop' in job
  if (!givesWay && (isStoppable || !job.isUrgent)) {
    lowerPriority()
    givesWay = true
  }
  let startMs = performance.now()
  const rest = (): void => {
    yieldCore(REST_PER_WORK * (performance.now() - startMs))
    startMs = performance.now()
  }
  if (isStoppable) {
    const stop = new Int32Array(job.stop)
    const restOrStop = (): boolean => {
      rest()
      return Atomics.load(stop, 0) === 0
    }
    return 'bundle' in job ? trimBundle(nodeFiles, job, restOrStop) : mergeBundles(nodeFiles, job, restOrStop)
  }
  const isLate = new Int32Array(job.isLate)
  const restUnlessLate = (): void => {
    if (Atomics.load(isLate, 0) === 0) rest()
    else startMs = performance.now()
  }
  if (job.kind === 'mend') return mendBundle(nodeFiles, job, restUnlessLate)
  return compactSegment(nodeFiles, job, restUnlessLate, removed)
}
