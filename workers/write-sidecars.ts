/** Writes sidecars of sealed segments, each as a whole, and one checkpoint at a time, part by part. */
import { CheckpointThread } from '../src/engine/checkpoint-thread.ts'
import type { CheckpointTask } from '../src/engine/checkpoint-thread.ts'
import { publishSegmentIndex } from '../src/broker/records/segment-index.ts'
import type { SidecarTask } from '../src/broker/records/segment-index.ts'
import { nodeFiles } from '../src/log/node-files.ts'

const checkpoints = new CheckpointThread(nodeFiles)

export default function run(task: SidecarTask | CheckpointTask): void {
  if (task.kind === 'sidecar') publishSegmentIndex(nodeFiles, task.directory, task.bytes)
  else checkpoints.run(task)
}
