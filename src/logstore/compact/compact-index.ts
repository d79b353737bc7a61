/**
 * Searches and reads a compacted bundle: it answers as the index of a bundle does, and gives the records as well.
 *
 * An answer rests on verified pieces only (pieces.ts P1).
 *
 * R2  compaction changes neither the numbers of entries nor their places in the segment, so cursors keep their meaning
 */
import { crc32 } from 'node:zlib'
import { segmentName } from '../../log/segment-format.ts'
import { STAND_IN_HEADER_BYTES, decodeStandInHeader } from '../../log/stand-in.ts'
import { encodePartitionName } from '../index/index-file.ts'
import type { BundleSearch, Partition, PartitionSummary } from '../index/reader.ts'
import type { BundleFile } from '../index/segment-files.ts'
import { BlockKeys, BlockTexts } from './block-reader.ts'
import { BlockRecords } from './block-records.ts'
import { ByteReader } from './byte-reader.ts'
import { partitionOf, readBlocks, readChunks, readPartitions } from './compact-directory.ts'
import type { ChunkPlace, CompactBlock, CompactPartition } from './compact-directory.ts'
import {
  CHUNK_ENTRIES,
  COMPACT_BEGIN_BYTES,
  COUNTS_VERSION,
  EXACT_COUNTS_VERSION,
  decodeCompactHead,
  newerVersionOf,
} from './compact-format.ts'
import { traceHash } from './hash-index.ts'
import { IdLookup } from './id-lookup.ts'
import { readWords } from './number-columns.ts'
import type { PieceCache } from './piece-cache.ts'
import { PieceFile } from './pieces.ts'
import type { Piece } from './pieces.ts'
import { Shapes } from './shapes.ts'
import { TokenCounts } from './token-counts.ts'

/** Filters of this many neighbouring blocks, which lie one behind the other, are read and kept together. */
const FILTERS_PER_RUN = 16

class Filters {
  readonly words: readonly Uint32Array[]
  /** Bytes in memory. */
  readonly heldBytes: number

  constructor(pieces: readonly Buffer[]) {
    this.words = pieces.map(wordsOf)
    this.heldBytes = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0)
  }
}

const wordsOf = ({ buffer, byteOffset, byteLength }: Buffer): Uint32Array =>
  new Uint32Array(buffer, byteOffset, byteLength / 4)

/** The rows and places of some thousand consecutive entries. */
export interface Chunk {
  readonly row: Uint32Array
  readonly frameOffset: Uint32Array
  readonly recordNumber: Uint32Array
  /** Bytes in memory. */
  readonly heldBytes: number
}

export interface CompactHeader {
  readonly base: number
  readonly end: number
  readonly minTime: bigint
  readonly maxTime: bigint
  readonly receivedUntil: bigint
  readonly identity: number
  readonly level: number
}

export class CompactIndex implements BundleSearch {
  readonly header: CompactHeader
  readonly entryCount: number
  readonly originalBytes: number
  readonly blocks: readonly CompactBlock[]
  readonly shapes: Shapes
  readonly #file: PieceFile
  readonly #cache: PieceCache
  readonly #owner: number
  readonly #partitions: readonly CompactPartition[]
  readonly #byName: ReadonlyMap<string, CompactPartition>
  readonly #chunks: readonly ChunkPlace[]
  readonly #idLookup: IdLookup
  readonly #isFar: boolean
  /** Null: an older version wrote the bundle, whose counts are not exact. */
  readonly #counts: TokenCounts | null

  // What `seekEntry` found of the entry it was called for last.
  frameOffset = 0
  recordNumber = 0
  partition = 0
  timeHigh = 0
  timeLow = 0
  row = 0
  /** The number of a block, and of the row in it. */
  unit = 0
  number = 0
  // What `seekPosting` found of the posting it was called for last.
  postingTimeHigh = 0
  postingTimeLow = 0
  postingEntry = 0

  /** The entries of the id, and of the trace, that were asked for last. */
  #found: { readonly words: string; readonly entries: readonly number[] } = { words: '', entries: [] }
  #traced: { readonly words: string; readonly entries: readonly number[] } = { words: '', entries: [] }
  /** The block of the row, and the chunk of the entry, that were read last. */
  #block: CompactBlock | null = null
  #keys: BlockKeys | null = null
  #chunk: Chunk | null = null
  #chunkNumber = -1
  /** The filters that were read last. */
  #filters: readonly Uint32Array[] = []
  #filtersNumber = -1

  /** @param isFar reads take long, as from a bucket */
  constructor(source: BundleFile, base: number, cache: PieceCache, isFar = false) {
    const file = new PieceFile(source, segmentName(base))
    this.#file = file
    this.#cache = cache
    this.#owner = cache.newOwner()
    this.#isFar = isFar
    const begin = file.read(0, Math.min(COMPACT_BEGIN_BYTES, file.size()))
    const standIn = decodeStandInHeader(begin)
    const headBytes = begin.subarray(STAND_IN_HEADER_BYTES)
    const head = decodeCompactHead(headBytes)
    const newer = newerVersionOf(headBytes)
    if (newer !== null) throw file.newer(newer)
    if (standIn === null || head === null) throw file.corrupt('it is damaged: header checksum mismatch')
    if (standIn.base !== base || standIn.fileBytes !== file.size()) throw file.corrupt('it is of another segment')
    const { minTime, maxTime, receivedUntil, identity, level } = head
    this.header = { base, end: standIn.end, minTime, maxTime, receivedUntil, identity, level }
    this.originalBytes = head.originalBytes
    this.entryCount = head.records
    const directory = file.read(COMPACT_BEGIN_BYTES, head.directoryBytes)
    if (crc32(directory) !== head.directoryCrc) throw file.corrupt('its directory is damaged: checksum mismatch')
    const from = new ByteReader(directory)
    this.shapes = Shapes.read(from)
    const described = readPartitions(from)
    const hasCounts = head.version >= COUNTS_VERSION
    const blocks = readBlocks(from, described, hasCounts)
    const chunks = readChunks(from)
    // Each look-up reads other pieces. From a disk that is as fast as a cache hit, and other data needs the cache more.
    const load = (piece: Piece): Buffer =>
      isFar ? this.#cached(piece, () => file.piece(piece)) : file.pieceOnce(piece)
    this.#idLookup = new IdLookup(from, COMPACT_BEGIN_BYTES + head.directoryBytes, head.version, blocks, file, load)
    let at = this.#idLookup.end
    const place = (piece: Piece): Piece => {
      at += piece.bytes
      return { ...piece, at: at - piece.bytes }
    }
    const counts = hasCounts ? new TokenCounts(from, blocks.length, place) : null
    this.#counts = head.version >= EXACT_COUNTS_VERSION ? counts : null
    const filters = blocks.map(({ filter }) => place(filter))
    this.#chunks = chunks.map((chunk) => ({ ...chunk, piece: place(chunk.piece) }))
    this.blocks = blocks.map((block, number) => ({
      ...block,
      filter: filters[number]!,
      keys: place(block.keys),
      texts: place(block.texts),
      numbers: place(block.numbers),
      values: place(block.values),
    }))
    let blockEnd = 0
    this.#partitions = described.map((partition, number) => {
      blockEnd += partition.blockCount
      return partitionOf(partition, number, this.blocks, blockEnd)
    })
    this.#byName = new Map(this.#partitions.map((partition) => [nameOf(partition.names), partition]))
  }

  close(): void {
    this.#cache.drop(this.#owner, this)
    this.#file.close()
  }

  /** See PieceCache.noteReader. */
  dropLastRead(): void {
    this.#block = null
    this.#keys = null
    this.#chunk = null
    this.#chunkNumber = -1
    this.#filters = []
    this.#filtersNumber = -1
  }

  findPartition(tenant: string, dataset: string): CompactPartition | null {
    return this.#byName.get(nameOf({ tenant, dataset })) ?? null
  }

  *partitions(): Iterable<PartitionSummary> {
    for (const partition of this.#partitions) yield { ...partition.names, partition, facts: partition.facts }
  }

  mayContainId(w0: number, _w1: number, _w2: number, _w3: number): boolean {
    return this.#idLookup.rowsOfId(w0).length > 0
  }

  /** As BundleIndex.findId. */
  findId(w0: number, w1: number, w2: number, w3: number, from = 0): { entry: number; nextRow: number } | null {
    const words = `${w0} ${w1} ${w2} ${w3}`
    if (this.#found.words !== words) this.#found = { words, entries: this.#entriesOfId(w0, w1, w2, w3) }
    const entry = this.#found.entries[from]
    return entry === undefined ? null : { entry, nextRow: from + 1 }
  }

  #entriesOfId(w0: number, w1: number, w2: number, w3: number): number[] {
    const entries: number[] = []
    for (const { block: number, from, to } of this.#idLookup.rowsOfId(w0)) {
      const block = this.blocks[number]!
      const ids = this.records(block).ids.between(from, to)
      for (let row = from, at = 0; row < to; row++, at += 4) {
        if (ids[at] !== w0 || ids[at + 1] !== w1 || ids[at + 2] !== w2 || ids[at + 3] !== w3) continue
        entries.push(this.keys(block).entry[row]!)
      }
    }
    return entries.sort((a, b) => a - b)
  }

  mayContainTrace(w0: number, w1: number, w2: number, w3: number): boolean {
    return this.#idLookup.blocksOfTrace(traceHash(w0, w1, w2, w3)).length > 0
  }

  /** As BundleIndex.traceRows; valid until the next call. */
  traceRows(w0: number, w1: number, w2: number, w3: number): { from: number; to: number } {
    const words = `${w0} ${w1} ${w2} ${w3}`
    if (this.#traced.words !== words) this.#traced = { words, entries: this.#entriesOfTrace(w0, w1, w2, w3) }
    return { from: 0, to: this.#traced.entries.length }
  }

  traceEntry(row: number): number {
    return this.#traced.entries[row]!
  }

  #entriesOfTrace(w0: number, w1: number, w2: number, w3: number): number[] {
    const trace = Uint32Array.of(w0, w1, w2, w3)
    const entries: number[] = []
    for (const number of this.#idLookup.blocksOfTrace(traceHash(w0, w1, w2, w3))) {
      const block = this.blocks[number]!
      const rows = this.records(block).rowsOfTrace(trace)
      if (rows.length === 0) continue
      const keys = this.keys(block)
      for (const row of rows) entries.push(keys.entry[row]!)
    }
    return entries.sort((a, b) => a - b)
  }

  /** As BundleIndex.lowerBoundPosting. */
  lowerBoundPosting({ number }: Partition, timeHigh: number, timeLow: number, entry: number): number {
    const { firstBlock, blockEnd, firstPosting, records } = this.#partitions[number]!
    const time = BigInt(timeHigh) * 2n ** 32n + BigInt(timeLow) // the high word may be 2^32, see index/reader.ts R2
    let low = firstBlock
    let high = blockEnd
    while (low < high) {
      const middle = (low + high) >>> 1
      const { minTime, firstEntry } = this.blocks[middle]!
      if (minTime < time || (minTime === time && firstEntry < entry)) low = middle + 1
      else high = middle
    }
    if (low === firstBlock) return firstPosting
    const block = this.blocks[low - 1]!
    if (time > block.maxTime) return Math.min(block.firstRow + block.rows, firstPosting + records)
    const keys = this.keys(block)
    let from = 0
    let to = block.rows
    while (from < to) {
      const middle = (from + to) >>> 1
      const high32 = keys.timeHigh[middle]!
      const low32 = keys.timeLow[middle]!
      const isBefore =
        high32 !== timeHigh ? high32 < timeHigh : low32 !== timeLow ? low32 < timeLow : keys.entry[middle]! < entry
      if (isBefore) from = middle + 1
      else to = middle
    }
    return block.firstRow + from
  }

  seekPosting(row: number): void {
    const block = this.blockOf(row)
    const keys = this.#keys!
    const at = row - block.firstRow
    this.postingTimeHigh = keys.timeHigh[at]!
    this.postingTimeLow = keys.timeLow[at]!
    this.postingEntry = keys.entry[at]!
  }

  seekEntry(entry: number): void {
    const chunk = this.chunkAt(Math.floor(entry / CHUNK_ENTRIES))
    const at = entry % CHUNK_ENTRIES
    this.row = chunk.row[at]!
    this.frameOffset = chunk.frameOffset[at]!
    this.recordNumber = chunk.recordNumber[at]!
    const block = this.blockOf(this.row)
    const keys = this.#keys!
    this.partition = block.partition
    this.unit = block.number
    this.number = this.row - block.firstRow
    this.timeHigh = keys.timeHigh[this.number]!
    this.timeLow = keys.timeLow[this.number]!
  }

  idOf(entry: number): Uint32Array {
    this.seekEntry(entry)
    return this.records(this.blocks[this.unit]!).ids.of(this.number)
  }

  entriesBefore(frameOffset: number, recordNumber: number): number {
    if (frameOffset <= 0) return 0
    if (frameOffset >= this.header.end - this.header.base) return this.entryCount
    const isBefore = (offset: number, number: number): boolean =>
      offset < frameOffset || (offset === frameOffset && number < recordNumber)
    let low = 0
    let high = this.#chunks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const { frameOffset: offset, recordNumber: number } = this.#chunks[middle]!
      if (isBefore(offset, number)) low = middle + 1
      else high = middle
    }
    if (low === 0) return 0
    const chunk = this.chunkAt(low - 1)
    let from = 0
    let to = chunk.row.length
    while (from < to) {
      const middle = (from + to) >>> 1
      if (isBefore(chunk.frameOffset[middle]!, chunk.recordNumber[middle]!)) from = middle + 1
      else to = middle
    }
    return (low - 1) * CHUNK_ENTRIES + from
  }

  /** The block of a row. `#keys` are its keys from then on. */
  blockOf(row: number): CompactBlock {
    const known = this.#block
    if (known !== null && row >= known.firstRow && row < known.firstRow + known.rows) return known
    let low = 0
    let high = this.blocks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.blocks[middle]!.firstRow <= row) low = middle + 1
      else high = middle
    }
    const block = this.blocks[low - 1]!
    this.#cache.noteReader(this)
    this.#keys = this.keys(block)
    this.#block = block
    return block
  }

  keys({ keys, rows, minTime }: CompactBlock): BlockKeys {
    return this.#cachedRecords(keys, () => new BlockKeys(this.#file.pieceForNow(keys), rows, minTime))
  }

  /** Not cached: searches go through many blocks. */
  texts(block: CompactBlock): BlockTexts {
    return new BlockTexts(this.#file.piece(block.texts), block.rows, this.shapes, {
      keys: () => this.keys(block),
      numbers: () => this.#file.piece(block.numbers),
      values: () => this.#file.piece(block.values),
    })
  }

  /** Null: the block may hold any word. */
  filter({ filter, number }: CompactBlock): Uint32Array | null {
    if (filter.bytes === 0) return null
    if (this.#isFar) return this.#cached(filter, () => wordsOf(this.#file.piece(filter)))
    const run = Math.floor(number / FILTERS_PER_RUN)
    if (run !== this.#filtersNumber) {
      this.#cache.noteReader(this)
      this.#filters = this.#filtersOf(run)
      this.#filtersNumber = run
    }
    return this.#filters[number % FILTERS_PER_RUN]!
  }

  #filtersOf(run: number): readonly Uint32Array[] {
    const pieces = this.blocks.slice(run * FILTERS_PER_RUN, (run + 1) * FILTERS_PER_RUN).map(({ filter }) => filter)
    const place = { ...pieces[0]!, bytes: 0 } // so that the cache counts `heldBytes` alone
    return this.#cached(place, () => new Filters(this.#file.piecesInRow(pieces))).words
  }

  /** The blocks of a partition, in the order of time. */
  blocksOf(partition: number): CompactBlock[] {
    const { firstBlock, blockEnd } = this.#partitions[partition]!
    return this.blocks.slice(firstBlock, blockEnd)
  }

  /** By block: how many of its rows have the token; 0: it is not listed. Null: it is listed for no block. See token-counts.ts. */
  rowsWithToken(token: string): Uint32Array | null {
    return this.#counts?.of(token, (piece) => this.#cached(piece, () => this.#file.piece(piece))) ?? null
  }

  records(block: CompactBlock): BlockRecords {
    return this.#cachedRecords(block.values, () => this.readRecords(block))
  }

  /** As `records`, without caching them. */
  readRecords(block: CompactBlock, texts = this.texts(block)): BlockRecords {
    const { names } = this.#partitions[block.partition]!
    return new BlockRecords(texts, this.keys(block), this.shapes, names)
  }

  /** The chunk of entries from number * CHUNK_ENTRIES on; valid until another one is asked for. */
  chunkAt(number: number): Chunk {
    if (number !== this.#chunkNumber) {
      const { piece } = this.#chunks[number]!
      const count = Math.min(CHUNK_ENTRIES, this.entryCount - number * CHUNK_ENTRIES)
      this.#cache.noteReader(this)
      this.#chunk = this.#cachedRecords(piece, () => {
        const from = new ByteReader(this.#file.pieceForNow(piece))
        return {
          row: readWords(from, count),
          frameOffset: readWords(from, count),
          recordNumber: readWords(from, count),
          heldBytes: 3 * Uint32Array.BYTES_PER_ELEMENT * count,
        }
      })
      this.#chunkNumber = number
    }
    return this.#chunk!
  }

  #cached<Made extends object>(piece: Piece, make: () => Made): Made {
    return this.#cache.get(this.#owner, piece, make)
  }

  #cachedRecords<Made extends object>(piece: Piece, make: () => Made): Made {
    return this.#cache.getRecords(this.#owner, piece, make)
  }
}

const nameOf = ({ tenant, dataset }: { readonly tenant: string; readonly dataset: string }): string =>
  encodePartitionName(tenant, dataset).toString('latin1')
