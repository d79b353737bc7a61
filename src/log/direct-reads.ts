/**
 * Long reads that go past the page cache (O_DIRECT), where it has not got them. To read 16 MiB through it, the page cache takes each page from the
 * system first: 17 ms of the processor, and 45 until they are there. Past it, it takes 2, and 10 to 20.
 *
 * Q1  what is in the page cache is not read here: it is there sooner, and costs nothing. Where the kernel does not say what is (before Linux 6.5),
 *     all reads go through it
 * Q2  reads of one call are under way together; neighbours become one
 * Q3  nothing here fails: what could not be read is left to the caller's own way, which says why
 * Q4  what is returned stands in memory that the next call writes over
 */
import fs from 'node:fs'
import { alignedMemory, isCached } from '../libc.ts'
import { BLOCK_BYTES } from './direct-file.ts'
import { errorCode } from './files.ts'
import { OpenSegments } from './open-segments.ts'

const MEMORY_BYTES = 5 << 20
/** Q2. Longer ones are not faster. */
const READ_BYTES_MAX = (1 << 20) + 4 * BLOCK_BYTES
const OPEN_FILES_MAX = 32 // two descriptors each

export interface Range {
  /** The base of the segment whose file holds the range. */
  readonly base: number
  readonly at: number
  readonly bytes: number
}

/** One that is read, by blocks. */
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
  /** Whether the page cache has all of it; null: that is not to be found out. */
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

  /** Q1, Q3: true also where it cannot be read. */
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

  /** The file system has no such way, or says so only when it is to read. */
  #failed(error: unknown): void {
    const code = errorCode(error)
    if (code === 'unknown') throw error
    if (code === 'EINVAL') this.#isImpossible = true
  }
}

interface Piece {
  readonly base: number
  /** In the file. */
  readonly begin: number
  readonly bytes: Buffer
}

export class Loaded {
  readonly #pieces: readonly Piece[]

  constructor(pieces: readonly Piece[]) {
    this.#pieces = pieces
  }

  /** What stands there. Null: it was not loaded, or not all of it. */
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
