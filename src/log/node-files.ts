/** The file system of this machine behind the log's interface (files.ts). Besides, only direct-*.ts, lock.ts and prepare-file.ts use node:fs under src/log. */
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { isCached, readCached } from '../libc.ts'
import type { ReadMemory } from '../libc.ts'
import { DirectFile } from './direct-file.ts'
import { DirectWrites } from './direct-writes.ts'
import type { CachedFile, Files, OpenFile } from './files.ts'

/** What one writev system call takes (IOV_MAX of Linux). */
const PARTS_MAX = 1024

const CLOSED = -1

/** A read of what is not in memory makes the kernel read it ahead. For a long read, which a thread then does past the page cache, that is wasted. */
const LONG_READ_BYTES = 64 * 1024

class NodeFile implements OpenFile {
  #descriptor: number
  #direct: DirectWrites | null
  readonly #directReads: DirectFile | null

  /** @param direct how long reads and writes go past the page cache; null: they do not */
  constructor(
    descriptor: number,
    direct: { readonly writes?: DirectWrites | null; readonly reads?: DirectFile | null } = {},
  ) {
    this.#descriptor = descriptor
    this.#direct = direct.writes ?? null
    this.#directReads = direct.reads ?? null
  }

  writev(parts: readonly Uint8Array[], at: number): void {
    if (this.#direct === null) return this.#writeCached(parts, at)
    const written = this.#direct.writev(parts, at, (head, from) => this.#writeCached(head, from))
    if (written === 0) return this.#writeCached(parts, at)
    if (written === null) {
      this.#direct.close()
      this.#direct = null
      this.#writeCached(parts, at)
    } else this.#writeCached(withoutFirst(parts, written), at + written)
  }

  #writeCached(parts: readonly Uint8Array[], at: number): void {
    for (let first = 0; first < parts.length; first += PARTS_MAX) {
      at = this.#writeAll(parts.length <= PARTS_MAX ? parts : parts.slice(first, first + PARTS_MAX), at)
    }
  }

  #writeAll(parts: readonly Uint8Array[], at: number): number {
    let left = 0
    for (const part of parts) left += part.byteLength
    for (;;) {
      const written =
        parts.length === 1
          ? fs.writeSync(this.#descriptor, parts[0]!, 0, parts[0]!.byteLength, at)
          : fs.writevSync(this.#descriptor, parts, at)
      at += written
      left -= written
      if (left === 0) return at
      parts = withoutFirst(parts, written)
    }
  }

  read(into: Uint8Array, at: number): number {
    let filled = this.#directReads?.read(into, at) ?? 0
    while (filled < into.byteLength) {
      const count = fs.readSync(this.#descriptor, into, filled, into.byteLength - filled, at + filled)
      if (count === 0) break
      filled += count
    }
    return filled
  }

  fdatasync(): void {
    fs.fdatasyncSync(this.#descriptor)
  }

  truncate(bytes: number): void {
    fs.ftruncateSync(this.#descriptor, bytes)
  }

  size(): number {
    return fs.fstatSync(this.#descriptor).size
  }

  /** Called only once: a moment later the descriptor may be a file of another thread. */
  close(): void {
    const descriptor = this.#descriptor
    assert(descriptor !== CLOSED, 'a file is closed once')
    this.#descriptor = CLOSED
    this.#direct?.close()
    this.#directReads?.close()
    fs.closeSync(descriptor)
  }
}

/** The parts that remain after a short write of `bytes`. */
function withoutFirst(parts: readonly Uint8Array[], bytes: number): Uint8Array[] {
  let index = 0
  let skip = bytes
  while (index < parts.length && skip >= parts[index]!.byteLength) skip -= parts[index++]!.byteLength
  if (index === parts.length) return []
  return [parts[index]!.subarray(skip), ...parts.slice(index + 1)]
}

const isDirectory = (path: string): boolean => fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

function makeDirectory(path: string): void {
  try {
    fs.mkdirSync(path)
  } catch (error) {
    if (!isDirectory(path)) throw error // another thread may have been faster
  }
}

export const nodeFiles: Files = {
  open(path, access, cache = 'all') {
    const descriptor = fs.openSync(path, access === 'read' ? 'r' : 'r+')
    if (cache === 'all') return new NodeFile(descriptor)
    return new NodeFile(
      descriptor,
      access === 'read' ? { reads: DirectFile.open(path) } : { writes: DirectWrites.open(path, cache) },
    )
  },
  create(path, cache = 'all') {
    const descriptor = fs.openSync(path, 'wx+')
    return new NodeFile(descriptor, { writes: cache === 'all' ? null : DirectWrites.open(path, cache) })
  },
  makeDirectory,
  list(path) {
    try {
      return fs.readdirSync(path).sort()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null // node:fs throws nothing else
      throw error
    }
  },
  exists: (path) => fs.existsSync(path),
  rename: (from, to) => fs.renameSync(from, to),
  removeFile: (path) => fs.unlinkSync(path),
  removeDirectory: (path) => fs.rmSync(path, { recursive: true, force: true }),
  syncDirectory(path) {
    const descriptor = fs.openSync(path, 'r')
    try {
      fs.fsyncSync(descriptor)
    } finally {
      fs.closeSync(descriptor)
    }
  },
  freeBytes(path) {
    const { bavail, bsize } = fs.statfsSync(path)
    return bavail * bsize
  },
}

/** Opens a file in the background, as the directory may have to be read from the disk. */
export function openCachedFile(path: string): Promise<CachedFile> {
  const { promise, resolve, reject } = Promise.withResolvers<CachedFile>()
  fs.open(path, 'r', (error, descriptor) => {
    if (error !== null) return reject(error)
    const file = new NodeFile(descriptor)
    resolve({
      read(into: ReadMemory, at) {
        const isMissing = into.byteLength >= LONG_READ_BYTES && isCached(descriptor, at, into.byteLength) === false
        return isMissing ? 0 : readCached(descriptor, into, at)
      },
      close: () => file.close(),
    })
  })
  return promise
}
