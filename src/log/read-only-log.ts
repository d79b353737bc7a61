/**
 * A log opened for reading only. For tools that read a data directory without its service.
 *
 * O1  no file changes, and none is made: the torn end that a crash left is ignored, not repaired
 * O2  the directory is locked meanwhile. Readers share the lock; a running service keeps readers out, and readers keep a service out
 */
import assert from 'node:assert/strict'
import { StoreError } from '../errors.ts'
import type { DirectoryLock } from './environment.ts'
import type { Files } from './files.ts'
import { readFormat } from './format.ts'
import { lockToRead } from './lock.ts'
import type { Log, SegmentInfo } from './log.ts'
import { nodeFiles } from './node-files.ts'
import { readIncidents } from './quarantine.ts'
import { atOnce } from '../steps.ts'
import { recoverDirectory } from './recovery.ts'
import { SegmentList } from './segment-list.ts'

/** The parts of a log that a reader needs to build the state from its frames. */
export type ReadableLog = Pick<
  Log,
  'id' | 'committed' | 'segments' | 'incidents' | 'lostReplicas' | 'reportDamage' | 'tornTail'
>

export interface ReadOnlyLog extends ReadableLog {
  readonly files: Files
  release(): Promise<void>
}

/**
 * @param directory one that holds the log; of several, the primary one
 * @throws StoreError notFound data_directory_empty, unavailable data_directory_locked; as `Log.open`; and what the file system throws
 */
export async function openToRead(directory: string, segmentsName: string): Promise<ReadOnlyLog> {
  if (!nodeFiles.exists(directory)) throw nothingIn(directory)
  const lock = await lockToRead(directory)
  try {
    return read(directory, segmentsName, lock)
  } catch (error) {
    await lock.release()
    throw error
  }
}

function read(directory: string, segmentsName: string, lock: DirectoryLock): ReadOnlyLog {
  const id = readFormat(files, directory, segmentsName)
  if (id === null) throw nothingIn(directory)
  const recovered = atOnce(recoverDirectory({ files, directory, segmentsName, logId: id, dryRun: true }))
  const list = new SegmentList(`${directory}/${segmentsName}`)
  list.reset(recovered.segments)
  const segments: readonly SegmentInfo[] = list.all
  const begin = segments[0]?.base ?? recovered.nextBase
  const forgotten = readIncidents(files, directory).filter(({ to }) => to <= begin)
  return {
    id,
    segments,
    committed: recovered.tail.end,
    incidents: [...forgotten, ...recovered.incidents],
    tornTail: recovered.tornTail,
    lostReplicas: [],
    reportDamage: () => {}, // O1: the service writes it down when it opens
    files,
    release: () => lock.release(),
  }
}

const nothingIn = (directory: string): StoreError =>
  new StoreError('notFound', 'data_directory_empty', `${directory} holds no data`)

const never = (): never => assert.fail('a log that is opened to read is not changed')

/** O1, for every caller. */
const files: Files = {
  open: (path) => nodeFiles.open(path, 'read'),
  list: (path) => nodeFiles.list(path),
  exists: (path) => nodeFiles.exists(path),
  freeBytes: (path) => nodeFiles.freeBytes(path),
  create: never,
  makeDirectory: never,
  rename: never,
  removeFile: never,
  removeDirectory: never,
  syncDirectory: never,
}
