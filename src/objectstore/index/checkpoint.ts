/**
 * The index as bytes for a file, and back. Integers are little-endian.
 *
 *   offset  bytes  field       meaning
 *        0      4  magic       u32, MAGIC
 *        4      2  version     u16, VERSION
 *        6      2  pageBytes   u16, PAGE_BYTES
 *        8      2  valueBytes  u16, VALUE_BYTES
 *       10      2  unused      0
 *       12      4  root        u32, number of the root page
 *       16      4  pages       u32, how many
 *       20      4  buckets     u32, how many have keys
 *       24   12·n  buckets     number u32, keys f64
 *        …      …  pages       number u32, then the page without its gap (page.ts); each once, in any order
 *
 * The first part is all before the pages. Further ones hold whole pages.
 *
 * C1  the checkpoint is the index as it was when the writer was made: a page is written before it changes
 * C2  a part is a copy in memory of its own, fit to be handed to another thread
 * C3  the caller takes care of checksums. What another version wrote is refused
 *
 * Cost: a part copies up to a MiB. Pages that are written early, because they are about to change, are held until they are asked for. So the slower the
 * parts are taken, and the more changes there are, the more of the index is in memory twice.
 */
import { StoreError } from '../../errors.ts'
import { Page } from './page.ts'
import { PAGE_BYTES, PageMemory } from './page-memory.ts'
import type { PageWatcher } from './page-memory.ts'
import { KeyTree } from './tree.ts'
import { VALUE_BYTES } from './value.ts'

const MAGIC = 0x58_49_4b_54 // 'TKIX'
const VERSION = 1
const HEADER_BYTES = 24
const BUCKET_ROW_BYTES = 12
const NUMBER_BYTES = 4
const PAGE_ROW_BYTES_MAX = NUMBER_BYTES + PAGE_BYTES
const PART_BYTES = 2 ** 20

/** The content of an index. */
export interface IndexContent {
  readonly tree: KeyTree
  /** Keys by bucket, of those that have any. */
  readonly sizes: Map<number, number>
}

export class CheckpointWriter implements PageWatcher {
  readonly #memory: PageMemory
  readonly #page: Page
  readonly #pageCount: number
  /** By page: 1 when it is written. */
  readonly #written: Uint8Array
  #next = 0
  readonly #ready: Uint8Array<ArrayBuffer>[] = []
  #part: Buffer<ArrayBuffer> | null = null
  #partBytes = 0

  constructor(content: IndexContent) {
    this.#memory = content.tree.memory
    this.#page = new Page(this.#memory)
    this.#pageCount = this.#memory.count
    this.#written = new Uint8Array(this.#pageCount)
    this.#ready.push(encodeHeader(content))
    this.#memory.watch(this)
  }

  /** Bytes that were written and not taken yet. */
  get bytes(): number {
    return this.#ready.reduce((sum, part) => sum + part.byteLength, this.#partBytes)
  }

  /** The next part; null when there are no more. */
  next(): Uint8Array<ArrayBuffer> | null {
    while (this.#ready.length === 0 && this.#next < this.#pageCount) this.#write(this.#next++)
    if (this.#ready.length === 0) {
      this.#memory.unwatch(this)
      this.#endPart()
    }
    return this.#ready.shift() ?? null
  }

  /** Forgets the rest: changes of the index cost nothing more. */
  abandon(): void {
    this.#memory.unwatch(this)
    this.#next = this.#pageCount
    this.#ready.length = 0
    this.#part = null
  }

  /** C1 */
  beforeChange(number: number): void {
    if (number < this.#pageCount) this.#write(number)
  }

  #write(number: number): void {
    if (this.#written[number] === 1) return
    this.#written[number] = 1
    const page = this.#page.open(number)
    const bytes = NUMBER_BYTES + page.encodedBytes
    if (this.#partBytes + bytes > PART_BYTES) this.#endPart()
    this.#part ??= Buffer.from(new ArrayBuffer(PART_BYTES)) // C2
    this.#part.writeUInt32LE(number, this.#partBytes)
    page.encode(this.#part, this.#partBytes + NUMBER_BYTES)
    this.#partBytes += bytes
  }

  #endPart(): void {
    if (this.#part !== null) this.#ready.push(new Uint8Array(this.#part.buffer, 0, this.#partBytes))
    this.#part = null
    this.#partBytes = 0
  }
}

/** Reads what was written, in its order, from pieces that are cut anywhere. */
export class CheckpointReader {
  readonly #memory = new PageMemory()
  readonly #page = new Page(this.#memory)
  readonly #sizes = new Map<number, number>()
  #root = 0
  /** By page: 1 when it was there. */
  #read: Uint8Array | null = null
  #pagesLeft = 0
  /** The beginning of something that is not complete yet. */
  #rest: Buffer = Buffer.alloc(0)

  /** @param part valid during the call. @throws StoreError `corrupt` when it is not of this version (C3) */
  push(part: Uint8Array): void {
    const bytes = Buffer.from(part.buffer, part.byteOffset, part.byteLength)
    const restBytes = this.#rest.length
    const begun = Buffer.concat([
      this.#rest,
      bytes.subarray(0, this.#read === null ? bytes.length : PAGE_ROW_BYTES_MAX),
    ])
    let at = this.#readNext(begun, 0)
    if (at === 0) {
      this.#rest = begun // the part is shorter than what has begun
      return
    }
    at -= restBytes
    for (let read = at; read > 0 && at < bytes.length; at += read) read = this.#readNext(bytes, at)
    this.#rest = Buffer.from(bytes.subarray(at))
  }

  /** @throws StoreError `corrupt` when parts are missing */
  finish(): IndexContent {
    if (this.#read === null || this.#pagesLeft > 0) throw unreadable(`${this.#pagesLeft} pages too few`)
    if (this.#rest.length > 0) throw unreadable(`${this.#rest.length} bytes too many`)
    return { tree: new KeyTree(this.#memory, this.#root), sizes: this.#sizes }
  }

  /** Reads the header, or the next page. Returns how many bytes it has; 0 when it is not complete. */
  #readNext(bytes: Buffer, at: number): number {
    return this.#read === null ? this.#readHeader(bytes) : this.#readPage(bytes, at)
  }

  #readHeader(bytes: Buffer): number {
    if (bytes.length < HEADER_BYTES) return 0
    if (bytes.readUInt32LE(0) !== MAGIC) throw unreadable('no header')
    const version = bytes.readUInt16LE(4)
    if (version !== VERSION) throw unreadable(`version ${version}`)
    if (bytes.readUInt16LE(6) !== PAGE_BYTES || bytes.readUInt16LE(8) !== VALUE_BYTES) throw unreadable('other pages')
    const pages = bytes.readUInt32LE(16)
    const end = HEADER_BYTES + BUCKET_ROW_BYTES * bytes.readUInt32LE(20)
    this.#root = bytes.readUInt32LE(12)
    if (this.#root >= pages) throw unreadable('a header that does not hold')
    if (bytes.length < end) return 0
    for (let at = HEADER_BYTES; at < end; at += BUCKET_ROW_BYTES) {
      this.#sizes.set(bytes.readUInt32LE(at), bytes.readDoubleLE(at + 4))
    }
    for (let page = 0; page < pages; page++) this.#memory.add()
    this.#read = new Uint8Array(pages)
    this.#pagesLeft = pages
    return end
  }

  #readPage(bytes: Buffer, at: number): number {
    const left = bytes.length - at
    if (left < NUMBER_BYTES) return 0
    const number = bytes.readUInt32LE(at)
    if (this.#read?.[number] !== 0) throw unreadable(`a page ${number} that cannot be`)
    const pageBytes = this.#page.open(number).decode(bytes, at + NUMBER_BYTES)
    if (pageBytes === 0) {
      if (left >= PAGE_ROW_BYTES_MAX) throw unreadable(`a page ${number} that does not hold`)
      return 0
    }
    this.#read[number] = 1
    this.#pagesLeft -= 1
    return NUMBER_BYTES + pageBytes
  }
}

function encodeHeader({ tree, sizes }: IndexContent): Uint8Array<ArrayBuffer> {
  const bytes = Buffer.from(new ArrayBuffer(HEADER_BYTES + BUCKET_ROW_BYTES * sizes.size))
  bytes.writeUInt32LE(MAGIC, 0)
  bytes.writeUInt16LE(VERSION, 4)
  bytes.writeUInt16LE(PAGE_BYTES, 6)
  bytes.writeUInt16LE(VALUE_BYTES, 8)
  bytes.writeUInt32LE(tree.root, 12)
  bytes.writeUInt32LE(tree.memory.count, 16)
  bytes.writeUInt32LE(sizes.size, 20)
  let at = HEADER_BYTES
  for (const [bucket, keys] of sizes) {
    bytes.writeUInt32LE(bucket, at)
    bytes.writeDoubleLE(keys, at + 4)
    at += BUCKET_ROW_BYTES
  }
  return bytes
}

const unreadable = (what: string): StoreError =>
  new StoreError('corrupt', 'key_index_unreadable', `a checkpoint of the key index has ${what}`)
