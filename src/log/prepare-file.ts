/** Writes a segment file in advance, asynchronously, so that no lane waits for it (spare.ts says why). */
import fs from 'node:fs/promises'
import { performance } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import { TEMPORARY_SUFFIX } from './files.ts'

const PIECE_BYTES = 1 << 20
/** A write keeps its core until it is done, which takes milliseconds where memory is touched for the first time: threads on that core wait for it. */
const WRITE_BYTES = 128 << 10
/** After each piece the disk is left alone for this many times as long as the piece took. */
const PAUSE_FACTOR = 4

/** See LogEnvironment.prepareFile. @throws what the file system throws; then nothing is left of it */
export async function prepareFile(path: string, bytes: number, isCancelled: () => boolean): Promise<void> {
  const temporary = `${path}${TEMPORARY_SUFFIX}`
  try {
    const file = await fs.open(temporary, 'w')
    try {
      const zeros = Buffer.alloc(WRITE_BYTES)
      for (let at = 0; at < bytes && !isCancelled(); at += PIECE_BYTES) {
        const startMs = performance.now()
        const end = Math.min(at + PIECE_BYTES, bytes)
        for (let from = at; from < end; from += WRITE_BYTES) {
          await file.write(zeros, 0, Math.min(WRITE_BYTES, end - from), from)
        }
        await file.datasync()
        await wait((performance.now() - startMs) * PAUSE_FACTOR)
      }
    } finally {
      await file.close()
    }
    if (!isCancelled()) await fs.rename(temporary, path)
  } finally {
    await fs.rm(temporary, { force: true }).catch(() => undefined)
  }
}
