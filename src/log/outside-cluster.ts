/**
 * What a log of a cluster has on the disk besides the log: how far it is in the stream (`cluster-anchor.json`, src/cluster/lane/anchor-file.ts). When the log is
 * opened outside of the cluster, that file gets another name, `cluster-left.json`: from then on the log may have frames that were acknowledged and that the
 * cluster lacks, and a node that goes on from the anchor would cut them.
 */
import type { Files } from './files.ts'

export const ANCHOR_NAME = 'cluster-anchor.json'
const LEFT_NAME = 'cluster-left.json'

/** The log is opened outside of a cluster. It does nothing for a log that is in none. Durable when it returns. */
export function leaveCluster(files: Files, directory: string): void {
  if (!files.exists(`${directory}/${ANCHOR_NAME}`)) return
  files.rename(`${directory}/${ANCHOR_NAME}`, `${directory}/${LEFT_NAME}`)
  files.syncDirectory(directory)
}

export const hasLeftCluster = (files: Files, directory: string): boolean => files.exists(`${directory}/${LEFT_NAME}`)

/** The log is in a cluster again, which begins where the log ends. */
export function forgetLeftCluster(files: Files, directory: string): void {
  if (!hasLeftCluster(files, directory)) return
  files.removeFile(`${directory}/${LEFT_NAME}`)
  files.syncDirectory(directory)
}
