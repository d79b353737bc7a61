/**
 * Reads what the directory of a compacted bundle says of its partitions, blocks and chunks, see compact-format.ts. The pieces have `at: 0`: their places
 * follow from their order, see CompactIndex.
 */
import { decodePartitionName } from '../index/index-file.ts'
import type { Partition } from '../index/reader.ts'
import { highWord, lowWord } from '../time-words.ts'
import { SEVERITY_BITS } from './block-writer.ts'
import type { ByteReader } from './byte-reader.ts'
import { readPiece } from './pieces.ts'
import type { Piece } from './pieces.ts'
import { SEVERITIES } from './token-counts.ts'

export interface CompactBlock {
  readonly number: number
  readonly firstRow: number
  readonly rows: number
  readonly partition: number
  readonly minTime: bigint
  readonly maxTime: bigint
  readonly firstEntry: number
  /** See `maySeverityBe`. */
  readonly severities: number
  /** Which of WORDS, PAIRS and SEVERITIES are counted, see token-counts.ts. */
  readonly counted: number
  /** By severity, if they are counted. */
  readonly severityRows: Uint32Array | null
  readonly keys: Piece
  readonly texts: Piece
  readonly numbers: Piece
  readonly values: Piece
  readonly filter: Piece
}

export interface CompactPartition extends Partition {
  readonly names: { readonly tenant: string; readonly dataset: string }
  readonly facts: { readonly bytes: number; readonly signals: number }
  /** Its blocks are [firstBlock, blockEnd). */
  readonly firstBlock: number
  readonly blockEnd: number
}

export interface ChunkPlace {
  readonly frameOffset: number
  readonly recordNumber: number
  readonly piece: Piece
}

interface Described {
  readonly name: Buffer
  readonly records: number
  readonly bytes: number
  readonly signals: number
  readonly blockCount: number
}

export const readPartitions = (from: ByteReader): Described[] =>
  Array.from({ length: from.varint() }, () => ({
    name: from.lengthAndBytes(),
    records: from.varint(),
    bytes: from.varint(),
    signals: from.varint(),
    blockCount: from.varint(),
  }))

export function readBlocks(from: ByteReader, partitions: readonly Described[], hasCounts: boolean): CompactBlock[] {
  const blocks: CompactBlock[] = []
  let firstRow = 0
  for (const [partition, { blockCount }] of partitions.entries()) {
    for (let left = blockCount; left > 0; left--) {
      const rows = from.varint()
      const [minTime, maxTime] = [from.u64(), from.u64()]
      const [firstEntry, severities] = [from.u32(), from.u32()]
      const counted = hasCounts ? from.byte() : 0
      blocks.push({
        number: blocks.length,
        firstRow,
        rows,
        partition,
        minTime,
        maxTime,
        firstEntry,
        severities,
        counted,
        severityRows: (counted & SEVERITIES) === 0 ? null : readSeverityRows(from, severities),
        keys: readPiece(from, 0),
        texts: readPiece(from, 0),
        numbers: readPiece(from, 0),
        values: readPiece(from, 0),
        filter: readPiece(from, 0),
      })
      firstRow += rows
    }
  }
  return blocks
}

/** @param severities see `severityBit` */
function readSeverityRows(from: ByteReader, severities: number): Uint32Array {
  const rows = new Uint32Array(SEVERITY_BITS)
  for (let bit = 0; bit < SEVERITY_BITS; bit++) if (((severities >>> bit) & 1) === 1) rows[bit] = from.varint()
  return rows
}

export const readChunks = (from: ByteReader): ChunkPlace[] =>
  Array.from({ length: from.varint() }, () => ({
    frameOffset: from.u32(),
    recordNumber: from.varint(),
    piece: readPiece(from, 0),
  }))

export function partitionOf(
  { name, records, bytes, signals, blockCount }: Described,
  number: number,
  blocks: readonly CompactBlock[],
  blockEnd: number,
): CompactPartition {
  const firstBlock = blockEnd - blockCount
  const first = blocks[firstBlock]!
  const last = blocks[blockEnd - 1]!
  return {
    number,
    records,
    firstPosting: first.firstRow,
    minTimeHigh: highWord(first.minTime),
    minTimeLow: lowWord(first.minTime),
    maxTimeHigh: highWord(last.maxTime),
    maxTimeLow: lowWord(last.maxTime),
    names: decodePartitionName(name),
    facts: { bytes, signals },
    firstBlock,
    blockEnd,
  }
}
