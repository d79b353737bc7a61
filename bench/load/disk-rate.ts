/**
 * How fast does the disk itself take data that must survive a crash? One file that grows by 8 MiB writes, each followed
 * by fdatasync: what a log does at best. Measured before and after the load, never during, and blocking, because nothing
 * else may run meanwhile.
 */
import { closeSync, existsSync, fdatasyncSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { randomFillSync } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const WRITE_BYTES = 8 * 1024 * 1024
const SMALL_WRITE_BYTES = 4096
const FILE_BYTES_MAX = 2 * 1024 * 1024 * 1024 // on a fast disk the measurement ends here instead of by time

export interface DiskRate {
  readonly bytesPerSecond: number
  readonly bytes: number
  readonly seconds: number
}

export function defaultDiskDirectory(): string {
  return existsSync('data') ? 'data' : tmpdir()
}

/**
 * @param directory must exist; the file made in it is removed again
 * @param durationMs > 0; the write that crosses it is the last one
 * @throws the file system's own error when the directory cannot be written, or is full
 */
export function measureDiskRate(directory: string, durationMs: number, nowMs: () => number): DiskRate {
  const { bytes, seconds } = writeAndSync(directory, WRITE_BYTES, durationMs, nowMs)
  return { bytesPerSecond: bytes / seconds, bytes, seconds }
}

/** How many small writes a second the disk syncs, one after the other; otherwise like `measureDiskRate`. */
export function measureSyncs(
  directory: string,
  durationMs: number,
  nowMs: () => number,
): { readonly syncsPerSecond: number } {
  const { bytes, seconds } = writeAndSync(directory, SMALL_WRITE_BYTES, durationMs, nowMs)
  return { syncsPerSecond: bytes / SMALL_WRITE_BYTES / seconds }
}

function writeAndSync(
  directory: string,
  writeBytes: number,
  durationMs: number,
  nowMs: () => number,
): { bytes: number; seconds: number } {
  const chunk = randomFillSync(Buffer.allocUnsafe(writeBytes)) // a disk that compresses or deduplicates gains nothing
  const path = join(directory, `.trilog-load-${process.pid}.tmp`)
  const file = openSync(path, 'wx', 0o600)
  try {
    const startMs = nowMs()
    let bytes = 0
    let elapsedMs = 0
    do {
      chunk.writeDoubleLE(bytes, 0) // no two writes are equal
      for (let written = 0; written < writeBytes;) written += writeSync(file, chunk, written)
      fdatasyncSync(file)
      bytes += writeBytes
      elapsedMs = nowMs() - startMs
    } while (elapsedMs < durationMs && bytes < FILE_BYTES_MAX)
    return { bytes, seconds: elapsedMs / 1000 }
  } finally {
    closeSync(file)
    unlinkSync(path)
  }
}
