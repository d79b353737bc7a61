/**
 * One process per data directory: an advisory lock (flock) on the directory itself. The kernel releases it when the process ends, however
 * it ends, so there is no stale lock to clean up. The lock belongs to the directory's inode, so containers that share a volume on one
 * machine are kept apart, too. LOCK holds the pid, for people.
 */
import fs from 'node:fs'
import { StoreError } from '../errors.ts'
import { tryLock } from '../libc.ts'
import type { DirectoryLock } from './environment.ts'

export const LOCK_NAME = 'LOCK'
/** Directories that this process has locked, by device and inode. LOCK cannot tell: processes in two containers may have the same pid. */
const ours = new Set<string>()

/**
 * @throws StoreError unavailable data_directory_locked, naming the process that has it; invalid data_directory_unusable when the file system
 *   takes no locks; what the file system throws
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  return take(directory, 'exclusive')
}

/** Takes a lock that readers share. It writes nothing. @throws as `lockDirectory` */
export const lockToRead = async (directory: string): Promise<DirectoryLock> => take(directory, 'shared')

function take(directory: string, kind: 'exclusive' | 'shared'): DirectoryLock {
  const path = `${directory}/${LOCK_NAME}`
  const descriptor = fs.openSync(directory, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
  const { dev, ino } = fs.fstatSync(descriptor)
  const identity = `${dev}:${ino}`
  try {
    const failure = tryLock(descriptor, kind)
    if (failure === 'EAGAIN') throw ours.has(identity) ? lockedByUs(directory) : lockedBy(directory, path)
    if (failure !== null) {
      const message = `${directory}: its file system takes no locks (${failure}): choose another data directory`
      throw new StoreError('invalid', 'data_directory_unusable', message)
    }
    if (kind === 'exclusive') fs.writeFileSync(path, `${process.pid}\n`)
  } catch (error) {
    fs.closeSync(descriptor)
    throw error
  }
  if (kind === 'exclusive') ours.add(identity)
  return {
    release: async () => {
      if (kind === 'exclusive') ours.delete(identity)
      fs.closeSync(descriptor)
    },
  }
}

function lockedBy(directory: string, path: string): StoreError {
  const pid = fs.existsSync(path) ? fs.readFileSync(path, 'utf8').trim() : 'unknown'
  return locked(`${directory} is in use by process ${pid}: stop it, or choose another data directory`)
}

const lockedByUs = (directory: string): StoreError =>
  locked(`${directory} is in use by this process: choose another data directory`)

const locked = (message: string): StoreError => new StoreError('unavailable', 'data_directory_locked', message)
