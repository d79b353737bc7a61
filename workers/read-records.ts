/** Many requests for records in, text and numbers out. Keeps open files and frames between tasks, within the bounds of its reader. */
import { handOver, workerData } from '../src/pipeline/piscina.ts'
import type { HandedOver } from '../src/pipeline/piscina.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import type { ReadTask, ReadWorkerData } from '../src/broker/records/read-protocol.ts'
import { RecordReader } from '../src/broker/records/reader.ts'

const reader = new RecordReader(nodeFiles, workerData as ReadWorkerData) // the pool's owner gives it, see ReadWorkerData

/** A `ReadResult`; its memory is handed over without a copy. */
export default function run(task: ReadTask): HandedOver {
  const result = reader.run(task)
  return handOver(result, [result.text.buffer, result.numbers.buffer])
}
