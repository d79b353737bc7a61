/** Makes the content of `compact.bin`, see compact-format.ts, of the records of a segment. */
import { crc32 } from 'node:zlib'
import { FORMAT_JSON } from '../batch-frame.ts'
import { encodePartitionName, signalBit } from '../index/index-file.ts'
import { EntrySorter } from '../index/radix-sort.ts'
import { BlockTokens } from './block-tokens.ts'
import { BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BlockWriter } from './block-writer.ts'
import { ByteWriter } from './byte-writer.ts'
import { CHUNK_ENTRIES, COMPACT_BEGIN_BYTES, encodeCompactHead } from './compact-format.ts'
import { traceHash, writeHashIndex } from './hash-index.ts'
import { writeNumbers } from './number-columns.ts'
import { asItIs, compressed, writePiece } from './pieces.ts'
import { SEVERITIES, writeTokenCounts } from './token-counts.ts'
import type { WrittenPiece } from './pieces.ts'
import type { SegmentRecords } from './segment-records.ts'
import { Shapes } from './shapes.ts'

interface WrittenBlock {
  readonly rows: number
  readonly first: number
  readonly last: number
  readonly severities: number
  readonly severityRows: Uint32Array | null
  /** WORDS and PAIRS. */
  readonly counted: number
  readonly keys: WrittenPiece
  readonly texts: WrittenPiece
  readonly numbers: WrittenPiece
  readonly values: WrittenPiece
  readonly filter: WrittenPiece
}

interface WrittenPartition {
  readonly name: Buffer
  readonly records: number
  readonly bytes: number
  readonly signals: number
  readonly blocks: readonly WrittenBlock[]
}

/**
 * @param originalBytes of the files that it replaces
 * @param rest called after each block, so that the processor is left to others
 * @returns parts of the content, one after the other; null: there would be more blocks than a number of 16 bits names
 */
export function compactContent(
  records: SegmentRecords,
  originalBytes: number,
  rest: () => void,
): readonly Buffer[] | null {
  const partitions = records.index.partitionCount
  if (partitions + records.count / BLOCK_ROWS_MAX + records.bytes / BLOCK_BYTES_MAX > BLOCKS_MAX) return null
  return new CompactWriter(records, rest).write(originalBytes)
}

const BLOCKS_MAX = 0xffff

class CompactWriter {
  readonly #records: SegmentRecords
  readonly #rest: () => void
  readonly #shapes = new Shapes()
  readonly #blocks: BlockWriter
  readonly #tokens: BlockTokens
  /** Blocks and rows of the frequent tokens, see `writeTokenCounts`. */
  readonly #tokenCounts = new Map<string, number[]>()
  /** By row. */
  readonly #order: Uint32Array
  readonly #rowOf: Uint32Array
  readonly #blockOfRow: Uint16Array

  constructor(records: SegmentRecords, rest: () => void) {
    this.#records = records
    this.#rest = rest
    this.#blocks = new BlockWriter(this.#shapes)
    this.#tokens = new BlockTokens(this.#shapes)
    this.#order = orderOf(records)
    this.#rowOf = new Uint32Array(records.count)
    for (const [row, entry] of this.#order.entries()) this.#rowOf[entry] = row
    this.#blockOfRow = new Uint16Array(records.count)
  }

  write(originalBytes: number): readonly Buffer[] {
    const { index, count } = this.#records
    const partitions = this.#writePartitions()
    const blocks = partitions.flatMap((partition) => partition.blocks)
    const directory = new ByteWriter()
    this.#shapes.write(directory)
    this.#describePartitions(directory, partitions)
    const chunks = this.#writeChunks(directory)
    const { idWords, traceWords } = index
    const ids = this.#writeHashes(directory, blocks.length, (entry) => idWords[4 * entry]!)
    const traces = this.#writeHashes(directory, blocks.length, (entry) => {
      const at = 4 * entry
      const [w0, w1, w2, w3] = [traceWords[at]!, traceWords[at + 1]!, traceWords[at + 2]!, traceWords[at + 3]!]
      return (w0 | w1 | w2 | w3) === 0 ? null : traceHash(w0, w1, w2, w3)
    })
    const counts = writeTokenCounts(directory, this.#tokenCounts)
    const directoryBytes = Buffer.from(directory.written())
    const lookUps = [...ids, ...traces].map(({ bytes }) => bytes)
    const openBytes =
      COMPACT_BEGIN_BYTES + directoryBytes.byteLength + lookUps.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const times = timesOf(this.#records)
    const head = encodeCompactHead({
      directoryBytes: directoryBytes.byteLength,
      directoryCrc: crc32(directoryBytes),
      records: count,
      ...times,
      receivedUntil: BigInt(index.receivedUntil),
      openBytes,
      originalBytes,
    })
    return [
      head,
      directoryBytes,
      ...lookUps,
      ...counts.map(({ bytes }) => bytes),
      ...blocks.map(({ filter }) => filter.bytes),
      ...chunks.map(({ bytes }) => bytes),
      ...blocks.flatMap(({ keys, texts, numbers, values }) => [keys, texts, numbers, values].map(({ bytes }) => bytes)),
    ]
  }

  #writePartitions(): WrittenPartition[] {
    const { index, count, start, end } = this.#records
    const names = index.partitions()
    const partitions: WrittenPartition[] = []
    let blockCount = 0
    for (let row = 0; row < count;) {
      const partition = index.partition[this.#order[row]!]!
      const { tenant, dataset } = names[partition]!
      const blocks: WrittenBlock[] = []
      const first = row
      let bytes = 0
      let signals = 0
      while (row < count && index.partition[this.#order[row]!] === partition) {
        const blockStart = row
        let blockBytes = 0
        for (; row < count && row - blockStart < BLOCK_ROWS_MAX && blockBytes < BLOCK_BYTES_MAX; row++) {
          const entry = this.#order[row]!
          if (index.partition[entry] !== partition) break
          this.#blockOfRow[row] = blockCount
          blockBytes += end[entry]! - start[entry]!
          signals |= signalBit(index.signal[entry]!)
        }
        bytes += blockBytes
        this.#addRows(this.#order.subarray(blockStart, row))
        blocks.push(this.#finishBlock(blockCount++, blockStart, row))
        this.#rest()
      }
      partitions.push({ name: encodePartitionName(tenant, dataset), records: row - first, bytes, signals, blocks })
    }
    return partitions
  }

  #addRows(entries: Uint32Array): void {
    const { source, starts, ends } = this.#records.read(entries)
    this.#blocks.begin(source)
    this.#tokens.begin(source)
    for (const [i, entry] of entries.entries()) this.#addRow(entry, starts[i]!, ends[i]!)
  }

  #addRow(entry: number, start: number, end: number): void {
    const { index, group, groups, explicitIds } = this.#records
    const itsGroup = groups[group[entry]!]!
    this.#blocks.add(
      start,
      end,
      itsGroup,
      index.timeHigh[entry]!,
      index.timeLow[entry]!,
      entry,
      index.traceWords,
      4 * entry,
      explicitIds.get(entry) ?? null,
    )
    this.#tokens.addRecord(this.#blocks.cutter, this.#blocks.shape, itsGroup, itsGroup.format === FORMAT_JSON)
  }

  #finishBlock(number: number, from: number, to: number): WrittenBlock {
    const { keys, texts, numbers, values, severities, severityRows } = this.#blocks.finish()
    const { filter, counted, listed } = this.#tokens.finish()
    for (const [token, rows] of listed) {
      const counts = this.#tokenCounts.get(token)
      if (counts === undefined) this.#tokenCounts.set(token, [number, rows])
      else counts.push(number, rows)
    }
    return {
      rows: to - from,
      first: this.#order[from]!,
      last: this.#order[to - 1]!,
      severities,
      severityRows,
      counted,
      keys: compressed(keys),
      texts: compressed(texts),
      numbers: compressed(numbers),
      values: compressed(values),
      filter: asItIs(filter),
    }
  }

  #describePartitions(into: ByteWriter, partitions: readonly WrittenPartition[]): void {
    const { timeHigh, timeLow } = this.#records.index
    const writeTime = (entry: number): void => {
      into.u32(timeLow[entry]!)
      into.u32(timeHigh[entry]!)
    }
    into.varint(partitions.length)
    for (const { name, records, bytes, signals, blocks } of partitions) {
      into.lengthAndBytes(name)
      for (const number of [records, bytes, signals, blocks.length]) into.varint(number)
    }
    for (const { blocks } of partitions) {
      for (const block of blocks) {
        const { rows, first, last, severities, severityRows, counted, keys, texts, numbers, values, filter } = block
        into.varint(rows)
        writeTime(first)
        writeTime(last)
        into.u32(first)
        into.u32(severities)
        into.byte(counted + (severityRows === null ? 0 : SEVERITIES))
        for (const count of severityRows ?? []) if (count > 0) into.varint(count)
        for (const piece of [keys, texts, numbers, values, filter]) writePiece(into, piece)
      }
    }
  }

  /** By entry: its row, and where its record stood in the segment. */
  #writeChunks(directory: ByteWriter): WrittenPiece[] {
    const { index, count } = this.#records
    const { frameOffset, recordNumber } = index
    const pieces: WrittenPiece[] = []
    const into = new ByteWriter()
    const numbers = new Float64Array(CHUNK_ENTRIES)
    directory.varint(Math.ceil(count / CHUNK_ENTRIES))
    for (let from = 0; from < count; from += CHUNK_ENTRIES) {
      const to = Math.min(count, from + CHUNK_ENTRIES)
      into.reset()
      for (const column of [this.#rowOf, frameOffset, recordNumber]) {
        for (let entry = from; entry < to; entry++) numbers[entry - from] = column[entry]!
        writeNumbers(into, numbers, to - from)
      }
      const piece = compressed(into.written())
      directory.u32(frameOffset[from]!)
      directory.varint(recordNumber[from]!)
      writePiece(directory, piece)
      pieces.push(piece)
    }
    return pieces
  }

  /** Each hash once for each block. */
  #writeHashes(directory: ByteWriter, blockCount: number, hashOf: (entry: number) => number | null): WrittenPiece[] {
    const hashes = new Uint32Array(this.#records.count)
    const blocks = new Uint16Array(this.#records.count)
    let pairs = 0
    let ofBlock = new Set<number>()
    let before = -1
    for (const [row, entry] of this.#order.entries()) {
      const block = this.#blockOfRow[row]!
      if (block !== before) ofBlock = new Set()
      before = block
      const hash = hashOf(entry)
      if (hash === null || ofBlock.has(hash)) continue
      ofBlock.add(hash)
      hashes[pairs] = hash
      blocks[pairs++] = block
    }
    return writeHashIndex(directory, hashes.subarray(0, pairs), blocks.subarray(0, pairs), blockCount)
  }
}

/** Entries by (partition, time, entry). */
function orderOf({ index, count }: SegmentRecords): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, entry) => entry)
  const sorter = new EntrySorter(count)
  sorter.sortByKey(index.timeLow, 1, 0, order, 0, count)
  sorter.sortByKey(index.timeHigh, 1, 0, order, 0, count)
  sorter.sortByKey(index.partition, 1, 0, order, 0, count)
  return order
}

function timesOf({ index: { timeHigh, timeLow }, count }: SegmentRecords): { minTime: bigint; maxTime: bigint } {
  let least = 2 ** 64
  let greatest = 0
  let minTime = 0n
  let maxTime = 0n
  for (let entry = 0; entry < count; entry++) {
    const about = timeHigh[entry]! * 2 ** 32 + timeLow[entry]!
    if (about > least && about < greatest) continue
    const time = (BigInt(timeHigh[entry]!) << 32n) | BigInt(timeLow[entry]!)
    if (entry === 0 || time < minTime) minTime = time
    if (time > maxTime) maxTime = time
    least = Math.min(least, about)
    greatest = Math.max(greatest, about)
  }
  return { minTime, maxTime }
}
