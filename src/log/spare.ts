/**
 * Spare files: blocks that the file system has allocated already become the next segment's. Overwriting them syncs 1.5 to 4
 * times faster than growing a file (bench/log.bench.ts), because no allocation has to be made durable with the data.
 *
 * A spare comes from a dropped segment, at no cost, or is written in advance while little is appended. At full speed, writing it would cost the disk
 * more time than it saves. A spare is optional: it may vanish, be torn or be too short.
 *
 * K2  old bytes in a spare are never frames of the new segment: frames carry their position and the id of the log
 * K4  the space of a removed file comes back at once: readers keep files of segments open, and would hold the space until they read again
 */
import { atOnce } from '../steps.ts'
import type { Files } from './files.ts'

/** Takes 1 ms with its pages in memory: frames wait for it. More at once is no faster. */
const EMPTIED_BYTES = 4 << 20

/** More would hold back disk space for a gain that the first ones give. */
const SPARES_MAX = 2

export function sparePath(segments: string, index: number): string {
  return `${segments}/spare-${index}.log`
}

/** Moves a spare to where the next segment wants it; false when there is none. */
export function takeSpare(files: Files, segments: string, to: string): boolean {
  for (let index = 0; index < SPARES_MAX; index += 1) {
    if (!files.exists(sparePath(segments, index))) continue
    files.rename(sparePath(segments, index), to)
    return true
  }
  return false
}

/** Keeps the file of a dropped segment, if there is room for one more; false when there is not. */
export function keepAsSpare(files: Files, segments: string, from: string): boolean {
  for (let index = 0; index < SPARES_MAX; index += 1) {
    if (files.exists(sparePath(segments, index))) continue
    files.rename(from, sparePath(segments, index))
    return true
  }
  return false
}

/** Removes the spares: when the disk fills up, their space is worth more than their speed. */
export function removeSpares(files: Files, segments: string): void {
  for (let index = 0; index < SPARES_MAX; index += 1) {
    if (files.exists(sparePath(segments, index))) atOnce(removeEmptied(files, sparePath(segments, index)))
  }
}

/** K4. The blocks of a step go back to the disk before it ends. */
export function* removeEmptied(files: Files, path: string): Generator<void, void, undefined> {
  const file = files.open(path, 'write')
  try {
    for (let bytes = file.size(); bytes > 0;) {
      bytes = Math.max(0, bytes - EMPTIED_BYTES)
      file.truncate(bytes)
      yield
    }
  } finally {
    file.close()
  }
  files.removeFile(path)
}
