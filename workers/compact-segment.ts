/** Compacts segments: at the lowest priority, and resting half as long as it works, unless they are urgent. */
import { setPriority } from 'node:os'
import { performance } from 'node:perf_hooks'
import { nodeFiles } from '../src/log/node-files.ts'
import { compactSegment } from '../src/logstore/compact/compact-segment.ts'
import type { CompactJob, CompactResult } from '../src/logstore/compact/compact-segment.ts'

const LOWEST = 19
const RESTS = 0.5
const sleeper = new Int32Array(new SharedArrayBuffer(4))

let isLowest = false

export default function run(task: CompactJob): CompactResult {
  if (!task.isUrgent && !isLowest) {
    setPriority(LOWEST) // Linux: of this thread alone
    isLowest = true
  }
  let startMs = performance.now()
  return compactSegment(nodeFiles, task, () => {
    if (task.isUrgent) return
    Atomics.wait(sleeper, 0, 0, RESTS * (performance.now() - startMs))
    startMs = performance.now()
  })
}
