/**
 * Makes the content of a compacted bundle (compact-format.ts) from records that come in the order of its rows: by partition, time and entry. Data that
 * grows with the number of records goes to a scratch; the facts of each block stay in memory until the end.
 */
import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { FORMAT_JSON } from '../batch-frame.ts'
import { encodePartitionName, signalBit } from '../index/index-file.ts'
import { BlockTokens } from './block-tokens.ts'
import { BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BlockWriter } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { ByteWriter } from './byte-writer.ts'
import { CHUNK_ENTRIES, COMPACT_BEGIN_BYTES, encodeCompactHead } from './compact-format.ts'
import { HashPairs, traceHash, writeHashIndex } from './hash-index.ts'
import { ROWS_OF_RUN } from './id-lookup.ts'
import { writeNumbers } from './number-columns.ts'
import { compressed, pieceOf, uncompressed, writePiece } from './pieces.ts'
import type { PieceFacts } from './pieces.ts'
import type { ByteList, RowsByEntry, Scratch } from './scratch.ts'
import { Shapes } from './shapes.ts'
import { ListedTokens, SEVERITIES, writeTokenCounts } from './token-counts.ts'

/** The number of a block has 16 bits. */
export const BLOCKS_MAX = 0xffff
/** Most listings (of a token in a block) of a bundle; usual logs have some hundreds a block. A search for a token that is not listed reads the block. */
const LISTED_MAX = 1 << 20

interface Time {
  readonly timeHigh: number
  readonly timeLow: number
}

interface Place extends Time {
  readonly entry: number
}

interface WrittenBlock {
  readonly rows: number
  readonly first: Place
  readonly last: Time
  readonly severities: number
  readonly severityRows: Uint32Array | null
  /** WORDS and PAIRS. */
  readonly counted: number
  readonly keys: PieceFacts
  readonly texts: PieceFacts
  readonly numbers: PieceFacts
  readonly values: PieceFacts
  readonly filter: PieceFacts
}

interface WrittenPartition {
  readonly name: Buffer
  records: number
  bytes: number
  signals: number
  readonly blocks: WrittenBlock[]
}

/** One row. The caller may change it, and `trace`, as soon as `add` returns. */
export interface Row extends Place {
  /** Where the record begins in the source of the block. */
  readonly start: number
  readonly end: number
  readonly group: Group
  readonly trace: Uint32Array
  readonly traceAt: number
  /** The first word of its record id. */
  readonly idWord: number
  /** The id where it does not follow from record and group; read again when the block ends. */
  readonly explicitId: Uint32Array | null
}

export interface BundleFacts {
  readonly receivedUntil: bigint
  /** Bytes of the files that it replaces. */
  readonly originalBytes: number
  /** How often its records were written again since they were compacted. */
  readonly level: number
}

/** The places of the records of entries [from, to) in the log: frame offsets, and numbers of the records in their frames. */
export type PlacesOf = (
  from: number,
  to: number,
) => { readonly frameOffset: ArrayLike<number>; readonly recordNumber: ArrayLike<number> }

export class BundleWriter {
  readonly #filters: ByteList
  readonly #columns: ByteList
  readonly #lookUps: ByteList
  readonly #chunks: ByteList
  readonly #shapes = new Shapes()
  readonly #blocks: BlockWriter
  readonly #tokens: BlockTokens
  readonly #listed = new ListedTokens()
  readonly #entries: number
  readonly #rowOf: RowsByEntry
  readonly #ids: HashPairs
  readonly #traces: HashPairs
  /** Hashes of traces that the block has already. */
  readonly #tracesOfBlock = new Set<number>()
  readonly #partitions: WrittenPartition[] = []
  #rows = 0
  #blockCount = 0
  #first: Place | null = null
  #lastTimeHigh = 0
  #lastTimeLow = 0
  #minTime: bigint | null = null
  #maxTime = 0n

  constructor(entries: number, scratch: Scratch) {
    this.#filters = scratch.list()
    this.#columns = scratch.list()
    this.#lookUps = scratch.list()
    this.#chunks = scratch.list()
    this.#tokens = new BlockTokens(this.#shapes)
    this.#blocks = new BlockWriter(this.#shapes, this.#tokens)
    this.#entries = entries
    this.#rowOf = scratch.rows(entries)
    this.#ids = new HashPairs(scratch, entries)
    this.#traces = new HashPairs(scratch, 0)
  }

  beginPartition(tenant: string, dataset: string): void {
    this.#partitions.push({ name: encodePartitionName(tenant, dataset), records: 0, bytes: 0, signals: 0, blocks: [] })
  }

  /** Call it before the first row of a block. @param source has the bytes of its records until `endBlock` */
  beginBlock(source: Buffer): void {
    this.#blocks.begin(source)
    this.#tokens.begin(source)
  }

  add(added: Row): void {
    const { start, end, group, timeHigh, timeLow, entry, trace, traceAt, idWord, explicitId } = added
    this.#blocks.add(start, end, group, timeHigh, timeLow, entry, trace, traceAt, explicitId)
    this.#tokens.addRecord(this.#blocks.cutter, this.#blocks.shape, group, group.format === FORMAT_JSON)
    this.#first ??= { timeHigh, timeLow, entry }
    this.#lastTimeHigh = timeHigh
    this.#lastTimeLow = timeLow
    const row = this.#rows++
    this.#rowOf.set(entry, row)
    const partition = this.#partitions.at(-1)!
    partition.records++
    partition.bytes += end - start
    partition.signals |= signalBit(group.signal)
    this.#ids.add(idWord, Math.floor(row / ROWS_OF_RUN))
    const [w0, w1, w2, w3] = [trace[traceAt]!, trace[traceAt + 1]!, trace[traceAt + 2]!, trace[traceAt + 3]!]
    const hasTrace = (w0 | w1 | w2 | w3) !== 0
    if (hasTrace) this.#addTrace(traceHash(w0, w1, w2, w3))
  }

  /** Adds a trace once for each block: traces have many rows, which are near each other. */
  #addTrace(hash: number): void {
    if (this.#tracesOfBlock.has(hash)) return
    this.#tracesOfBlock.add(hash)
    this.#traces.add(hash, this.#blockCount)
  }

  endBlock(): void {
    const rows = this.#blocks.rows
    const { keys, texts, numbers, values, severities, severityRows } = this.#blocks.finish()
    const { filter, counted, listed } = this.#tokens.finish()
    for (const [token, rowsOfToken] of listed) {
      if (this.#listed.count < LISTED_MAX) this.#listed.add(token, this.#blockCount, rowsOfToken)
    }
    const columns = [keys, texts, numbers, values].map(compressed)
    const written = uncompressed(filter)
    this.#filters.add(written.bytes)
    this.#columns.add(...columns.map(({ bytes }) => bytes))
    const [keysPiece, textsPiece, numbersPiece, valuesPiece] = columns.map(pieceOf)
    this.#partitions.at(-1)!.blocks.push({
      rows,
      first: this.#first!,
      last: { timeHigh: this.#lastTimeHigh, timeLow: this.#lastTimeLow },
      severities,
      severityRows,
      counted,
      keys: keysPiece!,
      texts: textsPiece!,
      numbers: numbersPiece!,
      values: valuesPiece!,
      filter: pieceOf(written),
    })
    const { first, last } = this.#partitions.at(-1)!.blocks.at(-1)!
    this.#noteTimes(timeOf(first), timeOf(last))
    this.#first = null
    this.#tracesOfBlock.clear()
    this.#blockCount++
    assert(this.#blockCount <= BLOCKS_MAX)
  }

  #noteTimes(first: bigint, last: bigint): void {
    if (this.#minTime === null || first < this.#minTime) this.#minTime = first
    if (last > this.#maxTime) this.#maxTime = last
  }

  /** The content, part after part. Called once, after the last block. */
  *finish(facts: BundleFacts, placesOf: PlacesOf): Iterable<Buffer<ArrayBuffer>> {
    assert.equal(this.#rows, this.#entries)
    const directory = new ByteWriter()
    this.#shapes.write(directory)
    this.#describePartitions(directory)
    this.#writeChunks(directory, placesOf)
    writeHashIndex(directory, this.#ids, this.#lookUps)
    writeHashIndex(directory, this.#traces, this.#lookUps)
    const counts = writeTokenCounts(directory, this.#listed)
    const directoryBytes = Buffer.from(directory.written())
    yield encodeCompactHead({
      ...facts,
      directoryBytes: directoryBytes.byteLength,
      directoryCrc: crc32(directoryBytes),
      records: this.#rows,
      minTime: this.#minTime ?? 0n,
      maxTime: this.#maxTime,
      openBytes: COMPACT_BEGIN_BYTES + directoryBytes.byteLength + this.#lookUps.bytes,
    })
    yield directoryBytes
    yield* this.#lookUps
    for (const { bytes } of counts) yield bytes
    yield* this.#filters
    yield* this.#chunks
    yield* this.#columns
  }

  #describePartitions(into: ByteWriter): void {
    into.varint(this.#partitions.length)
    for (const { name, records, bytes, signals, blocks } of this.#partitions) {
      into.lengthAndBytes(name)
      for (const number of [records, bytes, signals, blocks.length]) into.varint(number)
    }
    for (const { blocks } of this.#partitions) {
      for (const block of blocks) {
        const { rows, first, last, severities, severityRows, counted, keys, texts, numbers, values, filter } = block
        into.varint(rows)
        for (const { timeLow, timeHigh } of [first, last]) {
          into.u32(timeLow)
          into.u32(timeHigh)
        }
        into.u32(first.entry)
        into.u32(severities)
        into.byte(counted + (severityRows === null ? 0 : SEVERITIES))
        for (const count of severityRows ?? []) if (count > 0) into.varint(count)
        for (const piece of [keys, texts, numbers, values, filter]) writePiece(into, piece)
      }
    }
  }

  /** Writes by entry its row, and the place of its record in the segment. */
  #writeChunks(directory: ByteWriter, placesOf: PlacesOf): void {
    const into = new ByteWriter()
    const numbers = new Float64Array(CHUNK_ENTRIES)
    directory.varint(Math.ceil(this.#entries / CHUNK_ENTRIES))
    let from = 0
    for (const rows of this.#rowOf.chunks(CHUNK_ENTRIES)) {
      const to = from + rows.length
      const { frameOffset, recordNumber } = placesOf(from, to)
      into.reset()
      for (const column of [rows, frameOffset, recordNumber]) {
        numbers.set(column)
        writeNumbers(into, numbers, to - from)
      }
      const piece = compressed(into.written())
      directory.u32(frameOffset[0]!)
      directory.varint(recordNumber[0]!)
      writePiece(directory, pieceOf(piece))
      this.#chunks.add(piece.bytes)
      from = to
    }
  }
}

/** Whether a block with this many rows and bytes takes no more rows. */
export const isBlockFull = (rows: number, bytes: number): boolean => rows === BLOCK_ROWS_MAX || bytes >= BLOCK_BYTES_MAX

/** Upper bound of the number of blocks: each is full, except the last one of each partition. */
export const blockCountBound = (partitions: number, records: number, bytes: number): number =>
  partitions + records / BLOCK_ROWS_MAX + bytes / BLOCK_BYTES_MAX

const timeOf = ({ timeHigh, timeLow }: Time): bigint => (BigInt(timeHigh) << 32n) | BigInt(timeLow)
