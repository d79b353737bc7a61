/** Frames of the object store in, their payloads out. Keeps files open between tasks. */
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina'
import { nodeFiles } from '../src/log/node-files.ts'
import { FrameReader } from '../src/objectstore/engine/frame-reader.ts'
import { memoryOf } from '../src/objectstore/engine/read-protocol.ts'
import type { ReadTask, ReaderData } from '../src/objectstore/engine/read-protocol.ts'

const reader = new FrameReader(nodeFiles, workerData as ReaderData) // the pool's owner gives it

/** A `ReadResult`; its memory is handed over without a copy. */
export default function run(task: ReadTask): ReturnType<typeof move> {
  const result = reader.run(task)
  return move({ [transferableSymbol]: memoryOf(result), [valueSymbol]: result })
}
