/**
 * Backups in a directory.
 *
 * D1  a file is written beside its place, synced, renamed, and its directory synced (T1 of target.ts)
 * D2  a backup locks the directory for itself, readers share the lock. A file system without locks has no such protection
 */
import { StoreError } from '../errors.ts'
import type { DirectoryLock } from '../log/environment.ts'
import { TEMPORARY_SUFFIX, fileBytes, makeDurableDirectory, parentOf, piecesOf } from '../log/files.ts'
import type { Files } from '../log/files.ts'
import { LOCK_NAME, lockDirectory, lockToRead } from '../log/lock.ts'
import { MARKER_KEY } from './snapshot.ts'
import { namesIn } from './source.ts'
import { missingFile } from './target.ts'
import type { BackupTarget, ListedFile, TargetAccess } from './target.ts'

/** @throws StoreError backup_missing, backup_place_taken, backup_place_busy; what the file system throws */
export async function openDirectoryTarget(
  files: Files,
  directory: string,
  access: TargetAccess,
): Promise<BackupTarget> {
  const names = (namesIn(files, directory) ?? []).filter((name) => name !== LOCK_NAME)
  const holdsBackup = names.includes(MARKER_KEY)
  if (access === 'read' && !holdsBackup)
    throw new StoreError('notFound', 'backup_missing', `${directory} holds no backup`)
  const isForeign = names.some((name) => name !== `${MARKER_KEY}${TEMPORARY_SUFFIX}`) && !holdsBackup
  if (isForeign) {
    const message = `${directory} is not empty and holds no backup: choose another directory`
    throw new StoreError('invalid', 'backup_place_taken', message)
  }
  if (access === 'create') makeDurableDirectory(files, directory)
  const lock = await locked(directory, access)
  return new DirectoryTarget(files, directory, lock)
}

async function locked(directory: string, access: TargetAccess): Promise<DirectoryLock | null> {
  try {
    return access === 'create' ? await lockDirectory(directory) : await lockToRead(directory)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    if (error.code === 'data_directory_unusable') return null // D2
    if (error.code !== 'data_directory_locked') throw error
    const message = `${directory}: another backup, check or restore uses it: wait until that has ended`
    throw new StoreError('unavailable', 'backup_place_busy', message, { cause: error })
  }
}

class DirectoryTarget implements BackupTarget {
  readonly name: string
  readonly #files: Files
  readonly #lock: DirectoryLock | null

  constructor(files: Files, directory: string, lock: DirectoryLock | null) {
    this.name = directory
    this.#files = files
    this.#lock = lock
  }

  async list(prefix: string): Promise<readonly ListedFile[]> {
    const cut = prefix.lastIndexOf('/')
    const found: ListedFile[] = []
    this.#walk(cut < 0 ? '' : prefix.slice(0, cut), found)
    return found.filter(({ key }) => key.startsWith(prefix) && !key.endsWith(TEMPORARY_SUFFIX))
  }

  /** D1 */
  async put(key: string, _bytes: number, pieces: Iterable<Uint8Array>): Promise<void> {
    const path = this.#pathOf(key)
    const directory = parentOf(path)
    makeDurableDirectory(this.#files, directory)
    const temporary = `${path}${TEMPORARY_SUFFIX}`
    if (this.#files.exists(temporary)) this.#files.removeFile(temporary)
    const file = this.#files.create(temporary)
    try {
      let at = 0
      for (const piece of pieces) {
        file.writev([piece], at)
        at += piece.byteLength
      }
      file.fdatasync()
    } catch (error) {
      file.close()
      this.#files.removeFile(temporary)
      throw error
    }
    file.close()
    this.#files.rename(temporary, path)
    this.#files.syncDirectory(directory)
  }

  async *read(key: string): AsyncIterable<Uint8Array> {
    const path = this.#pathOf(key)
    if (!this.#files.exists(path)) throw missingFile(this.name, key)
    yield* piecesOf(this.#files, path)
  }

  async remove(keys: readonly string[]): Promise<void> {
    const changed = new Set<string>()
    for (const key of keys) {
      const path = this.#pathOf(key)
      if (!this.#files.exists(path)) continue
      this.#files.removeFile(path)
      changed.add(parentOf(path))
    }
    for (const directory of changed) {
      if (this.#files.list(directory)?.length === 0) this.#files.removeDirectory(directory)
      else this.#files.syncDirectory(directory)
    }
  }

  async close(): Promise<void> {
    await this.#lock?.release()
  }

  #walk(folder: string, found: ListedFile[]): void {
    const directory = folder === '' ? this.name : this.#pathOf(folder)
    for (const name of this.#files.list(directory) ?? []) {
      const key = folder === '' ? name : `${folder}/${name}`
      const bytes = this.#sizeOf(key)
      if (bytes === null) this.#walk(key, found)
      else found.push({ key, bytes })
    }
  }

  /** Null: it is a directory. */
  #sizeOf(key: string): number | null {
    if (namesIn(this.#files, this.#pathOf(key)) !== null) return null
    return fileBytes(this.#files, this.#pathOf(key))
  }

  #pathOf = (key: string): string => `${this.name}/${key}`
}
