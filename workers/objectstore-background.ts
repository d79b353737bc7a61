/** Background work of the object store: writes one checkpoint at a time, part by part, and scans sealed segments. */
import { CheckpointThread } from '../src/engine/checkpoint-thread.ts'
import type { CheckpointTask } from '../src/engine/checkpoint-thread.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { scanPart } from '../src/objectstore/engine/scan-segment.ts'
import type { ScanTask, ScannedPart } from '../src/objectstore/engine/scan-segment.ts'

const checkpoints = new CheckpointThread(nodeFiles)

/** @returns null for a task that writes */
export default function run(task: CheckpointTask | ScanTask): ScannedPart | null {
  if (task.kind === 'scan') return scanPart(nodeFiles, task)
  checkpoints.run(task)
  return null
}
