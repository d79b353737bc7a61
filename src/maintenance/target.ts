/**
 * Where backups are kept: a flat set of files by key.
 *
 * T1  what was put is there whole and durable, or not at all
 * T2  one backup at a time writes, as far as the place can tell
 */
import { StoreError } from '../errors.ts'

export interface ListedFile {
  readonly key: string
  readonly bytes: number
}

export interface BackupTarget {
  /** For messages. */
  readonly name: string
  list(prefix: string): Promise<readonly ListedFile[]>
  /** T1. Passes on what `pieces` throws, and keeps nothing then. */
  put(key: string, bytes: number, pieces: Iterable<Uint8Array>): Promise<void>
  /** One piece after the other, each good until the next is asked for. @throws StoreError backup_file_missing when there is no such file */
  read(key: string): AsyncIterable<Uint8Array>
  /** Missing keys are no error. */
  remove(keys: readonly string[]): Promise<void>
  close(): Promise<void>
}

/** How a target is opened. `create` may write; `read` finds what is there. */
export type TargetAccess = 'create' | 'read'

export const missingFile = (name: string, key: string, cause?: unknown): StoreError =>
  new StoreError('corrupt', 'backup_file_missing', `${name}: ${key} is missing`, { cause })

export async function readAll(target: BackupTarget, key: string): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of target.read(key)) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces)
}
