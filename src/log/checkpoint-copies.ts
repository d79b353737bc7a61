/**
 * Brings the checkpoints of a log to a directory that lacks them, because it is new or was away when they were written. The log has dropped segments since, so
 * without a checkpoint in its place the directory could not be started alone.
 */
import { CHECKPOINTS_KEPT, checkpointName, checkpointPositions, isPublished, verify } from './checkpoint.ts'
import { fileBytes, piecesOf, publishInSteps } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import type { Steps } from '../steps.ts'

/**
 * Copies the newest checkpoints that are whole in one of the directories, as many as a directory keeps.
 *
 * @param to one of the directories, or another one of the same log
 * @param atMostPosition where the log ends in `to`
 * @throws what the file system throws when it writes
 */
export function* completeCheckpoints(
  files: Files,
  directories: readonly string[],
  to: string,
  atMostPosition: number,
): Steps<void> {
  const known = [to, ...directories].flatMap((directory) => checkpointPositions(files, directory))
  const positions = [...new Set(known)].filter((position) => position <= atMostPosition).sort((a, b) => b - a)
  let have = 0
  for (const position of positions) {
    if (have === CHECKPOINTS_KEPT) return
    if (!isThere(files, to, position)) {
      const from = yield* wholeAt(files, directories, position)
      if (from === null) continue
      yield* copy(files, from, to, position)
    }
    have += 1
  }
}

/** Judged without its content: a start reads that, and removes the file if it is damaged. */
const isThere = (files: Files, directory: string, position: number): boolean =>
  files.exists(`${directory}/${checkpointName(position)}`) && isPublished(files, directory, position)

/** Null: it is whole nowhere. A directory where it cannot be read does not count. */
function* wholeAt(files: Files, directories: readonly string[], position: number): Steps<string | null> {
  for (const directory of directories) {
    try {
      const path = `${directory}/${checkpointName(position)}`
      if (files.exists(path) && (yield* verify(files, path, position)) !== null) return directory
    } catch {
      // Another directory may have it.
    }
  }
  return null
}

function* copy(files: Files, from: string, to: string, position: number): Steps<void> {
  const name = checkpointName(position)
  const total = fileBytes(files, `${from}/${name}`)
  const write = function* (file: OpenFile): Steps<void> {
    let at = 0
    for (const piece of piecesOf(files, `${from}/${name}`)) {
      file.writev([piece], at)
      at += piece.byteLength
      yield { phase: 'copying a checkpoint', done: at, total, unit: 'bytes' }
    }
  }
  yield* publishInSteps(files, to, name, write, { cache: 'short' })
}
