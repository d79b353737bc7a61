/**
 * `compact.bin`, the stand-in of a sealed segment of the log store (`src/log/stand-in.ts`): the records of the segment, clustered by tenant, dataset and
 * time in compressed blocks, with all that is needed to find them. Integers are little-endian; offsets count from the begin of the file.
 *
 *   offset  bytes  what
 *        0     64  header of the stand-in
 *       64     96  head
 *      160      …  directory
 *        …      …  pieces: of the record ids, of the trace ids, counts of tokens, filters of the blocks, chunks of entries, then of each block keys, texts, numbers, values
 *
 * Head:
 *
 *   offset  bytes  field
 *        0      8  magic           "TLCOMPCT"
 *        8      4  version         COMPACT_VERSION, or an older one that is read
 *       12      4  directoryBytes
 *       16      4  directoryCrc    CRC-32
 *       20      4  records
 *       24      8  minTime         ns since the Unix epoch
 *       32      8  maxTime
 *       40      8  receivedUntil   when the last of its batches was received
 *       48      8  openBytes       bytes of the file that open it and tell whether an id may be in it
 *       56      8  originalBytes   bytes of the files that it replaced
 *       64      4  level           0 in `compact.bin`; in a merged bundle, how often its records were written again
 *       68     24  unused, 0
 *       92      4  crc             CRC-32 of bytes [0, 92)
 *
 * Directory: shapes (shapes.ts); partitions varint, each: name (`encodePartitionName`) with its length, records, bytes, signals, blocks, varints; blocks, in
 * the order of the partitions: rows varint, first and last time u64, first entry u32, severities u32 (`maySeverityBe`), then its pieces keys, texts, numbers,
 * values, filter (`writePiece`; a block whose filter has no bytes may hold any word); chunks varint, each: first frame offset u32, first record number varint,
 * a piece; ids, traces (id-lookup.ts: hash-index.ts, before version 4 block-hash-index.ts).
 *
 * Since version 3 the severities of a block are followed by what was counted, u8 (token-counts.ts). If that includes SEVERITIES, the rows of each severity
 * come next, varints. Counts of tokens (token-counts.ts) end the directory. Those of version 3 are not used: a block could have tokens of blocks before it.
 *
 * A *row* is the number of a record in the order of (partition, time, entry), an *entry* its number in the order of arrival, as in an index.
 *
 * F1  every byte that can change an answer is covered: the head by its checksum, the directory by the head's, pieces by the directory's. So the checksum of
 *     the head stands for the whole file and is its identity
 * F2  the file is not derived from other files: unlike a sidecar it cannot be built again
 */
import { crc32 } from 'node:zlib'
import { STAND_IN_HEADER_BYTES } from '../../log/stand-in.ts'

const COMPACT_HEAD_BYTES = 96
const COMPACT_VERSION = 4
/** The oldest version that is read. */
const COMPACT_VERSION_MIN = 2
/** From this version on blocks say what was counted. */
export const COUNTS_VERSION = 3
/** From this version on counts of tokens are exact. */
export const EXACT_COUNTS_VERSION = 4
/** From this version on the index of record ids names runs of rows, see id-lookup.ts. */
export const RUNS_VERSION = 4
const MAGIC = Buffer.from('TLCOMPCT')
const CRC_AT = COMPACT_HEAD_BYTES - 4

/** What every reader reads first. */
export const COMPACT_BEGIN_BYTES = STAND_IN_HEADER_BYTES + COMPACT_HEAD_BYTES
/** Entries of one chunk of the map from entries to rows. */
export const CHUNK_ENTRIES = 8192

export interface CompactHead {
  readonly version: number
  readonly directoryBytes: number
  readonly directoryCrc: number
  readonly records: number
  readonly minTime: bigint
  readonly maxTime: bigint
  readonly receivedUntil: bigint
  readonly openBytes: number
  readonly originalBytes: number
  readonly level: number
  /** Its checksum (F1). */
  readonly identity: number
}

export function encodeCompactHead(head: Omit<CompactHead, 'identity' | 'version'>): Buffer<ArrayBuffer> {
  const bytes = Buffer.alloc(COMPACT_HEAD_BYTES)
  MAGIC.copy(bytes)
  bytes.writeUInt32LE(COMPACT_VERSION, 8)
  bytes.writeUInt32LE(head.directoryBytes, 12)
  bytes.writeUInt32LE(head.directoryCrc, 16)
  bytes.writeUInt32LE(head.records, 20)
  bytes.writeBigUInt64LE(head.minTime, 24)
  bytes.writeBigUInt64LE(head.maxTime, 32)
  bytes.writeBigUInt64LE(head.receivedUntil, 40)
  bytes.writeBigUInt64LE(BigInt(head.openBytes), 48)
  bytes.writeBigUInt64LE(BigInt(head.originalBytes), 56)
  bytes.writeUInt32LE(head.level, 64)
  bytes.writeUInt32LE(crc32(bytes.subarray(0, CRC_AT)), CRC_AT)
  return bytes
}

/** Null: the bytes are no head, or a damaged one. @param bytes from where the head begins */
function versionOf(bytes: Buffer): number | null {
  const isWhole =
    bytes.byteLength >= COMPACT_HEAD_BYTES &&
    bytes.subarray(0, 8).equals(MAGIC) &&
    crc32(bytes.subarray(0, CRC_AT)) === bytes.readUInt32LE(CRC_AT)
  return isWhole ? bytes.readUInt32LE(8) : null
}

/** The problem, if a newer version wrote the head; null: it did not. @param bytes from where the head begins */
export function newerVersionOf(bytes: Buffer): string | null {
  const version = versionOf(bytes)
  if (version === null || version <= COMPACT_VERSION) return null
  return `it was written by a newer version (format ${version}, this version knows ${COMPACT_VERSION}): upgrade`
}

/** Null: the bytes are no head, a damaged one, or one of another version. @param bytes from where the head begins */
export function decodeCompactHead(bytes: Buffer): CompactHead | null {
  const version = versionOf(bytes)
  if (version === null || version < COMPACT_VERSION_MIN || version > COMPACT_VERSION) return null
  return {
    version,
    directoryBytes: bytes.readUInt32LE(12),
    directoryCrc: bytes.readUInt32LE(16),
    records: bytes.readUInt32LE(20),
    minTime: bytes.readBigUInt64LE(24),
    maxTime: bytes.readBigUInt64LE(32),
    receivedUntil: bytes.readBigUInt64LE(40),
    openBytes: Number(bytes.readBigUInt64LE(48)),
    originalBytes: Number(bytes.readBigUInt64LE(56)),
    level: bytes.readUInt32LE(64),
    identity: bytes.readUInt32LE(CRC_AT),
  }
}
