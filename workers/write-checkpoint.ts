/** One checkpoint of the object store at a time, part by part. */
import { nodeFiles } from '../src/log/node-files.ts'
import { CheckpointThread } from '../src/objectstore/engine/write-task.ts'
import type { WriteTask } from '../src/objectstore/engine/write-task.ts'

const thread = new CheckpointThread(nodeFiles)

export default function run(task: WriteTask): void {
  thread.run(task)
}
