/**
 * Long reads that go past the page cache (O_DIRECT), for what it does not hold. Reading 16 MiB through the page cache, which takes each page from the
 * system first, costs 17 ms of processor time and lasts 45 ms. Past it, the read costs 2 ms and lasts 10 to 20 ms.
 *
 * Q1  what is in the page cache is not read here: the cache has it sooner, and it costs nothing. If the kernel cannot tell what is in the cache (before
 *     Linux 6.5), all reads go through it
 * Q2  reads of one call are under way together; adjacent ranges become one read
 * Q3  nothing here fails: the caller reads what could not be read in its own way, which reports why
 * Q4  what is returned stands in memory that the next call overwrites
 */
import fs from 'node:fs'
import { alignedMemory, isCached } from '../libc.ts'
import { BLOCK_BYTES } from './direct-file.ts'
import { errorCode } from './files.ts'
import { OpenSegments } from './open-segments.ts'

const MEMORY_BYTES = 5 << 20
/** Q2. Longer reads are not faster. */
const READ_BYTES_MAX = (1 << 20) + 4 * BLOCK_BYTES
const OPEN_FILES_MAX = 32 // two descriptors each

export interface Range {
  /** The base of the segment whose file holds the range. */
  readonly base: number
  readonly at: number
  readonly bytes: number
}

/** A range that is read, in whole blocks. */
interface Window {
  readonly base: number
  readonly begin: number
  end: number
}

interface Descriptors {
  readonly cached: number
  readonly direct: number
  close(): void
}

/** The calls of the operating system; tests pass in others. */
export interface FileCalls extends Pick<typeof fs, 'openSync' | 'closeSync'> {
  /** Resolves with the bytes read. */
  read(descriptor: number, into: Buffer, at: number): Promise<number>
  /** Whether the page cache has all of it; null: the kernel cannot tell. */
  isCached(descriptor: number, at: number, bytes: number): boolean | null
}

export class DirectReads {
  readonly #pathOf: (base: number) => string
  readonly #system: FileCalls
  readonly #open = new OpenSegments<Descriptors>(OPEN_FILES_MAX)
  #memory: Buffer | null = null
  #isImpossible = false

  constructor(pathOf: (base: number) => string, system: FileCalls = SYSTEM) {
    this.#pathOf = pathOf
    this.#system = system
  }

  /** Q1 to Q4 */
  async load(ranges: readonly Range[]): Promise<Loaded> {
    const windows = this.#isImpossible ? [] : windowsOf(ranges.filter((range) => !this.#isCached(range)))
    if (windows.length === 0) return NOTHING_LOADED
    const memory = (this.#memory ??= alignedMemory(MEMORY_BYTES, BLOCK_BYTES))
    const loaded: Piece[] = []
    const reads: Promise<unknown>[] = []
    let used = 0
    for (const { base, begin, end } of windows) {
      const descriptors = this.#open.get(base)
      if (descriptors === undefined || used + end - begin > memory.byteLength) continue
      const into = memory.subarray(used, used + end - begin)
      used += into.byteLength
      const read = this.#system.read(descriptors.direct, into, begin)
      reads.push(
        read.then(
          (count) => loaded.push({ base, begin, bytes: into.subarray(0, count) }),
          (error: unknown) => this.#failed(error),
        ),
      )
    }
    await Promise.all(reads)
    return new Loaded(loaded)
  }

  /** Closes the files of segments before `oldestBase`, or of all. */
  close(oldestBase = Infinity): void {
    this.#open.closeBefore(oldestBase)
  }

  /** Q1, Q3. True also when the range cannot be read. */
  #isCached({ base, at, bytes }: Range): boolean {
    const descriptors = this.#open.get(base) ?? this.#openFile(base)
    if (descriptors === null) return true
    const isCached = this.#system.isCached(descriptors.cached, at, bytes)
    if (isCached === null) this.#isImpossible = true
    return isCached ?? true
  }

  /** Q3 */
  #openFile(base: number): Descriptors | null {
    const system = this.#system
    const path = this.#pathOf(base)
    let cached = -1
    try {
      cached = system.openSync(path, 'r')
      const direct = system.openSync(path, fs.constants.O_RDONLY | fs.constants.O_DIRECT)
      const close = (): void => {
        system.closeSync(cached)
        system.closeSync(direct)
      }
      return this.#open.add(base, { cached, direct, close })
    } catch (error) {
      if (cached >= 0) system.closeSync(cached)
      this.#failed(error)
      return null
    }
  }

  /** EINVAL: the file system cannot read this way. Some say so only at the first read. */
  #failed(error: unknown): void {
    const code = errorCode(error)
    if (code === 'unknown') throw error
    if (code === 'EINVAL') this.#isImpossible = true
  }
}

interface Piece {
  readonly base: number
  /** Where the piece begins in the file. */
  readonly begin: number
  readonly bytes: Buffer
}

export class Loaded {
  readonly #pieces: readonly Piece[]

  constructor(pieces: readonly Piece[]) {
    this.#pieces = pieces
  }

  /** The bytes of a range. Null: they were not loaded, or not all of them. */
  at(base: number, at: number, bytes: number): Buffer | null {
    const piece = this.#pieces.find(
      (each) => each.base === base && each.begin <= at && at + bytes <= each.begin + each.bytes.byteLength,
    )
    return piece?.bytes.subarray(at - piece.begin, at - piece.begin + bytes) ?? null
  }
}

export const NOTHING_LOADED = new Loaded([])

/** Q2 */
function windowsOf(ranges: readonly Range[]): readonly Window[] {
  const windows: Window[] = []
  for (const { base, at, bytes } of ranges.toSorted((a, b) => a.base - b.base || a.at - b.at)) {
    const begin = at - (at % BLOCK_BYTES)
    const end = Math.ceil((at + bytes) / BLOCK_BYTES) * BLOCK_BYTES
    const last = windows.at(-1)
    const isNext = last?.base === base && begin <= last.end && end - last.begin <= READ_BYTES_MAX
    if (isNext) last.end = Math.max(last.end, end)
    else windows.push({ base, begin, end })
  }
  return windows
}

const SYSTEM: FileCalls = {
  openSync: fs.openSync,
  closeSync: fs.closeSync,
  read: (descriptor, into, at) =>
    new Promise((resolve, reject) => {
      fs.read(descriptor, into, 0, into.byteLength, at, (error, count) => {
        if (error === null) resolve(count)
        else reject(error)
      })
    }),
  isCached,
}
