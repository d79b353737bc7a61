/** Writes a segment file in advance, off every thread that matters (spare.ts says what for). */
import fs from 'node:fs/promises'
import { performance } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import { TEMPORARY_SUFFIX } from './files.ts'

const PIECE_BYTES = 1 << 20
/** The disk is left alone for so many times as long as a piece took. */
const PAUSE_FACTOR = 4

/** See LogEnvironment.prepareFile. */
export async function prepareFile(path: string, bytes: number, isCancelled: () => boolean): Promise<void> {
  const temporary = `${path}${TEMPORARY_SUFFIX}`
  try {
    const file = await fs.open(temporary, 'w')
    try {
      const zeros = Buffer.alloc(PIECE_BYTES)
      for (let at = 0; at < bytes && !isCancelled(); at += PIECE_BYTES) {
        const startMs = performance.now()
        await file.write(zeros, 0, Math.min(PIECE_BYTES, bytes - at), at)
        await file.datasync()
        await wait((performance.now() - startMs) * PAUSE_FACTOR)
      }
    } finally {
      await file.close()
    }
    if (!isCancelled()) await fs.rename(temporary, path)
  } catch {
    // A full or failing disk shows where it matters: in the journal.
  }
  await fs.rm(temporary, { force: true }).catch(() => undefined)
}
