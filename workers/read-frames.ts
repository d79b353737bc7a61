/** Frames of the object store in, their payloads out. Keeps files open between tasks. */
import { handOver, workerData } from '../src/pipeline/piscina.ts'
import type { HandedOver } from '../src/pipeline/piscina.ts'
import { DirectReads } from '../src/log/direct-reads.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { RECORDS_NAME, segmentName } from '../src/log/segment-format.ts'
import { FrameReader } from '../src/objectstore/engine/frame-reader.ts'
import { memoryOf } from '../src/objectstore/engine/read-protocol.ts'
import type { ReadTask, ReaderData } from '../src/objectstore/engine/read-protocol.ts'

const data = workerData as ReaderData // the pool's owner gives it
const pathOf = (base: number): string => `${data.segmentsDirectory}/${segmentName(base)}/${RECORDS_NAME}`
const reader = new FrameReader(nodeFiles, data, new DirectReads(pathOf))

/** A `ReadResult`; its memory is handed over without a copy. */
export default async function run(task: ReadTask): Promise<HandedOver> {
  const result = reader.run(task, await reader.load(task))
  return handOver(result, memoryOf(result))
}
