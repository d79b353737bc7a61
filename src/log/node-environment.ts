/** The log on this machine: real files, real time, one thread per journal. */
import { randomInt } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { JobPool } from '../pipeline/jobs.ts'
import { Lane } from '../pipeline/lane.ts'
import { workerFile } from '../pipeline/worker-file.ts'
import type { CatchUpTask, JournalMessage, LogEnvironment } from './environment.ts'
import { lockDirectory } from './lock.ts'
import { nodeFiles } from './node-files.ts'
import { prepareFile } from './prepare-file.ts'

const CATCH_UP = workerFile('catch-up')
const JOURNAL = workerFile('journal')

export const nodeEnvironment: LogEnvironment = {
  files: nodeFiles,
  nowMs: () => performance.now(),
  randomUint32: () => randomInt(2 ** 32),
  lock: lockDirectory,
  prepareFile,
  async catchUp(task, signal) {
    const pool = new JobPool<CatchUpTask, number>({ name: 'catch-up', filename: CATCH_UP, threads: 1, queueMax: 0 })
    try {
      return await pool.run(task, { signal })
    } finally {
      void pool.close({ withinMs: 0 })
    }
  },
  startJournal: (task, events) =>
    Lane.start({
      name: `journal of ${task.directory}`,
      filename: JOURNAL,
      workerData: task,
      onMessage: (message) => events.onMessage(message as JournalMessage), // our own lane's, see workers/journal.ts
      onDeath: (error) => events.onDeath(error),
    }),
  every(intervalMs, run) {
    const timer = setInterval(run, intervalMs).unref()
    return () => clearInterval(timer)
  },
}
