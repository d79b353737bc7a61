/** What main hands the thread that writes sidecars and checkpoints. The bytes are handed over, not copied. */
import type { Files } from '../../log/files.ts'
import { writeCheckpoint } from '../../log/checkpoint.ts'
import { publishSegmentIndex } from './segment-index.ts'

export type WriteTask =
  | { readonly kind: 'segment-index'; readonly directory: string; readonly bytes: Uint8Array<ArrayBuffer> }
  | {
      readonly kind: 'checkpoint'
      /** The first is the primary one; of the others, those that fail are left out. */
      readonly directories: readonly string[]
      readonly position: number
      readonly parts: readonly Uint8Array<ArrayBuffer>[]
    }

/** What is handed over with a task. */
export const memoryOf = (task: WriteTask): ArrayBuffer[] =>
  task.kind === 'segment-index' ? [task.bytes.buffer] : task.parts.map(({ buffer }) => buffer)

/** @throws what the file system throws: what was there before still counts */
export function runWriteTask(files: Files, task: WriteTask): void {
  if (task.kind === 'segment-index') return publishSegmentIndex(files, task.directory, task.bytes)
  const [primary, ...replicas] = task.directories
  for (const directory of replicas) {
    try {
      writeCheckpoint(files, directory, task.position, task.parts)
    } catch {
      // The log leaves a directory that fails out as well, and says so.
    }
  }
  writeCheckpoint(files, primary!, task.position, task.parts)
}
