/** Makes missing directories of a log, and locks all of them for this process. */
import { StoreError, messageOf } from '../errors.ts'
import type { DirectoryLock, LogEnvironment } from './environment.ts'
import { makeDurableDirectory } from './files.ts'

export interface TakenDirectories {
  /** The lock of each replica; null: its directory cannot be used. */
  readonly locks: readonly (DirectoryLock | null)[]
  /** Why a directory cannot be used, by replica. A log with several directories can do without some of them. */
  readonly unusable: ReadonlyMap<number, string>
}

const UNUSABLE = 'data_directory_unusable'

/**
 * @param directories the primary one first
 * @throws StoreError data_directory_unusable of the primary, data_directory_locked of any: another process uses it. Then none is taken
 */
export async function takeDirectories(
  environment: LogEnvironment,
  directories: readonly string[],
): Promise<TakenDirectories> {
  const locks: (DirectoryLock | null)[] = []
  const unusable = new Map<number, string>()
  for (const [replica, directory] of directories.entries()) {
    try {
      locks.push(await takeDirectory(environment, directory))
    } catch (error) {
      if (replica > 0 && error instanceof StoreError && error.code === UNUSABLE) {
        unusable.set(replica, error.message)
        locks.push(null)
        continue
      }
      await releaseLocks(locks)
      throw error
    }
  }
  return { locks, unusable }
}

export async function releaseLocks(locks: readonly (DirectoryLock | null)[]): Promise<void> {
  for (const lock of locks.toReversed()) await lock?.release()
}

async function takeDirectory(environment: LogEnvironment, directory: string): Promise<DirectoryLock> {
  try {
    makeDurableDirectory(environment.files, directory)
    return await environment.lock(directory)
  } catch (error) {
    if (error instanceof StoreError) throw error
    const message = messageOf(error)
    throw new StoreError(
      'unavailable',
      UNUSABLE,
      `${directory} cannot be created or written: ${message}. Choose another data directory, or give this process access`,
      { cause: error },
    )
  }
}
