/**
 * Gives the records of neighbouring bundles in the order of the bundle that they become: by partition, time and entry. Each bundle has at most one decoded
 * block, and decodes it when its first row is due: until then the directory tells the key of this row. So if the bundles follow each other in time, only
 * one of them has a block in memory.
 *
 * M1  entries are numbered through the run, and frame offsets count from its base. So a place in the log means the same in the merged bundle
 */
import assert from 'node:assert/strict'
import { highWord, lowWord } from '../time-words.ts'
import type { BlockRecords } from './block-records.ts'
import type { BlockKeys } from './block-reader.ts'
import type { Group } from './block-writer.ts'
import { CHUNK_ENTRIES } from './compact-format.ts'
import type { CompactBlock } from './compact-directory.ts'
import type { CompactIndex } from './compact-index.ts'
import { GroupTable } from './group-table.ts'

/** Most groups that are kept to make equal ones the same object; a block has fewer. */
const GROUPS_KEPT = 16_384

/** A partition of the run: where its records are. */
export interface MergedPartition {
  readonly tenant: string
  readonly dataset: string
  /** The number of the partition in each bundle that has it, in the order of the bundles. */
  readonly of: readonly { readonly bundle: number; readonly partition: number }[]
}

/** Rows in the order of a bundle, and the places of their records. */
export interface RowRun {
  readonly entries: number
  partitions(): readonly MergedPartition[]
  /** The rows of a partition, one after the other. A cursor is valid until the next one is asked for: the same object may then be at another row. */
  rowsOf(partition: MergedPartition): Iterable<MergeCursor>
  /** The places of entries [from, to), see `PlacesOf`. */
  placesOf(from: number, to: number): { readonly frameOffset: Float64Array; readonly recordNumber: Float64Array }
}

export class MergeRun implements RowRun {
  readonly #bundles: readonly CompactIndex[]
  /** By bundle: the number of its first entry in the run. */
  readonly #firstEntry: readonly number[]
  /** The position that frame offsets count from. */
  readonly base: number
  readonly entries: number
  readonly #hasRows: (block: CompactBlock) => boolean
  #groups = new GroupTable()

  /**
   * @param bundles neighbours, ascending
   * @param base    position that frame offsets count from
   * @param hasRows false: the block is skipped
   */
  constructor(
    bundles: readonly CompactIndex[],
    base = bundles[0]!.header.base,
    hasRows: (block: CompactBlock) => boolean = () => true,
  ) {
    this.#bundles = bundles
    this.#hasRows = hasRows
    this.base = base
    let entries = 0
    this.#firstEntry = bundles.map(({ entryCount }) => {
      entries += entryCount
      return entries - entryCount
    })
    this.entries = entries
  }

  /** In the order in which they first appear. */
  partitions(): readonly MergedPartition[] {
    const byName = new Map<string, MergedPartition & { of: { bundle: number; partition: number }[] }>()
    for (const [bundle, index] of this.#bundles.entries()) {
      for (const { tenant, dataset, partition } of index.partitions()) {
        const name = JSON.stringify([tenant, dataset])
        let merged = byName.get(name)
        if (merged === undefined) byName.set(name, (merged = { tenant, dataset, of: [] }))
        merged.of.push({ bundle, partition: partition.number })
      }
    }
    return [...byName.values()]
  }

  *rowsOf({ of }: MergedPartition): Iterable<MergeCursor> {
    const cursors = of
      .map(({ bundle, partition }) => this.#cursor(bundle, partition))
      .filter((cursor) => cursor.isAtRow)
    while (cursors.length > 0) {
      let least = cursors[0]!
      for (let i = 1; i < cursors.length; i++) if (cursors[i]!.isBefore(least)) least = cursors[i]!
      least.open()
      yield least
      least.advance()
      if (!least.isAtRow) cursors.splice(cursors.indexOf(least), 1)
    }
  }

  #cursor(bundle: number, partition: number): MergeCursor {
    const index = this.#bundles[bundle]!
    const blocks = index.blocksOf(partition).filter(this.#hasRows)
    const shift = index.header.base - this.base
    return new MergeCursor(index, blocks, this.#firstEntry[bundle]!, shift, (group) => this.#sameGroup(group))
  }

  #sameGroup(group: Group): Group {
    if (this.#groups.groups.length >= GROUPS_KEPT) this.#groups = new GroupTable()
    return this.#groups.groups[this.#groups.numberOf(group)]!
  }

  /** M1 */
  placesOf(from: number, to: number): { readonly frameOffset: Float64Array; readonly recordNumber: Float64Array } {
    const frameOffset = new Float64Array(to - from)
    const recordNumber = new Float64Array(to - from)
    let bundle = this.#firstEntry.findLastIndex((first) => first <= from)
    for (let entry = from; entry < to; entry++) {
      while (entry >= this.#firstEntry[bundle]! + this.#bundles[bundle]!.entryCount) bundle++
      const index = this.#bundles[bundle]!
      const local = entry - this.#firstEntry[bundle]!
      const chunk = index.chunkAt(Math.floor(local / CHUNK_ENTRIES))
      frameOffset[entry - from] = chunk.frameOffset[local % CHUNK_ENTRIES]! + index.header.base - this.base
      recordNumber[entry - from] = chunk.recordNumber[local % CHUNK_ENTRIES]!
    }
    return { frameOffset, recordNumber }
  }
}

/** A block in which all records are made; they are freed when the cursor leaves it. */
interface OpenBlock {
  readonly keys: BlockKeys
  readonly records: BlockRecords
  readonly body: Buffer
  /** Four words of each row. */
  readonly ids: Uint32Array
  readonly traces: Uint32Array
  readonly groups: readonly Group[]
}

/** Goes through the rows of one partition of one bundle. */
export class MergeCursor {
  readonly #index: CompactIndex
  readonly #blocks: readonly CompactBlock[]
  readonly #firstEntry: number
  readonly #shift: number
  readonly #sameGroup: (group: Group) => Group
  #next = 0
  #rows = 0
  #opened: OpenBlock | null = null
  /** The number of the row in the block. */
  row = 0
  isAtRow = false
  timeHigh = 0
  timeLow = 0
  /** The number of the entry in the run. */
  entry = 0

  /** @param shift is added to frame offsets of the bundle to get those of the run */
  constructor(
    index: CompactIndex,
    blocks: readonly CompactBlock[],
    firstEntry: number,
    shift: number,
    sameGroup: (group: Group) => Group,
  ) {
    this.#index = index
    this.#blocks = blocks
    this.#firstEntry = firstEntry
    this.#shift = shift
    this.#sameGroup = sameGroup
    this.#beginBlock()
  }

  /** The block of the row, which `open` has decoded. */
  get block(): OpenBlock {
    assert(this.#opened !== null)
    return this.#opened
  }

  get group(): Group {
    const { groups, records } = this.block
    return groups[records.rowGroup[this.row]!]!
  }

  /** Writes the frame offset and the number of the record into two words from `at` on. */
  placeInto(into: Uint32Array, at: number): void {
    const local = this.block.keys.entry[this.row]!
    const { frameOffset, recordNumber } = this.#index.chunkAt(Math.floor(local / CHUNK_ENTRIES))
    into[at] = frameOffset[local % CHUNK_ENTRIES]! + this.#shift
    into[at + 1] = recordNumber[local % CHUNK_ENTRIES]!
  }

  isBefore(other: MergeCursor): boolean {
    if (this.timeHigh !== other.timeHigh) return this.timeHigh < other.timeHigh
    if (this.timeLow !== other.timeLow) return this.timeLow < other.timeLow
    return this.entry < other.entry
  }

  advance(): void {
    this.row++
    if (this.row < this.#rows) this.#takeKeys(this.block.keys)
    else this.#beginBlock()
  }

  /** Moves to the first row of the next block. The directory has its key, so the block is not decoded yet. */
  #beginBlock(): void {
    this.#opened?.records.free()
    this.#opened = null
    const block = this.#blocks[this.#next]
    this.isAtRow = block !== undefined
    if (block === undefined) return
    this.timeHigh = highWord(block.minTime)
    this.timeLow = lowWord(block.minTime)
    this.entry = block.firstEntry + this.#firstEntry
    this.#rows = block.rows
    this.row = 0
  }

  /** Decodes the block. Called before a row is read. */
  open(): void {
    if (this.#opened !== null) return
    const block = this.#blocks[this.#next++]!
    const keys = this.#index.keys(block)
    const records = this.#index.readRecords(block)
    const ids = records.ids.all() // makes all records, too
    const traces = records.traces()
    const groups = records.groups.map(this.#sameGroup)
    this.#opened = { keys, records, body: records.body, ids, traces, groups }
    this.#takeKeys(keys)
  }

  #takeKeys(keys: BlockKeys): void {
    this.timeHigh = keys.timeHigh[this.row]!
    this.timeLow = keys.timeLow[this.row]!
    this.entry = keys.entry[this.row]! + this.#firstEntry
  }
}
