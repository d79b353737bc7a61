/**
 * Says where in a compacted bundle a record id, or a trace, may be. For a record id it names runs of rows, as their records have to be made and hashed. For
 * a trace it names blocks: the column of trace ids in a block tells the rows, and most traces have rows in many runs of a block.
 *
 * L1  a look-up returns all rows of a record id, or all blocks of a trace. It may return others as well, so the caller checks them
 */
import { BlockHashIndex } from './block-hash-index.ts'
import type { ByteReader } from './byte-reader.ts'
import type { CompactBlock } from './compact-directory.ts'
import { RUNS_VERSION } from './compact-format.ts'
import { HashIndex } from './hash-index.ts'
import type { LoadPiece } from './hash-index.ts'
import type { PieceFile } from './pieces.ts'

/**
 * Rows of the bundle that share a place in the index of record ids. A look-up makes and hashes this many records; runs of half the length take 1 bit more for
 * each record.
 */
export const ROWS_OF_RUN = 64

/** Rows [from, to) of a block. */
export interface RowsOfBlock {
  readonly block: number
  readonly from: number
  readonly to: number
}

const NO_ROWS: readonly RowsOfBlock[] = []

export class IdLookup {
  readonly #file: Pick<PieceFile, 'corrupt'>
  readonly #load: LoadPiece
  readonly #blocks: readonly Pick<CompactBlock, 'firstRow' | 'rows'>[]
  readonly #ids: HashIndex | BlockHashIndex
  readonly #traces: HashIndex | BlockHashIndex
  /** The results of the last look-ups: `mayContainId` and then `findId` ask for the same hash, and those of traces likewise. */
  #idHash = -1
  #rows: readonly RowsOfBlock[] = []
  #traceHash = -1
  #tracedBlocks: readonly number[] = []

  /**
   * @param directory is at the description of both indexes
   * @param at        where their pieces begin in the file
   * @param load      reads a piece of the file, or takes it from a cache
   */
  constructor(
    directory: ByteReader,
    at: number,
    version: number,
    blocks: readonly Pick<CompactBlock, 'firstRow' | 'rows'>[],
    file: Pick<PieceFile, 'corrupt'>,
    load: LoadPiece,
  ) {
    this.#file = file
    this.#load = load
    this.#blocks = blocks
    const read = (from: number) =>
      version >= RUNS_VERSION ? new HashIndex(directory, from) : new BlockHashIndex(directory, from, blocks.length)
    this.#ids = read(at)
    this.#traces = read(this.#ids.end)
  }

  /** Where the pieces end in the file. */
  get end(): number {
    return this.#traces.end
  }

  /** In the order of the rows. @param hash first word of the record id */
  rowsOfId(hash: number): readonly RowsOfBlock[] {
    if (this.#idHash !== hash) {
      this.#rows = this.#rowsAt(this.#ids.placesOf(hash, this.#load))
      this.#idHash = hash
    }
    return this.#rows
  }

  /** Ascending. @param hash see `traceHash` */
  blocksOfTrace(hash: number): readonly number[] {
    if (this.#traceHash !== hash) {
      const blocks = this.#traces.placesOf(hash, this.#load)
      for (const block of blocks) this.#blockOf(block)
      this.#tracedBlocks = blocks
      this.#traceHash = hash
    }
    return this.#tracedBlocks
  }

  /** @param places of the index of record ids */
  #rowsAt(places: readonly number[]): readonly RowsOfBlock[] {
    if (places.length === 0) return NO_ROWS
    return this.#ids instanceof HashIndex
      ? places.flatMap((run) => this.#rowsOfRun(run))
      : places.map((block) => this.#wholeBlock(block))
  }

  #wholeBlock(block: number): RowsOfBlock {
    const { rows } = this.#blockOf(block)
    return { block, from: 0, to: rows }
  }

  /** A run may have rows of several blocks. */
  #rowsOfRun(run: number): RowsOfBlock[] {
    const first = run * ROWS_OF_RUN
    const found: RowsOfBlock[] = []
    let block = this.#blocks.findLastIndex(({ firstRow }) => firstRow <= first)
    for (; block < this.#blocks.length; block++) {
      const { firstRow, rows } = this.#blocks[block]!
      if (firstRow >= first + ROWS_OF_RUN) break
      const from = Math.max(first - firstRow, 0)
      const to = Math.min(first + ROWS_OF_RUN - firstRow, rows)
      if (from < to) found.push({ block, from, to })
    }
    if (found.length === 0)
      throw this.#file.corrupt(`its index of record ids names rows from ${first} on, which it has not got`)
    return found
  }

  #blockOf(number: number): Pick<CompactBlock, 'firstRow' | 'rows'> {
    const block = this.#blocks[number]
    if (block === undefined) throw this.#file.corrupt(`its indexes name block ${number}, which it has not got`)
    return block
  }
}
