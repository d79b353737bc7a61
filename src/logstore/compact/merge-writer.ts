/**
 * Writes the content of a merged bundle, see compact-format.ts, of a run of bundles, and reads it back. In memory are a block and the tables of
 * `BundleWriter`; finished blocks wait in a file beside.
 *
 * V1  what is compared is what a reader makes of the file with what a reader makes of the run: each record with its place, time, id and trace, what it
 *     belongs to, and all of its bytes, by a checksum for each block of the merged bundle
 */
import { crc32 } from 'node:zlib'
import { StoreError } from '../../errors.ts'
import type { OpenFile } from '../../log/files.ts'
import { segmentName } from '../../log/segment-format.ts'
import type { Group } from './block-writer.ts'
import { BundleWriter, isBlockFull } from './bundle-writer.ts'
import type { BlockStore } from './bundle-writer.ts'
import { CHUNK_ENTRIES } from './compact-format.ts'
import type { CompactIndex } from './compact-index.ts'
import type { MergeCursor, MergedPartition, RowRun } from './merge-rows.ts'

/** A store of blocks in a file. */
export class BlocksInFile implements BlockStore {
  readonly #file: OpenFile
  readonly #filterBytes: number[] = []
  readonly #columnBytes: number[] = []
  #at = 0

  constructor(file: OpenFile) {
    this.#file = file
  }

  add(filter: Buffer<ArrayBuffer>, columns: readonly Buffer<ArrayBuffer>[]): void {
    const parts = [filter, ...columns].filter(({ byteLength }) => byteLength > 0)
    this.#file.writev(parts, this.#at)
    const bytes = columns.reduce((sum, { byteLength }) => sum + byteLength, 0)
    this.#filterBytes.push(filter.byteLength)
    this.#columnBytes.push(bytes)
    this.#at += filter.byteLength + bytes
  }

  *filters(): Iterable<Buffer<ArrayBuffer>> {
    for (const { at, filterBytes } of this.#places()) yield this.#read(at, filterBytes)
  }

  *columns(): Iterable<Buffer<ArrayBuffer>> {
    for (const { at, filterBytes, columnBytes } of this.#places()) yield this.#read(at + filterBytes, columnBytes)
  }

  *#places() {
    let at = 0
    for (const [block, filterBytes] of this.#filterBytes.entries()) {
      const columnBytes = this.#columnBytes[block]!
      yield { at, filterBytes, columnBytes }
      at += filterBytes + columnBytes
    }
  }

  #read(at: number, bytes: number): Buffer<ArrayBuffer> {
    const into = Buffer.allocUnsafe(bytes)
    if (bytes > 0 && this.#file.read(into, at) !== bytes)
      throw new Error('a file of blocks is shorter than it was written')
    return into
  }
}

/** What is known of a row before it is written. */
interface GatheredRow {
  readonly start: number
  readonly end: number
  readonly group: Group
  readonly timeHigh: number
  readonly timeLow: number
  readonly entry: number
  readonly trace: Uint32Array
  readonly idWord: number
  readonly explicitId: Uint32Array | null
}

export class MergeWriter {
  readonly #run: RowRun
  readonly #writer: BundleWriter
  readonly #rest: () => void
  /** By block (V1). */
  readonly #checksums: number[] = []
  #source = Buffer.allocUnsafeSlow(1 << 16)
  #bytes = 0
  #rows: GatheredRow[] = []
  readonly #digest = new RowDigest()
  #chunk: ReturnType<RowRun['placesOf']> | null = null
  #chunkNumber = -1

  /** @param rest called after each block; what it throws ends the merge */
  constructor(run: RowRun, store: BlockStore, rest: () => void) {
    this.#run = run
    this.#writer = new BundleWriter(run.entries, store)
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
    for (const cursor of this.#run.rowsOf(partition)) {
      this.#gather(cursor)
      if (isBlockFull(this.#rows.length, this.#bytes)) this.#endBlock()
    }
    if (this.#rows.length > 0) this.#endBlock()
  }

  #gather({ records, row, ids, group, timeHigh, timeLow, entry }: MergeCursor): void {
    const { recordStart, recordEnd } = records.placeOf(row)
    const start = this.#bytes
    const end = start + recordEnd - recordStart
    this.#reserve(end)
    records.body.copy(this.#source, start, recordStart, recordEnd)
    this.#bytes = end
    const trace = records.traceOf(row).slice()
    const explicitId = records.explicitIdOf(row)
    this.#rows.push({ start, end, group, timeHigh, timeLow, entry, trace, idWord: ids[4 * row]!, explicitId })
    const { frameOffset, recordNumber } = this.#placeOf(entry)
    this.#digest.add(
      { timeHigh, timeLow, entry, frameOffset, recordNumber, group },
      ids.subarray(4 * row, 4 * row + 4),
      trace,
      this.#source.subarray(start, end),
    )
  }

  #placeOf(entry: number) {
    const number = Math.floor(entry / CHUNK_ENTRIES)
    if (number !== this.#chunkNumber) {
      const from = number * CHUNK_ENTRIES
      this.#chunk = this.#run.placesOf(from, Math.min(this.#run.entries, from + CHUNK_ENTRIES))
      this.#chunkNumber = number
    }
    const at = entry % CHUNK_ENTRIES
    return { frameOffset: this.#chunk!.frameOffset[at]!, recordNumber: this.#chunk!.recordNumber[at]! }
  }

  #endBlock(): void {
    this.#writer.beginBlock(this.#source)
    for (const row of this.#rows) this.#writer.add({ ...row, traceAt: 0 })
    this.#writer.endBlock()
    this.#checksums.push(this.#digest.finish())
    this.#rows = []
    this.#bytes = 0
    this.#rest()
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#source.byteLength) return
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * this.#source.byteLength))
    this.#source.copy(larger, 0, 0, this.#bytes)
    this.#source = larger
  }

  /** V1 @throws StoreError when it is not the run */
  check(merged: CompactIndex): void {
    if (merged.entryCount !== this.#run.entries || merged.blocks.length !== this.#checksums.length)
      throw differs(merged, 'it has another number of records')
    const digest = new RowDigest()
    for (const block of merged.blocks) {
      const keys = merged.keys(block)
      const records = merged.readRecords(block)
      const ids = records.ids.all()
      for (let row = 0; row < block.rows; row++) {
        const entry = keys.entry[row]!
        merged.seekEntry(entry)
        if (merged.unit !== block.number || merged.number !== row) throw differs(merged, `entry ${entry} is elsewhere`)
        const { frameOffset, recordNumber } = merged
        const [timeHigh, timeLow] = [keys.timeHigh[row]!, keys.timeLow[row]!]
        const group = records.groups[records.rowGroup[row]!]!
        digest.add(
          { timeHigh, timeLow, entry, frameOffset, recordNumber, group },
          ids.subarray(4 * row, 4 * row + 4),
          records.traceOf(row),
          records.record(row).record,
        )
      }
      if (digest.finish() !== this.#checksums[block.number])
        throw differs(merged, `block ${block.number} is another one`)
      this.#rest()
    }
  }
}

interface DigestedPlace {
  readonly timeHigh: number
  readonly timeLow: number
  readonly entry: number
  readonly frameOffset: number
  readonly recordNumber: number
  readonly group: Group
}

/** A checksum over rows, one after the other. */
class RowDigest {
  readonly #words = new Uint32Array(15)
  readonly #bytes = Buffer.from(this.#words.buffer)
  readonly #groups = new WeakMap<Group, number>()
  #crc = 0

  add(place: DigestedPlace, id: Uint32Array, trace: Uint32Array, record: Uint8Array): void {
    const words = this.#words
    words[0] = place.timeHigh
    words[1] = place.timeLow
    words[2] = place.entry
    words[3] = place.frameOffset
    words[4] = place.recordNumber
    words[5] = this.#crcOf(place.group)
    words[6] = record.byteLength
    words.set(id, 7)
    words.set(trace, 11)
    this.#crc = crc32(record, crc32(this.#bytes, this.#crc))
  }

  finish(): number {
    const crc = this.#crc
    this.#crc = 0
    return crc
  }

  #crcOf(group: Group): number {
    const known = this.#groups.get(group)
    if (known !== undefined) return known
    const { signal, format, source, resource, scope, resourceSchemaUrl, scopeSchemaUrl } = group
    let crc = crc32(Buffer.of(signal, format, source))
    for (const part of [resource, scope, resourceSchemaUrl, scopeSchemaUrl]) {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(part.byteLength)
      crc = crc32(part, crc32(length, crc))
    }
    this.#groups.set(group, crc)
    return crc
  }
}

const differs = ({ header: { base } }: CompactIndex, how: string): StoreError =>
  new StoreError('corrupt', 'compaction_differs', `bundle ${segmentName(base)}: its merged form differs: ${how}`)
