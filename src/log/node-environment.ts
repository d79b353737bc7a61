/** The log on this machine: real files, real time, one thread per journal. */
import { randomInt } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { Lane } from '../pipeline/lane.ts'
import type { LogEnvironment } from './environment.ts'
import type { JournalMessage } from './environment.ts'
import { lockDirectory } from './lock.ts'
import { nodeFiles } from './node-files.ts'
import { prepareFile } from './prepare-file.ts'

const JOURNAL = new URL('../../workers/journal.ts', import.meta.url)

export const nodeEnvironment: LogEnvironment = {
  files: nodeFiles,
  nowMs: () => performance.now(),
  randomUint32: () => randomInt(2 ** 32),
  lock: lockDirectory,
  prepareFile,
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
