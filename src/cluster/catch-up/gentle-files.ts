/**
 * The files of a copy, as it reads them through to check them: past the page cache, in short steps with a rest after each, so that what answers clients on
 * this machine hardly has to wait for a core or for the disk.
 */
import { performance } from 'node:perf_hooks'
import type { Files } from '../../log/files.ts'

const STEP_BYTES = 256 << 10

/**
 * @param files whose methods need no `this`
 * @param rest  waits for as long, in milliseconds, as the step before it took
 */
export function gentleFiles(files: Files, rest: (tookMs: number) => void = sleep): Files {
  return {
    ...files,
    open(path, access) {
      const file = files.open(path, access, 'short')
      if (access === 'write') return file
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
            const beganMs = performance.now()
            const count = file.read(step, at + filled)
            filled += count
            if (count < step.byteLength) break
            if (count === STEP_BYTES) rest(performance.now() - beganMs)
          }
          return filled
        },
      }
    },
  }
}

const sleeper = new Int32Array(new SharedArrayBuffer(4))

const sleep = (tookMs: number): void => void Atomics.wait(sleeper, 0, 0, tookMs)
