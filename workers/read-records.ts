/** Many requests for records in, text and numbers out. Keeps open files and frames between tasks, within the bounds of its reader. */
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina'
import { nodeFiles } from '../src/log/node-files.ts'
import type { ReadTask, ReadWorkerData } from '../src/broker/records/read-protocol.ts'
import { RecordReader } from '../src/broker/records/reader.ts'

const reader = new RecordReader(nodeFiles, workerData as ReadWorkerData) // the pool's owner gives it, see ReadWorkerData

/** A `ReadResult`; its memory is handed over without a copy. */
export default function run(task: ReadTask): ReturnType<typeof move> {
  const result = reader.run(task)
  return move({ [transferableSymbol]: [result.text.buffer, result.numbers.buffer], [valueSymbol]: result })
}
