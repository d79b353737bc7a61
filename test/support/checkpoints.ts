import { beginCheckpoint, newestCheckpoint } from '../../src/log/checkpoint.ts'
import type { Checkpoint } from '../../src/log/checkpoint.ts'
import { atOnce } from '../../src/steps.ts'
import type { Files } from '../../src/log/files.ts'

/** @param parts of the content, one after the other */
export function writeCheckpoint(files: Files, directory: string, position: number, parts: readonly Uint8Array[]): void {
  const file = beginCheckpoint(files, directory, position)
  for (const part of parts) file.write(part)
  file.publish()
}

export const readNewestCheckpoint = (...asked: Parameters<typeof newestCheckpoint>): Checkpoint | null =>
  atOnce(newestCheckpoint(...asked))

export const contentOf = (checkpoint: Checkpoint): Buffer => atOnce(checkpoint.whole())
