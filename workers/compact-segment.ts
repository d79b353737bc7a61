/** Compacts segments at the lowest priority, and rests half as long as it works. */
import { setPriority } from 'node:os'
import { performance } from 'node:perf_hooks'
import { nodeFiles } from '../src/log/node-files.ts'
import { compactSegment } from '../src/logstore/compact/compact-segment.ts'
import type { CompactResult, CompactTask } from '../src/logstore/compact/compact-segment.ts'

const LOWEST = 19
const RESTS = 0.5
const sleeper = new Int32Array(new SharedArrayBuffer(4))

setPriority(LOWEST) // Linux: of this thread alone

export default function run(task: CompactTask): CompactResult {
  let startMs = performance.now()
  return compactSegment(nodeFiles, task, () => {
    Atomics.wait(sleeper, 0, 0, RESTS * (performance.now() - startMs))
    startMs = performance.now()
  })
}
