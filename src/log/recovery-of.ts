/** What all recoveries of one log have in common, at its opening and in place. */
import type { LogEnvironment } from './environment.ts'
import type { LogOptions } from './log-options.ts'
import type { RecoverDirectoriesOptions } from './replicas.ts'

export function recoveryOf(
  { segmentsName = 'segments', writeQuorum, cluster }: LogOptions,
  { files, randomUint32 }: LogEnvironment,
  directories: readonly string[],
): RecoverDirectoriesOptions {
  const own = { files, directories, segmentsName, writeQuorum: writeQuorum ?? directories.length, randomUint32 }
  return cluster === undefined ? own : { ...own, randomUint32: () => cluster.logId, durableHere: 0 }
}
