/** Fills a replica directory of a log from its primary one, at half the speed of the disks. */
import { performance } from 'node:perf_hooks'
import { catchUp } from '../src/log/catch-up.ts'
import type { CatchUpTask } from '../src/log/environment.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { yieldCore } from '../src/pipeline/niceness.ts'

export default function run(task: CatchUpTask): number {
  let startMs = performance.now()
  return catchUp(nodeFiles, task, () => {
    yieldCore(performance.now() - startMs)
    startMs = performance.now()
  })
}
