/**
 * Writes the content of a merged bundle (compact-format.ts) from a run of bundles, and reads it back. A block and the tables of `BundleWriter` are in
 * memory; data that grows with the records is in a scratch.
 *
 * V1  the check compares what a reader gets from the file with what a reader gets from the run, by a checksum for each block of the merged bundle: each
 *     record with its place, time and trace, its resource and scope, its id where that does not follow from those, and all of its bytes
 */
import { crc32 } from 'node:zlib'
import { StoreError } from '../../errors.ts'
import { segmentName } from '../../log/segment-format.ts'
import { encodePartitionName } from '../index/index-file.ts'
import { BLOCK_ROWS_MAX } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { BundleWriter, isBlockFull } from './bundle-writer.ts'
import type { CompactBlock } from './compact-directory.ts'
import type { CompactIndex } from './compact-index.ts'
import type { MergeCursor, MergedPartition, RowRun } from './merge-rows.ts'
import type { Scratch } from './scratch.ts'

/** Words of a row that are compared, and where they stand. */
const ROW_WORDS = 15
const TIME = 0
const ENTRY = 2
const PLACE = 3
const GROUP = 5
const BYTES = 6
const TRACE = 7
const EXPLICIT_ID = 11

/** Rows of one block, in memory that is used again. */
class GatheredRows {
  readonly #words = new Uint32Array(ROW_WORDS * BLOCK_ROWS_MAX)
  readonly #groupCrcs = new WeakMap<Group, number>()
  #lastGroup: Group | null = null
  #lastGroupCrc = 0
  count = 0

  /** Adds a row. @returns where its words begin; the caller still writes those of PLACE */
  add(timeHigh: number, timeLow: number, entry: number, group: Group, bytes: number): number {
    const words = this.#words
    const at = ROW_WORDS * this.count++
    words[at + TIME] = timeHigh
    words[at + TIME + 1] = timeLow
    words[at + ENTRY] = entry
    if (group !== this.#lastGroup) {
      this.#lastGroup = group
      this.#lastGroupCrc = this.#crcOf(group)
    }
    words[at + GROUP] = this.#lastGroupCrc
    words[at + BYTES] = bytes
    return at
  }

  get words(): Uint32Array {
    return this.#words
  }

  setTraceAndId(at: number, traces: Uint32Array, row: number, explicitId: Uint32Array | null): void {
    const words = this.#words
    for (let word = 0; word < 4; word++) {
      words[at + TRACE + word] = traces[4 * row + word]!
      words[at + EXPLICIT_ID + word] = explicitId === null ? 0 : explicitId[word]!
    }
  }

  /** A checksum of the name of the partition, the rows, and the bytes of their records. The next row is the first of another block. */
  finish(records: Buffer, partition: Buffer): number {
    const words = Buffer.from(this.#words.buffer, 0, this.count * ROW_WORDS * Uint32Array.BYTES_PER_ELEMENT)
    this.count = 0
    return crc32(records, crc32(words, crc32(partition)))
  }

  #crcOf(group: Group): number {
    const known = this.#groupCrcs.get(group)
    if (known !== undefined) return known
    const { signal, format, source, resource, scope, resourceSchemaUrl, scopeSchemaUrl } = group
    let crc = crc32(Buffer.of(signal, format, source))
    for (const part of [resource, scope, resourceSchemaUrl, scopeSchemaUrl]) {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(part.byteLength)
      crc = crc32(part, crc32(length, crc))
    }
    this.#groupCrcs.set(group, crc)
    return crc
  }
}

export class MergeWriter {
  readonly #run: RowRun
  readonly #writer: BundleWriter
  readonly #rest: () => void
  /** By block: its checksum (V1). */
  readonly #checksums: number[] = []
  /** Records of the block, one behind the other. */
  #source = Buffer.allocUnsafeSlow(1 << 16)
  #bytes = 0
  readonly #rows = new GatheredRows()
  /** By row of the block: what `#rows` does not have. */
  readonly #groups: Group[] = []
  readonly #idWords = new Uint32Array(BLOCK_ROWS_MAX)
  readonly #explicitIds = new Map<number, Uint32Array>()

  /** @param rest called after each block; what it throws ends the merge */
  constructor(run: RowRun, scratch: Scratch, rest: () => void) {
    this.#run = run
    this.#writer = new BundleWriter(run.entries, scratch)
    this.#rest = rest
  }

  writeRows(): void {
    for (const partition of this.#run.partitions()) {
      this.#writer.beginPartition(partition.tenant, partition.dataset)
      this.#writePartition(partition)
    }
  }

  /** The content, part after part, once all rows are written. */
  content(facts: Parameters<BundleWriter['finish']>[0]): Iterable<Buffer> {
    return this.#writer.finish(facts, (from, to) => this.#run.placesOf(from, to))
  }

  #writePartition(partition: MergedPartition): void {
    const name = encodePartitionName(partition.tenant, partition.dataset)
    for (const cursor of this.#run.rowsOf(partition)) {
      this.#gather(cursor)
      if (isBlockFull(this.#rows.count, this.#bytes)) this.#endBlock(name)
    }
    if (this.#rows.count > 0) this.#endBlock(name)
  }

  #gather(cursor: MergeCursor): void {
    const { row, group, timeHigh, timeLow, entry, block } = cursor
    const { records, body, ids, traces } = block
    const { recordStart, recordEnd } = records.placeOf(row)
    const start = this.#bytes
    this.#bytes += recordEnd - recordStart
    this.#reserve(this.#bytes)
    body.copy(this.#source, start, recordStart, recordEnd)
    const number = this.#rows.count
    const at = this.#rows.add(timeHigh, timeLow, entry, group, recordEnd - recordStart)
    cursor.placeInto(this.#rows.words, at + PLACE)
    const explicitId = records.explicitIdOf(row)
    if (explicitId !== null) this.#explicitIds.set(number, explicitId)
    this.#rows.setTraceAndId(at, traces, row, explicitId)
    this.#groups.push(group)
    this.#idWords[number] = ids[4 * row]!
  }

  #endBlock(partition: Buffer): void {
    const { words, count } = this.#rows
    this.#writer.beginBlock(this.#source)
    let start = 0
    for (let row = 0, at = 0; row < count; row++, at += ROW_WORDS) {
      const end = start + words[at + BYTES]!
      this.#writer.add({
        start,
        end,
        group: this.#groups[row]!,
        timeHigh: words[at + TIME]!,
        timeLow: words[at + TIME + 1]!,
        entry: words[at + ENTRY]!,
        trace: words,
        traceAt: at + TRACE,
        idWord: this.#idWords[row]!,
        explicitId: this.#explicitIds.get(row) ?? null,
      })
      start = end
    }
    this.#writer.endBlock()
    this.#checksums.push(this.#rows.finish(this.#source.subarray(0, this.#bytes), partition))
    this.#groups.length = 0
    this.#explicitIds.clear()
    this.#bytes = 0
    this.#rest()
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#source.byteLength) return
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * this.#source.byteLength))
    this.#source.copy(larger, 0, 0, this.#bytes)
    this.#source = larger
  }

  /** V1 @throws StoreError when the bundle differs from the run */
  check(merged: CompactIndex): void {
    if (merged.entryCount !== this.#run.entries || merged.blocks.length !== this.#checksums.length)
      throw differs(merged, 'it has another number of records')
    for (const { tenant, dataset, partition } of merged.partitions()) {
      const name = encodePartitionName(tenant, dataset)
      for (const block of merged.blocksOf(partition.number)) {
        if (this.#checksumOf(merged, block, name) !== this.#checksums[block.number])
          throw differs(merged, `block ${block.number} is another one`)
        this.#rest()
      }
    }
  }

  #checksumOf(merged: CompactIndex, block: CompactBlock, partition: Buffer): number {
    const keys = merged.keys(block)
    const records = merged.readRecords(block)
    const traces = records.traces() // makes all records, one behind the other
    const rows = this.#rows
    let [start, end] = [0, 0]
    for (let row = 0; row < block.rows; row++) {
      const entry = keys.entry[row]!
      merged.seekEntry(entry)
      if (merged.unit !== block.number || merged.number !== row) throw differs(merged, `entry ${entry} is elsewhere`)
      const { recordStart, recordEnd } = records.placeOf(row)
      if (row === 0) start = recordStart
      end = recordEnd
      const group = records.groups[records.rowGroup[row]!]!
      const at = rows.add(keys.timeHigh[row]!, keys.timeLow[row]!, entry, group, recordEnd - recordStart)
      rows.words[at + PLACE] = merged.frameOffset
      rows.words[at + PLACE + 1] = merged.recordNumber
      rows.setTraceAndId(at, traces, row, records.explicitIdOf(row))
    }
    const checksum = rows.finish(records.body.subarray(start, end), partition)
    records.free()
    return checksum
  }
}

const differs = ({ header: { base } }: CompactIndex, how: string): StoreError =>
  new StoreError('corrupt', 'compaction_differs', `bundle ${segmentName(base)}: its merged form differs: ${how}`)
