/** Removes a segment, mostly in steps of a millisecond. It is renamed first, so that a start finds it whole, or finishes the removal. */
import { errorCode } from './files.ts'
import type { Files } from './files.ts'
import { DROPPED_PREFIX, RECORDS_NAME, segmentName } from './segment-format.ts'
import { keepAsSpare, removeEmptied } from './spare.ts'

/** @param keepFile its blocks may become those of a later segment (spare.ts) */
export function* dropInSteps(
  files: Files,
  segments: string,
  base: number,
  keepFile: boolean,
): Generator<void, void, undefined> {
  const name = segmentName(base)
  if (!files.exists(`${segments}/${name}`)) return
  const dropped = `${segments}/${DROPPED_PREFIX}${name}`
  files.rename(`${segments}/${name}`, dropped)
  files.syncDirectory(segments)
  yield
  const records = `${dropped}/${RECORDS_NAME}`
  if (keepFile && files.exists(records)) keepAsSpare(files, segments, records)
  for (const file of files.list(dropped) ?? []) yield* removeUnlessMoved(files, `${dropped}/${file}`)
  removeUnlessWritten(files, dropped)
}

/** Removes a file in steps, as sidecars may be as long as records. A thread that writes a sidecar there at this moment may rename it in between. */
function* removeUnlessMoved(files: Files, path: string): Generator<void, void, undefined> {
  try {
    yield* removeEmptied(files, path)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
  }
}

/** A thread that writes a sidecar there at this moment may keep the directory: it is small by now, and goes at the next start. */
function removeUnlessWritten(files: Files, directory: string): void {
  try {
    files.removeDirectory(directory)
  } catch (error) {
    if (errorCode(error) !== 'ENOTEMPTY') throw error
  }
}
