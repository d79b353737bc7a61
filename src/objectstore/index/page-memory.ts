/**
 * The memory of all pages: chunks outside the JavaScript heap, each of many pages. The system gives a new chunk memory only where it is written.
 *
 * M1  pages are numbered 0 ..< count without gaps. When a page is given back, the last one moves into its place, so memory never has holes
 */
import assert from 'node:assert/strict'

export const PAGE_BYTES = 8192
const CHUNK_PAGES_LOG2 = 7
const CHUNK_PAGES = 2 ** CHUNK_PAGES_LOG2
const CHUNK_BYTES = CHUNK_PAGES * PAGE_BYTES
/** Empty chunks that are kept, so that a count that goes to and fro does not give back and ask for memory each time. */
const CHUNKS_SPARE_MAX = 1

export interface PageWatcher {
  beforeChange(number: number): void
}

export class PageMemory {
  readonly #chunks: Buffer[] = []
  readonly #words: Uint16Array<ArrayBuffer>[] = []
  readonly #longs: Uint32Array<ArrayBuffer>[] = []
  #count = 0
  #watcher: PageWatcher | null = null

  get count(): number {
    return this.#count
  }

  get bytes(): number {
    return CHUNK_BYTES * this.#chunks.length
  }

  chunkOf(number: number): Buffer {
    return this.#chunks[number >>> CHUNK_PAGES_LOG2]!
  }

  /** The chunk's bytes two by two. */
  wordsOf(number: number): Uint16Array<ArrayBuffer> {
    return this.#words[number >>> CHUNK_PAGES_LOG2]!
  }

  /** The chunk's bytes four by four. */
  longsOf(number: number): Uint32Array<ArrayBuffer> {
    return this.#longs[number >>> CHUNK_PAGES_LOG2]!
  }

  /** Where in its chunk a page begins. */
  baseOf(number: number): number {
    return PAGE_BYTES * (number & (CHUNK_PAGES - 1))
  }

  /** Tells the code that copies pages of each change before it happens. One copy runs at a time. */
  watch(watcher: PageWatcher): void {
    assert(this.#watcher === null, 'one checkpoint of an index at a time')
    this.#watcher = watcher
  }

  unwatch(watcher: PageWatcher): void {
    if (this.#watcher === watcher) this.#watcher = null
  }

  beforeChange(number: number): void {
    if (this.#watcher !== null) this.#watcher.beforeChange(number)
  }

  /** A page more, to be filled by the caller. */
  add(): number {
    if (this.#count === CHUNK_PAGES * this.#chunks.length) {
      const memory = new ArrayBuffer(CHUNK_BYTES)
      this.#chunks.push(Buffer.from(memory))
      this.#words.push(new Uint16Array(memory))
      this.#longs.push(new Uint32Array(memory))
    }
    return this.#count++
  }

  /** Gives back a page that is not needed: the last page is copied into its place, unless it is that one (M1). */
  removeLast(into: number): void {
    const last = this.#count - 1
    this.beforeChange(last)
    if (into !== last) {
      this.beforeChange(into)
      const from = this.baseOf(last)
      this.chunkOf(last).copy(this.chunkOf(into), this.baseOf(into), from, from + PAGE_BYTES)
    }
    this.#count = last
    const spare = this.#chunks.length - Math.ceil(last / CHUNK_PAGES)
    if (spare > CHUNKS_SPARE_MAX) {
      this.#chunks.pop()
      this.#words.pop()
      this.#longs.pop()
    }
  }
}
