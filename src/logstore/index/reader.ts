/**
 * Search in one bundle's index. Nothing is loaded on opening but the header; a look-up reads the blocks it needs.
 *
 * An answer rests on verified blocks only. A damaged block is a StoreError `bundle_index_corrupt`, never another answer.
 *
 * R2  "no end" of a time range is 2^64: times are compared as two numbers, of which the high one may be 2^32
 */
import { crc32 } from 'node:zlib'
import { segmentName } from '../../log/segment-format.ts'
import { mayContain } from '../../../native-free-codecs/membership-filter.ts'
import { StoreError } from '../../errors.ts'
import type { BlockCache } from './block-cache.ts'
import { BlockFile } from './block-table.ts'
import type { BlockTable } from './block-table.ts'
import { filterBlockOf } from './filter-blocks.ts'
import { BLOCK_BYTES, INDEX_NAME, decodePartitionName, encodePartitionName, readFacts } from './index-file.ts'
import type { IndexHeader, PartitionFacts } from './index-file.ts'
import type { BundleFile, SegmentFiles } from './segment-files.ts'

/** What a bundle holds of one tenant and dataset. Times in words; both ends are inclusive. */
export interface Partition {
  readonly number: number
  readonly records: number
  readonly firstPosting: number
  readonly minTimeHigh: number
  readonly minTimeLow: number
  readonly maxTimeHigh: number
  readonly maxTimeLow: number
}

/** What a bundle holds of one partition. */
export interface PartitionSummary {
  readonly tenant: string
  readonly dataset: string
  readonly partition: Partition
  /** Null: a version wrote the index that did not count them. */
  readonly facts: PartitionFacts | null
}

/** What the index of a bundle answers, whichever form the bundle has. */
export interface BundleSearch {
  readonly header: Pick<IndexHeader, 'base' | 'end' | 'minTime' | 'maxTime' | 'receivedUntil' | 'identity'>
  readonly entryCount: number
  // What `seekEntry` found of the entry it was called for last.
  readonly frameOffset: number
  readonly recordNumber: number
  readonly partition: number
  readonly timeHigh: number
  readonly timeLow: number
  /** The unit that is read as a whole to get its record (a frame, or a block), and the number of the record in it. */
  readonly unit: number
  readonly number: number
  // What `seekPosting` found of the posting it was called for last.
  readonly postingTimeHigh: number
  readonly postingTimeLow: number
  readonly postingEntry: number
  close(): void
  findPartition(tenant: string, dataset: string): Partition | null
  partitions(): Iterable<PartitionSummary>
  mayContainId(w0: number, w1: number, w2: number, w3: number): boolean
  findId(w0: number, w1: number, w2: number, w3: number, from?: number): { entry: number; nextRow: number } | null
  mayContainTrace(w0: number, w1: number, w2: number, w3: number): boolean
  traceRows(w0: number, w1: number, w2: number, w3: number): { from: number; to: number }
  traceEntry(row: number): number
  lowerBoundPosting(partition: Partition, timeHigh: number, timeLow: number, entry: number): number
  seekPosting(row: number): void
  seekEntry(entry: number): void
  idOf(entry: number): Uint32Array
  entriesBefore(frameOffset: number, recordNumber: number): number
}

export class BundleIndex implements BundleSearch {
  readonly header: IndexHeader
  readonly #file: BlockFile
  readonly #entries: BlockTable
  readonly #ids: BlockTable
  readonly #idFences: BlockTable
  readonly #traces: BlockTable
  readonly #traceFences: BlockTable
  readonly #postings: BlockTable
  readonly #postingFences: BlockTable
  readonly #partitions: BlockTable
  readonly #names: BlockTable
  readonly #idFilter: BlockTable
  readonly #traceFilter: BlockTable

  /** What `seekEntry` found of the entry it was called for last. */
  frameOffset = 0
  recordNumber = 0
  partition = 0
  timeHigh = 0
  timeLow = 0
  /** Time and entry of the posting that `seekPosting` was called for last. */
  postingTimeHigh = 0
  postingTimeLow = 0
  postingEntry = 0

  /** @param bundle its name, for messages */
  constructor(source: BundleFile, bundle: string, cache: BlockCache) {
    const file = new BlockFile(source, bundle, cache)
    this.#file = file
    this.header = file.header
    this.#entries = file.table('entries')
    this.#ids = file.table('ids')
    this.#idFences = file.table('idFences')
    this.#traces = file.table('traces')
    this.#traceFences = file.table('traceFences')
    this.#postings = file.table('postings')
    this.#postingFences = file.table('postingFences')
    this.#partitions = file.table('partitions')
    this.#names = file.table('names')
    this.#idFilter = file.table('idFilter')
    this.#traceFilter = file.table('traceFilter')
  }

  get entryCount(): number {
    return this.#entries.rows
  }

  /** The frame of the entry, by its offset. */
  get unit(): number {
    return this.frameOffset
  }

  get number(): number {
    return this.recordNumber
  }

  close(): void {
    this.#file.close()
  }

  /** Null when the bundle holds nothing of it. */
  findPartition(tenant: string, dataset: string): Partition | null {
    const name = encodePartitionName(tenant, dataset)
    const hash = crc32(name)
    const table = this.#partitions
    for (let number = lowerBoundOfWord(table, 0, table.rows, hash); number < table.rows; number++) {
      const at = table.at(number)
      const words = table.words
      if (words[at] !== hash) return null
      if (!this.#nameAt(words[at + 1]!, name.byteLength).equals(name)) continue
      return partitionAt(number, words, at)
    }
    return null
  }

  /** All partitions, in the order of their numbers. */
  *partitions(): Iterable<PartitionSummary> {
    for (let number = 0; number < this.#partitions.rows; number++) {
      const at = this.#partitions.at(number)
      const { words } = this.#partitions
      const partition = partitionAt(number, words, at)
      const name = this.#nameAt(words[at + 1]!, BLOCK_BYTES)
      const facts = this.header.factBytes === 0 ? null : readFacts(name)
      yield { ...decodePartitionName(name), partition, facts }
    }
  }

  /** False: the id is surely not here. */
  mayContainId(w0: number, w1: number, w2: number, w3: number): boolean {
    return probe(this.#idFilter, w0, w1, w2, w3)
  }

  /**
   * The oldest entry with this id, or null. Its `nextRow` as `from` gives the next one, and so on.
   */
  findId(w0: number, w1: number, w2: number, w3: number, from = 0): { entry: number; nextRow: number } | null {
    const ids = this.#ids
    for (let row = from > 0 ? from : this.#firstRowOf(w0); row < ids.rows; row++) {
      const at = ids.at(row)
      if (ids.words[at] !== w0) return null
      const entry = ids.words[at + 1]!
      const entryAt = this.#entries.at(entry)
      if (compareKey(this.#entries.words, entryAt, w0, w1, w2, w3) === 0) return { entry, nextRow: row + 1 }
    }
    return null
  }

  /** The first row of the ids with this word or a greater one. */
  #firstRowOf(word: number): number {
    const ids = this.#ids
    const fence = lowerBoundOfWord(this.#idFences, 1, this.#idFences.rows, word)
    const from = Math.min((fence - 1) * ids.rowsPerBlock, ids.rows)
    return lowerBoundOfWord(ids, from, Math.min(from + ids.rowsPerBlock, ids.rows), word)
  }

  mayContainTrace(w0: number, w1: number, w2: number, w3: number): boolean {
    return probe(this.#traceFilter, w0, w1, w2, w3)
  }

  /** Rows [from, to) for `traceEntry` that hold the records of this trace, in ingest order. */
  traceRows(w0: number, w1: number, w2: number, w3: number): { from: number; to: number } {
    return {
      from: lowerBoundOfKey(this.#traces, this.#traceFences, false, w0, w1, w2, w3),
      to: lowerBoundOfKey(this.#traces, this.#traceFences, true, w0, w1, w2, w3),
    }
  }

  traceEntry(row: number): number {
    const at = this.#traces.at(row)
    return this.#traces.words[at + 4]!
  }

  /** First posting of the partition at or after (time, entry), as a row for `seekPosting`; at most firstPosting + records. */
  lowerBoundPosting(partition: Partition, timeHigh: number, timeLow: number, entry: number): number {
    const end = partition.firstPosting + partition.records
    const { rowsPerBlock } = this.#postings
    // Fences inside the partition: the blocks that begin after its first posting.
    const fence = lowerBoundOfPosting(
      this.#postingFences,
      Math.floor(partition.firstPosting / rowsPerBlock) + 1,
      Math.ceil(end / rowsPerBlock),
      timeHigh,
      timeLow,
      entry,
    )
    const from = Math.max(partition.firstPosting, (fence - 1) * rowsPerBlock)
    return lowerBoundOfPosting(this.#postings, from, Math.min(end, fence * rowsPerBlock), timeHigh, timeLow, entry)
  }

  /** Sets the `posting…` fields. */
  seekPosting(row: number): void {
    const at = this.#postings.at(row)
    const words = this.#postings.words
    this.postingTimeLow = words[at]!
    this.postingTimeHigh = words[at + 1]!
    this.postingEntry = words[at + 2]!
  }

  /** Sets the fields of an entry. */
  seekEntry(entry: number): void {
    const at = this.#entries.at(entry)
    const words = this.#entries.words
    this.frameOffset = words[at + 4]!
    this.recordNumber = words[at + 5]! & 0xffff
    this.partition = words[at + 5]! >>> 16
    this.timeLow = words[at + 6]!
    this.timeHigh = words[at + 7]!
  }

  /** The record id of an entry, as four words. */
  idOf(entry: number): Uint32Array {
    const at = this.#entries.at(entry)
    return this.#entries.words.slice(at, at + 4)
  }

  /** How many entries lie before this place of the segment: frames before `frameOffset`, and records before `recordNumber` in it. */
  entriesBefore(frameOffset: number, recordNumber: number): number {
    if (frameOffset <= 0) return 0
    if (frameOffset >= this.header.end - this.header.base) return this.entryCount
    let low = 0
    let high = this.entryCount
    while (low < high) {
      const middle = (low + high) >>> 1
      this.seekEntry(middle)
      if (this.frameOffset < frameOffset || (this.frameOffset === frameOffset && this.recordNumber < recordNumber)) {
        low = middle + 1
      } else {
        high = middle
      }
    }
    return low
  }

  #nameAt(offset: number, bytes: number): Buffer {
    const at = this.#names.at(offset / 4)
    const { words } = this.#names
    return Buffer.from(words.buffer, words.byteOffset + 4 * at, Math.min(bytes, 4 * (words.length - at)))
  }
}

const partitionAt = (number: number, words: Uint32Array, at: number): Partition => ({
  number,
  records: words[at + 2]!,
  firstPosting: words[at + 3]!,
  minTimeLow: words[at + 4]!,
  minTimeHigh: words[at + 5]!,
  maxTimeLow: words[at + 6]!,
  maxTimeHigh: words[at + 7]!,
})

/** What the catalog says of a bundle; an index file that says otherwise belongs to another segment. */
export interface ExpectedIndex {
  readonly base: number
  readonly end: number
  readonly identity: number
  /** It has a stand-in in place of its other files. */
  readonly isCompacted?: boolean
  /** Its stand-in is a merged file. */
  readonly isMerged?: boolean
}

/** Opens `index.bin` of a bundle. */
export function openBundleIndex(files: SegmentFiles, cache: BlockCache, expected: ExpectedIndex): BundleIndex {
  const bundle = segmentName(expected.base)
  const source = files.open(expected.base, INDEX_NAME)
  try {
    const index = new BundleIndex(source, bundle, cache)
    const { base, end, identity } = index.header
    if (base === expected.base && end === expected.end && identity === expected.identity) return index
    throw new StoreError(
      'corrupt',
      'bundle_index_corrupt',
      `bundle ${bundle}: index.bin is not the one its manifest names; it has to be rebuilt`,
    )
  } catch (error) {
    source.close()
    throw error
  }
}

/** First row of [low, high) whose first word is at or above this one. */
function lowerBoundOfWord(table: BlockTable, low: number, high: number, word: number): number {
  while (low < high) {
    const middle = (low + high) >>> 1
    const at = table.at(middle)
    if (table.words[at]! < word) low = middle + 1
    else high = middle
  }
  return low
}

/** Row of the first key at or after this one (`after`: the first after it), in a table of keys and its fences. */
function lowerBoundOfKey(
  table: BlockTable,
  fences: BlockTable,
  after: boolean,
  w0: number,
  w1: number,
  w2: number,
  w3: number,
): number {
  const limit = after ? 1 : 0
  const fence = searchKeys(fences, 1, fences.rows, limit, w0, w1, w2, w3)
  const from = (fence - 1) * table.rowsPerBlock
  return searchKeys(
    table,
    Math.min(from, table.rows),
    Math.min(from + table.rowsPerBlock, table.rows),
    limit,
    w0,
    w1,
    w2,
    w3,
  )
}

/** First row of [low, high) whose key compares to the given one as `limit` or more. */
function searchKeys(
  table: BlockTable,
  low: number,
  high: number,
  limit: number,
  w0: number,
  w1: number,
  w2: number,
  w3: number,
): number {
  while (low < high) {
    const middle = (low + high) >>> 1
    const at = table.at(middle)
    if (compareKey(table.words, at, w0, w1, w2, w3) < limit) low = middle + 1
    else high = middle
  }
  return low
}

/** -1, 0 or 1. */
function compareKey(words: Uint32Array, at: number, w0: number, w1: number, w2: number, w3: number): number {
  if (words[at] !== w0) return words[at]! < w0 ? -1 : 1
  if (words[at + 1] !== w1) return words[at + 1]! < w1 ? -1 : 1
  if (words[at + 2] !== w2) return words[at + 2]! < w2 ? -1 : 1
  if (words[at + 3] !== w3) return words[at + 3]! < w3 ? -1 : 1
  return 0
}

/** First row of [low, high) at or after (time, entry); `low` when there is none before it, also when the range is empty. */
function lowerBoundOfPosting(
  table: BlockTable,
  low: number,
  high: number,
  timeHigh: number,
  timeLow: number,
  entry: number,
): number {
  while (low < high) {
    const middle = (low + high) >>> 1
    const at = table.at(middle)
    const words = table.words
    const high32 = words[at + 1]!
    const low32 = words[at]!
    const before =
      high32 !== timeHigh ? high32 < timeHigh : low32 !== timeLow ? low32 < timeLow : words[at + 2]! < entry
    if (before) low = middle + 1
    else high = middle
  }
  return low
}

function probe(filter: BlockTable, w0: number, w1: number, w2: number, w3: number): boolean {
  const blocks = filter.rows / filter.rowsPerBlock
  if (blocks === 0) return false
  filter.at(filterBlockOf(w0, w1, w2, w3, blocks) * filter.rowsPerBlock)
  return mayContain(filter.words, w0, w1, w2, w3)
}
