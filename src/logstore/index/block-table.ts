/**
 * Access to the blocks of one index file: every block is verified against its checksum when it is read, and kept in the
 * thread's cache. The search logic above knows rows only, not where the bytes come from.
 */
import { crc32 } from 'node:zlib'
import { StoreError } from '../../errors.ts'
import { errorCode } from '../../log/files.ts'
import type { Block, BlockCache } from './block-cache.ts'
import { BLOCK_BYTES, BLOCK_WORDS, HEADER_BYTES, ROW_WORDS, readIndexHeader } from './index-file.ts'
import type { IndexHeader, SectionName } from './index-file.ts'
import type { BundleFile } from './segment-files.ts'

export class BlockFile {
  readonly header: IndexHeader
  readonly #source: BundleFile
  readonly #bundle: string
  readonly #cache: BlockCache
  readonly #owner: number
  readonly #checksums: Uint32Array

  /**
   * Reads header and block checksums, usually in one read.
   *
   * @param bundle its name, for messages
   */
  constructor(source: BundleFile, bundle: string, cache: BlockCache) {
    this.#source = source
    this.#bundle = bundle
    const fileBytes = source.size()
    const first = this.#read(0, Math.min(fileBytes, BLOCK_BYTES))
    const header = readIndexHeader(first, fileBytes)
    if ('problem' in header) throw this.#corrupt(`index.bin is damaged: ${header.problem}`)
    const tableBytes = 4 * header.blockCount
    const begin = HEADER_BYTES + tableBytes <= first.byteLength ? first : this.#read(0, HEADER_BYTES + tableBytes)
    const table = begin.subarray(HEADER_BYTES, HEADER_BYTES + tableBytes)
    if (crc32(table) !== header.checksumsCrc)
      throw this.#corrupt('index.bin is damaged: checksums of its blocks mismatch')
    this.#checksums = new Uint32Array(header.blockCount)
    new Uint8Array(this.#checksums.buffer).set(table)
    this.header = header
    this.#cache = cache
    this.#owner = cache.newOwner()
  }

  /** Words of a block, verified. */
  block(number: number): Block {
    const cached = this.#cache.get(this.#owner, number)
    if (cached !== undefined) return cached
    const bytes = this.#read(this.header.dataOffset + number * BLOCK_BYTES, BLOCK_BYTES)
    if (crc32(bytes) !== this.#checksums[number]) {
      throw this.#corrupt(`block ${number} of index.bin is damaged: checksum mismatch`)
    }
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, BLOCK_WORDS)
    this.#cache.put(this.#owner, number, words)
    return words
  }

  table(section: SectionName): BlockTable {
    const { firstBlock, rows } = this.header.sections[section]
    return new BlockTable(this, firstBlock, rows, ROW_WORDS[section])
  }

  close(): void {
    this.#cache.drop(this.#owner, this.header.blockCount)
    this.#source.close()
  }

  #read(at: number, bytes: number): Buffer<ArrayBuffer> {
    const into = Buffer.from(new ArrayBuffer(bytes))
    let filled: number
    try {
      filled = this.#source.read(into, at)
    } catch (error) {
      if (error instanceof StoreError) throw error
      throw new StoreError(
        'unavailable',
        'bundle_read_failed',
        `bundle ${this.#bundle}: index.bin cannot be read (${errorCode(error)})`,
        { cause: error },
      )
    }
    if (filled !== bytes) throw this.#corrupt(`index.bin ends at byte ${at + filled}, inside a block`)
    return into
  }

  #corrupt(problem: string): StoreError {
    return new StoreError('corrupt', 'bundle_index_corrupt', `bundle ${this.#bundle}: ${problem}; it has to be rebuilt`)
  }
}

/** Rows of one section. Holds on to the block it read last, so that neighbouring rows cost no look-up. */
export class BlockTable {
  readonly rows: number
  readonly rowsPerBlock: number
  readonly #file: BlockFile
  readonly #firstBlock: number
  readonly #rowWords: number
  /** The block of the row that `at` was asked for last. */
  words: Block = new Uint32Array(0)
  #firstRow = 0
  #endRow = 0

  constructor(file: BlockFile, firstBlock: number, rows: number, rowWords: number) {
    this.#file = file
    this.#firstBlock = firstBlock
    this.rows = rows
    this.#rowWords = rowWords
    this.rowsPerBlock = Math.floor(BLOCK_WORDS / rowWords)
  }

  /** Where in `words` the row begins; valid until the next call. */
  at(row: number): number {
    if (row < this.#firstRow || row >= this.#endRow) this.#load(row)
    return (row - this.#firstRow) * this.#rowWords
  }

  #load(row: number): void {
    const block = Math.floor(row / this.rowsPerBlock)
    this.words = this.#file.block(this.#firstBlock + block)
    this.#firstRow = block * this.rowsPerBlock
    this.#endRow = this.#firstRow + this.rowsPerBlock
  }
}
