/**
 * The one interface between the log and a file system. It is synchronous, because lanes and the start-up call it; a request reads at most a
 * `CachedFile`.
 * `node-files.ts` is the real one; tests bring a simulated one with a page cache that loses, tears and reorders.
 *
 * After a failed `fdatasync` the system may have dropped the bytes. A second one that succeeds proves nothing.
 *
 * F1  the bytes of a file are durable after its `fdatasync`, its name after `syncDirectory` of its parent
 * F2  a failure is thrown as an error with the `code` of the operating system ('ENOSPC', 'EIO', …)
 */

import type { ReadMemory } from '../libc.ts'
import { atOnce } from '../steps.ts'
import type { Steps } from '../steps.ts'

/**
 * Which reads and writes go through the page cache. `short`: long ones go past it, where the file system lets them; they take a tenth of the
 * processor time then. The next reader of the bytes waits for the disk. `medium`: writes of 256 KiB
 * to 1 MiB go through it, too.
 */
export type PageCache = 'all' | 'medium' | 'short'

export interface OpenFile {
  /** Writes all parts one after the other at byte `at`, completing short writes, or throws. */
  writev(parts: readonly Uint8Array[], at: number): void
  /** Fills `into` from byte `at`; the bytes read, fewer than asked only at the end of the file. */
  read(into: Uint8Array, at: number): number
  fdatasync(): void
  truncate(bytes: number): void
  size(): number
  close(): void
}

export interface Files {
  /** Throws ENOENT when absent. */
  open(path: string, access: 'read' | 'write', cache?: PageCache): OpenFile
  /** A new, empty file; throws EEXIST. */
  create(path: string, cache?: PageCache): OpenFile
  /** Does nothing when it exists; throws ENOENT without its parent. The name becomes durable by `syncDirectory` of the parent. */
  makeDirectory(path: string): void
  /** Names in the directory, sorted; null when there is no such directory. */
  list(path: string): string[] | null
  exists(path: string): boolean
  /** Replaces a file at `to`. */
  rename(from: string, to: string): void
  removeFile(path: string): void
  /** Also removes everything in it. Does nothing when it does not exist. */
  removeDirectory(path: string): void
  syncDirectory(path: string): void
  /** Bytes an unprivileged process can still write to the file system of `path`. */
  freeBytes(path: string): number
}

/** A file as far as the page cache has it: reading it never waits for the disk, so that main may. */
export interface CachedFile {
  /**
   * Fills what `into` points to from byte `at`; the bytes read, fewer than asked also when the others are not in memory. Null: the file system
   * cannot tell what is in memory.
   */
  read(into: ReadMemory, at: number): number | null
  close(): void
}

/** The operating system's code of a failure ('EIO'), or 'unknown'. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return 'unknown'
  return typeof error.code === 'string' ? error.code : 'unknown'
}

/** The file system has no room for the write: no free blocks, or none within the quota. */
export const isFullDisk = (error: unknown): boolean => ['ENOSPC', 'EDQUOT'].includes(errorCode(error))

/** The whole file, or null when it does not exist. */
export function readWhole(files: Files, path: string): Buffer | null {
  if (!files.exists(path)) return null
  return withOpenFile(files, path, (file) => {
    const bytes = Buffer.alloc(file.size())
    return bytes.subarray(0, file.read(bytes, 0))
  })
}

/** Opens a file, has it read, closes it. @throws what the file system throws */
export function withOpenFile<Result>(files: Files, path: string, read: (file: OpenFile) => Result): Result {
  const file = files.open(path, 'read')
  try {
    return read(file)
  } finally {
    file.close()
  }
}

/** How long a file is. @throws what the file system throws */
export const fileBytes = (files: Files, path: string): number => withOpenFile(files, path, (file) => file.size())

const PIECE_BYTES = 1 << 20

/** A file from a byte on, piece by piece, in memory that is used again. @throws what the file system throws */
export function* piecesOf(files: Files, path: string, from = 0): Generator<Buffer, void, undefined> {
  const file = files.open(path, 'read')
  try {
    const memory = Buffer.allocUnsafe(Math.min(PIECE_BYTES, file.size()))
    for (let at = from; ;) {
      const bytes = file.read(memory, at)
      if (bytes === 0) return
      yield memory.subarray(0, bytes)
      at += bytes
    }
  } finally {
    file.close()
  }
}

const SYNCED_BYTES = 1 << 20

/**
 * Syncs the file each time that a MiB was written: one sync at the end of a long file would hold up the journal's syncs on the same disk for as long as
 * it takes. The caller syncs what was written since.
 */
export function syncedInTurns(file: OpenFile): OpenFile {
  let unsynced = 0
  const fdatasync = (): void => {
    file.fdatasync()
    unsynced = 0
  }
  return {
    fdatasync,
    writev(parts, at) {
      let waiting: Uint8Array[] = []
      let end = at
      for (const part of parts) {
        for (let from = 0; from < part.byteLength;) {
          const piece = part.subarray(from, from + SYNCED_BYTES - unsynced)
          waiting.push(piece)
          from += piece.byteLength
          end += piece.byteLength
          unsynced += piece.byteLength
          if (unsynced < SYNCED_BYTES) continue
          file.writev(waiting, at)
          fdatasync()
          at = end
          waiting = []
        }
      }
      if (waiting.length > 0) file.writev(waiting, at)
    },
    read: (into, at) => file.read(into, at),
    truncate: (bytes) => file.truncate(bytes),
    size: () => file.size(),
    close: () => file.close(),
  }
}

/**
 * A file that is there whole or not at all, also after a power cut: written beside, synced, renamed, directory synced.
 * `directory` exists.
 *
 * @param check reads what was written, before it gets its name; what it throws ends the attempt
 */
export function publishFile(
  files: Files,
  directory: string,
  name: string,
  parts: readonly Uint8Array[],
  check?: (path: string) => void,
): void {
  publishWritten(files, directory, name, (file) => file.writev(parts, 0), check)
}

/** `publishFile` of a content that is written in parts. @returns what `write` returned */
export function publishWritten<Written>(
  files: Files,
  directory: string,
  name: string,
  write: (file: OpenFile) => Written,
  check?: (path: string) => void,
): Written {
  // oxlint-disable-next-line require-yield
  const steps = function* (file: OpenFile): Steps<Written> {
    return write(file)
  }
  return atOnce(publishInSteps(files, directory, name, steps, { check }))
}

/**
 * `publishFile` of a content that takes long to write.
 *
 * @param how `check`: as for `publishWritten`; `cache`: what of it goes through the page cache
 */
export function* publishInSteps<Written>(
  files: Files,
  directory: string,
  name: string,
  write: (file: OpenFile) => Steps<Written>,
  how: { readonly check?: ((path: string) => void) | undefined; readonly cache?: PageCache } = {},
): Steps<Written> {
  const temporary = `${directory}/${name}${TEMPORARY_SUFFIX}`
  if (files.exists(temporary)) files.removeFile(temporary)
  const file = syncedInTurns(files.create(temporary, how.cache))
  let written: Written
  try {
    written = yield* write(file)
    file.fdatasync()
    how.check?.(temporary)
  } catch (error) {
    file.close()
    files.removeFile(temporary) // on a full disk its room is needed
    throw error
  }
  file.close()
  files.rename(temporary, `${directory}/${name}`)
  files.syncDirectory(directory)
  return written
}

/** What was left by a crash in the middle of `publishFile`. */
export const TEMPORARY_SUFFIX = '.tmp'

/** Makes the directory and its name durable, parents included as far as they are new. */
export function makeDurableDirectory(files: Files, path: string): void {
  const missing: string[] = []
  for (let at = path; !files.exists(at); at = parentOf(at)) missing.push(at)
  for (const each of missing.toReversed()) makeDurableInParent(files, each)
}

/** As `makeDurableDirectory`, but throws ENOENT when the parent is gone: a new parent would hide what was in it. */
export function makeDurableInParent(files: Files, path: string): void {
  if (files.exists(path)) return
  files.makeDirectory(path)
  files.syncDirectory(parentOf(path))
}

export function parentOf(path: string): string {
  const cut = path.lastIndexOf('/')
  if (cut < 0) return '.'
  return cut === 0 ? '/' : path.slice(0, cut)
}
