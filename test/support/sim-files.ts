/**
 * A file system in memory with the page cache of a real one: what was written is read back at once, and what was not synced
 * survives a crash as any legal subset. All chance comes from one seed.
 *
 * C1  data: at a crash, each 512-byte sector that is dirty is on the disk or not, independently of others, in its present or in a former
 *     version; often all sectors of a page (4096 bytes) fare alike. The size is the one on the disk, the present one or one between
 * C2  names: of the changes in each directory since its last sync, the first ones survive; a rename survives whole or not at all
 * C3  fdatasync makes the data and size of one file durable, not its name; syncDirectory makes names durable, not data
 * C4  a failed fdatasync leaves the cache readable and marks it clean: the bytes are lost at the next crash, and the next
 *     fdatasync succeeds without writing them
 * C5  a write that does not fit, or is told to fail, writes a part of its bytes
 */
import assert from 'node:assert/strict'
import type { Files, OpenFile } from '../../src/log/files.ts'

const SECTOR_BYTES = 512
const SECTORS_PER_PAGE = 8

export interface SimFaults {
  /** Code of the error that the next fdatasync of this path meets, or null. */
  sync?(path: string): string | null
  /** Code of the error that the next write to this path meets, or null. */
  write?(path: string): string | null
  /** Changes what a read returns: bits that flipped on the way. */
  read?(path: string, at: number, bytes: Uint8Array): void
  /** Whether another thread makes a file in this directory while the directory is removed. */
  fills?(path: string): boolean
  /** Free bytes of the disk that this path is on; null: it is on the same disk as all others. */
  free?(path: string): number | null
  /** Free bytes that the file system reports, though they cannot be used: blocks reserved for others, quotas. */
  shown?: number
}

interface Inode {
  content: Buffer
  disk: Buffer
  /** Sectors whose content the disk may lack. */
  dirty: Set<number>
}

type Entry = Inode | 'directory'

interface NameOperation {
  readonly path: string
  /** null: the name is removed. */
  readonly entry: Entry | null
  /** Both halves of a rename happen or neither. */
  readonly pair?: NameOperation
}

export class SimFiles implements Files {
  faults: SimFaults = {}
  capacityBytes: number
  readonly #random: () => number
  #names = new Map<string, Entry>([['/', 'directory']])
  #durableNames = new Map<string, Entry>([['/', 'directory']])
  /** Changes of names, by directory, since its last sync. */
  #pending = new Map<string, NameOperation[]>()
  /** Number of the process's life: handles of an earlier one are dead. */
  #life = 0

  constructor(options: { seed: number; capacityBytes?: number }) {
    this.#random = mulberry32(options.seed)
    this.capacityBytes = options.capacityBytes ?? 2 ** 40
  }

  // The world's side

  /** The power fails: C1, C2. Handles die. */
  crash(): void {
    this.#life += 1
    const applied = new Set<NameOperation>()
    for (const operations of this.#pending.values()) {
      const count = Math.floor(this.#random() * (operations.length + 1))
      for (const operation of operations.slice(0, count)) {
        applied.add(operation)
        if (operation.pair) applied.add(operation.pair)
      }
    }
    for (const operations of this.#pending.values()) {
      for (const operation of operations) if (applied.has(operation)) applyName(this.#durableNames, operation)
    }
    this.#pending.clear()
    for (const path of this.#durableNames.keys()) if (!this.#isReachable(path)) this.#durableNames.delete(path)
    this.#names = new Map(this.#durableNames)
    for (const entry of new Set(this.#names.values())) if (entry !== 'directory') this.#crashInode(entry)
  }

  /** The process is killed, the machine goes on: the cache survives, handles die. */
  kill(): void {
    this.#life += 1
  }

  /** Present content, for comparison and for damage. */
  contentOf(path: string): Buffer {
    return this.#inode(path).content
  }

  /** Damage at rest: on the disk and in the cache. */
  damage(path: string, change: (content: Buffer) => Buffer): void {
    const inode = this.#inode(path)
    inode.content = change(Buffer.from(inode.content))
    inode.disk = Buffer.from(inode.content)
    inode.dirty.clear()
  }

  /** Paths of all files, sorted. */
  paths(): string[] {
    return [...this.#names.keys()].filter((path) => this.#names.get(path) !== 'directory').sort()
  }

  clone(seed: number): SimFiles {
    const copy = new SimFiles({ seed, capacityBytes: this.capacityBytes })
    for (const [path, entry] of this.#names) {
      const inode = entry === 'directory' ? entry : settled(entry.content)
      copy.#names.set(path, inode)
      copy.#durableNames.set(path, inode)
    }
    return copy
  }

  // The log's side

  open(path: string, _access: 'read' | 'write'): OpenFile {
    return this.#handle(path, this.#inode(path))
  }

  create(path: string): OpenFile {
    if (this.#names.has(path)) throw systemError('EEXIST', path)
    this.#requireParent(path)
    const inode: Inode = { content: Buffer.alloc(0), disk: Buffer.alloc(0), dirty: new Set() }
    this.#record({ path, entry: inode })
    return this.#handle(path, inode)
  }

  makeDirectory(path: string): void {
    if (this.#names.has(path)) return
    this.#requireParent(path)
    this.#record({ path, entry: 'directory' })
  }

  list(path: string): string[] | null {
    if (this.#names.get(path) !== 'directory') return null
    const names = [...this.#names.keys()].filter((other) => other !== '/' && parent(other) === path)
    return names.map((other) => other.slice(path === '/' ? 1 : path.length + 1)).sort()
  }

  exists(path: string): boolean {
    return this.#names.has(path)
  }

  rename(from: string, to: string): void {
    const entry = this.#names.get(from)
    if (entry === undefined) throw systemError('ENOENT', from)
    this.#requireParent(to)
    const link = { path: to, entry }
    const unlink = { path: from, entry: null, pair: link }
    this.#record(Object.assign(link, { pair: unlink }))
    this.#record(unlink)
    if (entry === 'directory') this.#moveInside(from, to)
  }

  removeFile(path: string): void {
    this.#inode(path)
    this.#record({ path, entry: null })
  }

  removeDirectory(path: string): void {
    if (!this.#names.has(path)) return
    for (const name of this.list(path) ?? []) this.removeDirectory(`${path}/${name}`)
    if (this.faults.fills?.(path)) throw systemError('ENOTEMPTY', path)
    this.#record({ path, entry: null })
  }

  syncDirectory(path: string): void {
    if (this.#names.get(path) !== 'directory') throw systemError('ENOENT', path)
    for (const operation of this.#pending.get(path) ?? []) {
      applyName(this.#durableNames, operation)
      if (operation.pair) applyName(this.#durableNames, operation.pair)
    }
    this.#pending.delete(path)
  }

  freeBytes(path: string): number {
    return this.faults.shown ?? this.#freeBytes(path)
  }

  #freeBytes(path: string): number {
    return this.faults.free?.(path) ?? Math.max(0, this.capacityBytes - this.#usedBytes())
  }

  #handle(path: string, inode: Inode): OpenFile {
    const life = this.#life
    let isClosed = false
    const alive = () => {
      assert(life === this.#life, 'a handle from before the crash')
      assert(!isClosed, `a handle that was closed: ${path}`)
    }
    return {
      writev: (parts, at) => {
        alive()
        this.#write(path, inode, Buffer.concat(parts), at)
      },
      read: (into, at) => {
        alive()
        const count = at < inode.content.byteLength ? inode.content.copy(into, 0, at, at + into.byteLength) : 0
        this.faults.read?.(path, at, into.subarray(0, count))
        return count
      },
      fdatasync: () => {
        alive()
        this.#sync(path, inode)
      },
      truncate: (bytes) => {
        alive()
        resize(inode, bytes)
      },
      size: () => inode.content.byteLength,
      close: () => {
        alive()
        isClosed = true
      },
    }
  }

  #write(path: string, inode: Inode, bytes: Buffer, at: number): void {
    const code = this.faults.write?.(path) ?? null
    const grows = Math.max(0, at + bytes.byteLength - inode.content.byteLength)
    const free = this.#freeBytes(path)
    const fits = code === null && grows <= free
    const most = code === null ? bytes.byteLength - (grows - free) : bytes.byteLength
    const count = fits ? bytes.byteLength : Math.floor(this.#random() * Math.max(0, most)) // C5
    if (at + count > inode.content.byteLength) resize(inode, at + count)
    bytes.copy(inode.content, at, 0, count)
    for (let sector = sectorOf(at); sector <= sectorOf(at + count - 1); sector += 1) inode.dirty.add(sector)
    if (this.#random() < 0.1) this.#writeBack(inode)
    if (!fits) throw systemError(code ?? 'ENOSPC', path)
  }

  #sync(path: string, inode: Inode): void {
    const code = this.faults.sync?.(path) ?? null
    if (code !== null) {
      if (this.#random() < 0.5) this.#writeBack(inode)
      inode.dirty.clear() // C4
      throw systemError(code, path)
    }
    inode.disk = resized(inode.disk, inode.content.byteLength)
    for (const sector of inode.dirty) copySector(inode, inode.disk, sector)
    inode.dirty.clear()
  }

  /** The kernel writes some dirty pages on its own: they stay dirty for the model, with a former version on the disk (C1). */
  #writeBack(inode: Inode): void {
    const disk = resized(inode.disk, Math.max(inode.disk.byteLength, inode.content.byteLength))
    let any = false
    for (const sector of inode.dirty) {
      if (this.#random() < 0.5) continue
      copySector(inode, disk, sector)
      any = true
    }
    if (any) inode.disk = disk
  }

  #crashInode(inode: Inode): void {
    const sizes = [inode.disk.byteLength, inode.content.byteLength]
    const size = this.#random() < 0.8 ? this.#pick(sizes) : this.#between(Math.min(...sizes), Math.max(...sizes))
    const result = resized(inode.disk, Math.max(...sizes))
    let pageSurvives = false
    let isTorn = false
    let page = -1
    for (const sector of [...inode.dirty].sort((a, b) => a - b)) {
      if (Math.floor(sector / SECTORS_PER_PAGE) !== page) {
        page = Math.floor(sector / SECTORS_PER_PAGE)
        pageSurvives = this.#random() < 0.5
        isTorn = this.#random() < 0.3
      }
      if (isTorn ? this.#random() < 0.5 : pageSurvives) copySector(inode, result, sector)
    }
    inode.content = resized(result, size)
    inode.disk = Buffer.from(inode.content)
    inode.dirty.clear()
  }

  #record(operation: NameOperation): void {
    if (operation.entry === null) this.#pending.delete(operation.path)
    applyName(this.#names, operation)
    const directory = parent(operation.path)
    const operations = this.#pending.get(directory)
    if (operations) operations.push(operation)
    else this.#pending.set(directory, [operation])
  }

  /** The content of a renamed directory moves with it; on the disk, once the rename is there. */
  #moveInside(from: string, to: string): void {
    for (const names of [this.#names, this.#durableNames]) {
      for (const [path, entry] of new Map(names)) {
        if (!path.startsWith(`${from}/`)) continue
        if (names === this.#names) names.delete(path)
        names.set(`${to}${path.slice(from.length)}`, entry) // on the disk the content has both names: the one whose directory is there is reachable
      }
    }
  }

  #isReachable(path: string): boolean {
    return path === '/' || (this.#durableNames.get(parent(path)) === 'directory' && this.#isReachable(parent(path)))
  }

  #inode(path: string): Inode {
    const entry = this.#names.get(path)
    if (entry === undefined || entry === 'directory') throw systemError('ENOENT', path)
    return entry
  }

  #requireParent(path: string): void {
    if (this.#names.get(parent(path)) !== 'directory') throw systemError('ENOENT', path)
  }

  #usedBytes(): number {
    let bytes = 0
    for (const entry of new Set(this.#names.values())) if (entry !== 'directory') bytes += entry.content.byteLength
    return bytes
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.#random() * items.length)]!
  }

  #between(low: number, high: number): number {
    return low + Math.floor(this.#random() * (high - low + 1))
  }
}

/** Small seeded generator. Source: mulberry32, Tommy Ettinger, 2017. */
export function mulberry32(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function settled(content: Buffer): Inode {
  return { content: Buffer.from(content), disk: Buffer.from(content), dirty: new Set() }
}

/** Removing a directory also removes what is still in it: a directory made later under its name is another one. */
function applyName(names: Map<string, Entry>, { path, entry, pair }: NameOperation): void {
  if (entry !== null) {
    names.set(path, entry)
    return
  }
  if (names.get(path) === 'directory' && pair === undefined) {
    for (const inside of names.keys()) if (inside.startsWith(`${path}/`)) names.delete(inside)
  }
  names.delete(path)
}

function resize(inode: Inode, bytes: number): void {
  const before = inode.content.byteLength
  inode.content = resized(inode.content, bytes)
  // A sector that grew, or was cut, has to reach the disk again.
  for (let sector = sectorOf(Math.min(before, bytes)); sector <= sectorOf(Math.max(before, bytes)); sector += 1) {
    inode.dirty.add(sector)
  }
}

/** Memory with room for growth; zeros follow the content. */
const withRoom = new WeakSet<ArrayBufferLike>()
const GROWTH = 2

/** Resizes into new memory, or into the room of a file that grew: new memory for each write would make V8 collect garbage again and again. */
function resized(bytes: Buffer, length: number): Buffer {
  if (length === bytes.byteLength) return bytes
  if (length > bytes.byteLength && length <= bytes.buffer.byteLength && withRoom.has(bytes.buffer))
    return Buffer.from(bytes.buffer, 0, length)
  const memory = new ArrayBuffer(length > bytes.byteLength ? Math.max(length, GROWTH * bytes.byteLength) : length)
  withRoom.add(memory)
  const result = Buffer.from(memory, 0, length)
  bytes.copy(result)
  return result
}

function copySector(inode: Inode, into: Buffer, sector: number): void {
  const at = sector * SECTOR_BYTES
  if (at >= into.byteLength) return
  into.fill(0, at, Math.min(at + SECTOR_BYTES, into.byteLength))
  if (at < inode.content.byteLength) inode.content.copy(into, at, at, at + SECTOR_BYTES)
}

function sectorOf(at: number): number {
  return Math.floor(Math.max(0, at) / SECTOR_BYTES)
}

function parent(path: string): string {
  const cut = path.lastIndexOf('/')
  return cut <= 0 ? '/' : path.slice(0, cut)
}

function systemError(code: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: simulated, '${path}'`), { code })
}
