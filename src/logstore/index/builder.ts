/**
 * Builds `index.bin` of a sealed segment from the columns of its ActiveIndex: counting sorts over typed arrays, one pass per
 * section, nothing allocated per entry.
 *
 * Sections are made in memory that is used again, a few at a time, and written when they are done. So the memory holds the largest of them, not the whole
 * file. Header and checksums are written last.
 */
import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { combineCrc32 } from '../../../native-free-codecs/crc32.ts'
import { addKey } from '../../../native-free-codecs/membership-filter.ts'
import { freeMemory } from '../../free-memory.ts'
import { clearMemory } from '../../libc.ts'
import type { ActiveIndex } from './active-index.ts'
import { timeOfWords } from '../time-words.ts'
import { filterBlockCount, filterBlockOf } from './filter-blocks.ts'
import {
  BLOCK_BYTES,
  BLOCK_WORDS,
  FACT_BYTES,
  ROW_WORDS,
  blocksOf,
  encodePartitionName,
  layOut,
  rowsPerBlock,
  sealIndexFile,
  signalBit,
  writeFacts,
} from './index-file.ts'
import type { IndexHeader, SectionName } from './index-file.ts'
import { EntrySorter } from './radix-sort.ts'

export interface BuiltIndex {
  readonly header: IndexHeader
  /** Length of the whole file. */
  readonly bytes: number
  readonly crc32: number
}

/** Takes bytes of the file at their place; they are valid during the call. */
export type WriteAt = (bytes: Uint8Array, at: number) => void

/** Blocks of entries that are written at once. */
const ENTRIES_BLOCKS = 64

/** Keeps its scratch memory from build to build. */
export class IndexBuilder {
  #order = new Uint32Array(0)
  #rowOf = new Uint16Array(0)
  #sorter = new EntrySorter(0)
  readonly #tables = new Tables()

  /**
   * @param active  whose first `count` entries are those of the segment
   * @param base    position of the segment
   * @param end     position after its last frame
   * @param write   gets every byte of the file once, in no order
   */
  build(active: ActiveIndex, count: number, base: number, end: number, write: WriteAt): BuiltIndex {
    if (this.#order.length < count) {
      this.#order = new Uint32Array(count)
      this.#rowOf = new Uint16Array(count)
      this.#sorter = new EntrySorter(count)
    }
    const order = this.#order
    const sorter = this.#sorter
    const partitions = numberPartitions(active, count)
    const traced = collectTraced(active.traceWords, count, order)
    const rows: Record<SectionName, number> = {
      entries: count,
      ids: count,
      idFences: blocksOf('ids', count),
      traces: traced,
      traceFences: blocksOf('traces', traced),
      postings: count,
      postingFences: blocksOf('postings', count),
      partitions: partitions.rows.length,
      names: partitions.nameBytes / 4,
      idFilter: filterBlockCount(count) * BLOCK_WORDS,
      traceFilter: filterBlockCount(traced) * BLOCK_WORDS,
    }
    const file = new IndexFileWriter(layOut(rows), write)
    const tables = this.#tables
    /** Tables of zeros, in place of the tables before. */
    const begin = (...names: readonly SectionName[]): readonly Uint32Array[] =>
      tables.begin(names.map((name) => blocksOf(name, rows[name]) * BLOCK_WORDS))

    const [traces, traceFences, traceFilter] = begin('traces', 'traceFences', 'traceFilter')
    sorter.sortByFourWords(active.traceWords, order, 0, traced)
    writeTraces(traces!, active.traceWords, order, traced)
    writeFences(traceFences!, 'traceFences', traces!, rows.traceFences)
    fillFilter(traceFilter!, traces!, traced, ROW_WORDS.traces, true)
    file.write('traces', traces!)
    file.write('traceFences', traceFences!)
    file.write('traceFilter', traceFilter!)

    const [ids, idFences, idFilter] = begin('ids', 'idFences', 'idFilter')
    fillWithEntries(order, count)
    const firstWords = sorter.sortByKey(active.idWords, 4, 0, order, 0, count)
    writeIds(ids!, firstWords, order, count)
    writeFences(idFences!, 'idFences', ids!, rows.idFences)
    fillFilter(idFilter!, active.idWords, count, 4, false)
    file.write('ids', ids!)
    file.write('idFences', idFences!)
    file.write('idFilter', idFilter!)

    const atOnce = ENTRIES_BLOCKS * rowsPerBlock('entries')
    for (let from = 0; from < count; from += atOnce) {
      const to = Math.min(count, from + atOnce)
      const [entries] = tables.begin([blocksOf('entries', to - from) * BLOCK_WORDS])
      writeEntries(entries!, active, from, to, partitions.rowOf, this.#rowOf)
      file.write('entries', entries!, from / rowsPerBlock('entries'))
    }

    const [postings, postingFences] = begin('postings', 'postingFences')
    orderPostings(active, count, this.#rowOf, order, sorter)
    writePostings(postings!, active, order, count)
    writeFences(postingFences!, 'postingFences', postings!, rows.postingFences)
    file.write('postings', postings!)
    file.write('postingFences', postingFences!)

    const [partitionRows, names] = begin('partitions', 'names')
    const times = writePartitions(partitionRows!, active, order, partitions)
    writeNames(names!, partitions)
    file.write('partitions', partitionRows!)
    file.write('names', names!)
    return file.seal({ base, end, ...times, receivedUntil: BigInt(active.receivedUntil), factBytes: FACT_BYTES })
  }

  /** Gives the memory of the sections back to the system, until the next build. */
  discard(): void {
    this.#tables.discard()
  }
}

/** Tables side by side in memory that is used again. */
class Tables {
  #memory = new ArrayBuffer(0)
  /** The memory is all zero from this byte on. */
  #zeroFrom = 0

  /** Tables of zeros, in place of the tables before. @param words the length of each */
  begin(words: readonly number[]): Uint32Array[] {
    const bytes = 4 * words.reduce((sum, each) => sum + each, 0)
    if (this.#memory.byteLength < bytes) {
      freeMemory(new Uint8Array(this.#memory))
      this.#memory = new ArrayBuffer(bytes)
      this.#zeroFrom = 0
    }
    new Uint8Array(this.#memory, 0, Math.min(bytes, this.#zeroFrom)).fill(0)
    this.#zeroFrom = Math.max(this.#zeroFrom, bytes)
    let at = 0
    return words.map((length) => {
      const table = new Uint32Array(this.#memory, at, length)
      at += table.byteLength
      return table
    })
  }

  discard(): void {
    clearMemory(Buffer.from(this.#memory))
    this.#zeroFrom = 0
  }
}

/** Writes the sections of a file in any order, and gathers what the header and the manifest say of them. */
class IndexFileWriter {
  readonly #layout: ReturnType<typeof layOut>
  readonly #write: WriteAt
  readonly #checksums: Uint32Array
  readonly #written: { readonly at: number; readonly bytes: number; readonly crc: number }[] = []

  constructor(layout: ReturnType<typeof layOut>, write: WriteAt) {
    this.#layout = layout
    this.#write = write
    this.#checksums = new Uint32Array(layout.blockCount)
  }

  /** @param words whole blocks @param block number of the first one in the section */
  write(section: SectionName, words: Uint32Array, block = 0): void {
    const first = this.#layout.sections[section].firstBlock + block
    const bytes = Buffer.from(words.buffer, words.byteOffset, words.byteLength)
    for (let at = 0; at < bytes.byteLength; at += BLOCK_BYTES) {
      this.#checksums[first + at / BLOCK_BYTES] = crc32(bytes.subarray(at, at + BLOCK_BYTES))
    }
    this.#put(bytes, this.#layout.dataOffset + first * BLOCK_BYTES)
  }

  seal(facts: Omit<IndexHeader, 'checksumsCrc' | 'identity' | 'blockCount' | 'dataOffset' | 'sections'>): BuiltIndex {
    const { sections, blockCount, dataOffset, fileBytes } = this.#layout
    const head = Buffer.alloc(dataOffset)
    const header = sealIndexFile(head, this.#checksums, { ...facts, blockCount, dataOffset, sections })
    this.#put(head, 0)
    const parts = this.#written.toSorted((a, b) => a.at - b.at)
    const end = parts.reduce((at, part) => {
      assert.equal(part.at, at)
      return at + part.bytes
    }, 0)
    assert.equal(end, fileBytes)
    return { header, bytes: fileBytes, crc32: parts.reduce((crc, part) => combineCrc32(crc, part.crc, part.bytes), 0) }
  }

  #put(bytes: Buffer, at: number): void {
    if (bytes.byteLength === 0) return
    this.#write(bytes, at)
    this.#written.push({ at, bytes: bytes.byteLength, crc: crc32(bytes) })
  }
}

/** The partitions that have entries, in the order of their rows in the file. */
interface NumberedPartitions {
  readonly rows: readonly {
    readonly name: Buffer
    readonly hash: number
    readonly records: number
    readonly bytes: number
    readonly signals: number
    readonly offset: number
  }[]
  readonly nameBytes: number
  /** Row in the file, by the number the active index uses. */
  readonly rowOf: Uint16Array
}

function numberPartitions(active: ActiveIndex, count: number): NumberedPartitions {
  const known = active.partitions()
  const records = new Uint32Array(known.length)
  const bytes = new Float64Array(known.length)
  const signals = new Uint8Array(known.length)
  const { partition, recordBytes, signal } = active
  for (let entry = 0; entry < count; entry++) {
    const number = partition[entry]!
    records[number] = records[number]! + 1
    bytes[number] = bytes[number]! + recordBytes[entry]!
    signals[number] = signals[number]! | signalBit(signal[entry]!)
  }
  const used = known
    .map(({ tenant, dataset }, number) => {
      const name = encodePartitionName(tenant, dataset)
      const totals = { records: records[number]!, bytes: bytes[number]!, signals: signals[number]! }
      return { number, name, hash: crc32(name), ...totals, offset: 0 }
    })
    .filter((one) => one.records > 0)
    .sort((a, b) => a.hash - b.hash || Buffer.compare(a.name, b.name))
  const rowOf = new Uint16Array(known.length)
  let nameBytes = 0
  for (const [row, one] of used.entries()) {
    rowOf[one.number] = row
    const left = BLOCK_BYTES - (nameBytes % BLOCK_BYTES)
    const bytes = one.name.byteLength + FACT_BYTES
    if (bytes > left) nameBytes += left // a name and its facts lie inside one block
    one.offset = nameBytes
    nameBytes += bytes
  }
  return { rows: used, nameBytes, rowOf }
}

/** Puts the entries that have a trace id into `order`, ascending; returns their number. */
function collectTraced(traceWords: Uint32Array, count: number, order: Uint32Array): number {
  let traced = 0
  for (let entry = 0, at = 0; entry < count; entry++, at += 4) {
    if ((traceWords[at]! | traceWords[at + 1]! | traceWords[at + 2]! | traceWords[at + 3]!) !== 0)
      order[traced++] = entry
  }
  return traced
}

function fillWithEntries(order: Uint32Array, count: number): void {
  for (let entry = 0; entry < count; entry++) order[entry] = entry
}

function writeTraces(table: Uint32Array, keys: Uint32Array, order: Uint32Array, rows: number): void {
  const perBlock = rowsPerBlock('traces')
  for (let row = 0, block = 0; row < rows; block += BLOCK_WORDS) {
    const end = Math.min(rows, row + perBlock)
    for (let at = block; row < end; row++, at += ROW_WORDS.traces) {
      const entry = order[row]!
      const key = entry * 4
      table[at] = keys[key]!
      table[at + 1] = keys[key + 1]!
      table[at + 2] = keys[key + 2]!
      table[at + 3] = keys[key + 3]!
      table[at + 4] = entry
    }
  }
}

/** Rows of ids fill their blocks, so that they stand back to back. */
function writeIds(table: Uint32Array, firstWords: Uint32Array, order: Uint32Array, rows: number): void {
  for (let row = 0; row < rows; row++) {
    table[2 * row] = firstWords[row]!
    table[2 * row + 1] = order[row]!
  }
}

/** A fence is the beginning of the first row of each block of its table. */
function writeFences(fences: Uint32Array, fenceName: SectionName, table: Uint32Array, rows: number): void {
  const width = ROW_WORDS[fenceName]
  const perBlock = rowsPerBlock(fenceName)
  for (let row = 0; row < rows; row++) {
    const to = Math.floor(row / perBlock) * BLOCK_WORDS + (row % perBlock) * width
    fences.set(table.subarray(row * BLOCK_WORDS, row * BLOCK_WORDS + width), to)
  }
}

/**
 * Adds the keys of rows 0 to `rows` of a table, `stride` words apart. A key that equals the one before it is added once.
 *
 * @param inBlocks  no row crosses the end of a block, as in a section
 */
function fillFilter(filter: Uint32Array, table: Uint32Array, rows: number, stride: number, inBlocks: boolean): void {
  const blocks = filter.length / BLOCK_WORDS
  const views = Array.from({ length: blocks }, (_, block) =>
    filter.subarray(block * BLOCK_WORDS, (block + 1) * BLOCK_WORDS),
  )
  const perBlock = inBlocks ? Math.floor(BLOCK_WORDS / stride) : rows
  let b0 = 0
  let b1 = 0
  let b2 = 0
  let b3 = 0
  for (let row = 0, block = 0; row < rows; block += BLOCK_WORDS) {
    const end = Math.min(rows, row + perBlock)
    for (let at = block; row < end; row++, at += stride) {
      const w0 = table[at]!
      const w1 = table[at + 1]!
      const w2 = table[at + 2]!
      const w3 = table[at + 3]!
      if (w0 === b0 && w1 === b1 && w2 === b2 && w3 === b3 && row > 0) continue
      b0 = w0
      b1 = w1
      b2 = w2
      b3 = w3
      addKey(views[filterBlockOf(w0, w1, w2, w3, blocks)]!, w0, w1, w2, w3)
    }
  }
}

/** Entries [from, to). Also notes each entry's partition row. Rows of entries fill their blocks, so that they stand back to back. */
function writeEntries(
  table: Uint32Array,
  active: ActiveIndex,
  from: number,
  to: number,
  partitionRow: Uint16Array,
  rowOf: Uint16Array,
): void {
  const { idWords, frameOffset, recordNumber, partition, timeHigh, timeLow } = active
  for (let entry = from, at = 0, id = 4 * from; entry < to; entry++, at += ROW_WORDS.entries, id += 4) {
    const row = partitionRow[partition[entry]!]!
    rowOf[entry] = row
    table[at] = idWords[id]!
    table[at + 1] = idWords[id + 1]!
    table[at + 2] = idWords[id + 2]!
    table[at + 3] = idWords[id + 3]!
    table[at + 4] = frameOffset[entry]!
    table[at + 5] = recordNumber[entry]! | (row << 16)
    table[at + 6] = timeLow[entry]!
    table[at + 7] = timeHigh[entry]!
  }
}

/** Entries by (partition row, time, entry): least significant key first, every sort stable. */
function orderPostings(
  active: ActiveIndex,
  count: number,
  rowOf: Uint16Array,
  order: Uint32Array,
  sorter: EntrySorter,
): void {
  fillWithEntries(order, count)
  if (!ascends(active.timeHigh, active.timeLow, count)) {
    sorter.sortByKey(active.timeLow, 1, 0, order, 0, count)
    sorter.sortByKey(active.timeHigh, 1, 0, order, 0, count)
  }
  sorter.sortByKey(rowOf, 1, 0, order, 0, count)
}

function ascends(timeHigh: Uint32Array, timeLow: Uint32Array, count: number): boolean {
  for (let entry = 1; entry < count; entry++) {
    const high = timeHigh[entry]!
    const before = timeHigh[entry - 1]!
    if (high < before || (high === before && timeLow[entry]! < timeLow[entry - 1]!)) return false
  }
  return true
}

function writePostings(table: Uint32Array, { timeHigh, timeLow }: ActiveIndex, order: Uint32Array, rows: number): void {
  const perBlock = rowsPerBlock('postings')
  for (let row = 0, block = 0; row < rows; block += BLOCK_WORDS) {
    const end = Math.min(rows, row + perBlock)
    for (let at = block; row < end; row++, at += ROW_WORDS.postings) {
      const entry = order[row]!
      table[at] = timeLow[entry]!
      table[at + 1] = timeHigh[entry]!
      table[at + 2] = entry
    }
  }
}

function writePartitions(
  table: Uint32Array,
  { timeHigh, timeLow }: ActiveIndex,
  order: Uint32Array,
  { rows }: NumberedPartitions,
): { minTime: bigint; maxTime: bigint } {
  const perBlock = rowsPerBlock('partitions')
  let minTime: bigint | null = null
  let maxTime = 0n
  let firstPosting = 0
  for (const [row, { hash, records, offset }] of rows.entries()) {
    const first = order[firstPosting]!
    const last = order[firstPosting + records - 1]!
    const at = Math.floor(row / perBlock) * BLOCK_WORDS + (row % perBlock) * ROW_WORDS.partitions
    table[at] = hash
    table[at + 1] = offset
    table[at + 2] = records
    table[at + 3] = firstPosting
    table[at + 4] = timeLow[first]!
    table[at + 5] = timeHigh[first]!
    table[at + 6] = timeLow[last]!
    table[at + 7] = timeHigh[last]!
    firstPosting += records
    const min = timeOfWords(timeHigh[first]!, timeLow[first]!)
    const max = timeOfWords(timeHigh[last]!, timeLow[last]!)
    if (minTime === null || min < minTime) minTime = min
    if (max > maxTime) maxTime = max
  }
  return { minTime: minTime ?? 0n, maxTime }
}

function writeNames(table: Uint32Array, { rows }: NumberedPartitions): void {
  const bytes = Buffer.from(table.buffer, table.byteOffset, table.byteLength)
  for (const { name, offset, ...facts } of rows) {
    name.copy(bytes, offset)
    writeFacts(bytes, offset + name.byteLength, facts)
  }
}
