/**
 * The files of a copy, for reading them back to verify them: past the page cache, in short steps. After each full step the thread waits as long as the
 * step took, so that threads which answer clients find a core and the disk free.
 */
import type { Files } from '../../log/files.ts'

interface PaceParts {
  readonly nowMs: () => number
  /** Blocks the thread for so long. */
  readonly waitMs: (forMs: number) => void
}

const STEP_BYTES = 256 << 10

/** @param files whose methods need no `this` */
export function pacedFiles(files: Files, { nowMs, waitMs }: PaceParts): Files {
  return {
    ...files,
    open(path, access, cache) {
      if (access === 'write') return files.open(path, access, cache)
      const file = files.open(path, access, 'short')
      return {
        writev: (parts, at) => file.writev(parts, at),
        fdatasync: () => file.fdatasync(),
        truncate: (bytes) => file.truncate(bytes),
        size: () => file.size(),
        close: () => file.close(),
        read(into, at) {
          let filled = 0
          while (filled < into.byteLength) {
            const step = into.subarray(filled, filled + STEP_BYTES)
            const beganMs = nowMs()
            const count = file.read(step, at + filled)
            filled += count
            if (count < step.byteLength) break
            if (count === STEP_BYTES) waitMs(nowMs() - beganMs)
          }
          return filled
        },
      }
    },
  }
}
