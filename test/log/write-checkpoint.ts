import { beginCheckpoint } from '../../src/log/checkpoint.ts'
import type { Files } from '../../src/log/files.ts'

/** @param parts of the content, one after the other */
export function writeCheckpoint(files: Files, directory: string, position: number, parts: readonly Uint8Array[]): void {
  const file = beginCheckpoint(files, directory, position)
  for (const part of parts) file.write(part)
  file.publish()
}
