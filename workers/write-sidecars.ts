/** One sidecar of a sealed segment, or one checkpoint, written and published. Keeps nothing between tasks. */
import { nodeFiles } from '../src/log/node-files.ts'
import { runWriteTask } from '../src/broker/records/write-task.ts'
import type { WriteTask } from '../src/broker/records/write-task.ts'

export default function run(task: WriteTask): void {
  runWriteTask(nodeFiles, task)
}
