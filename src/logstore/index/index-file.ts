/**
 * `index.bin`, the sidecar that makes a sealed segment of the log store a bundle one can search. Derived from
 * `records.log`: it may be deleted and is built again. Integers are little-endian.
 *
 *   offset          bytes  what
 *        0            256  header
 *      256   4·blockCount  block checksums: CRC32 of every block, in order
 *      dataOffset       …  blocks of 16 KiB
 *
 * Header:
 *
 *   offset  bytes  field
 *        0      8  magic           "TRLGINDX"
 *        8      4  version         INDEX_VERSION
 *       12      4  blockBytes      16384
 *       16      8  base            position of the segment
 *       24      8  end             position after its last frame
 *       32      8  minTime         ns since the Unix epoch; 0 when there are no entries
 *       40      8  maxTime
 *       48      4  blockCount
 *       52      4  dataOffset      multiple of blockBytes
 *       56      4  checksumsCrc    CRC32 of the block checksums
 *       60      4  unused, 0
 *       64     88  sections        11 times: first block u32, rows u32
 *      152      8  receivedUntil   when the last of its batches was received, ns since the Unix epoch
 *      160      4  factBytes       behind each partition's name: FACT_BYTES; 0 in files of versions that did not write any
 *      164     88  unused, 0
 *      252      4  headerCrc       CRC32 of bytes [0, 252)
 *
 * Each section is a table of fixed-width rows that begins at a block, the small sections first; no row crosses a block's end (a block holds
 * floor(16384 / row bytes) rows, the rest is 0):
 *
 *   section        row  contents
 *   entries         32  record id, frame offset u32, record number u16, partition u16, time u64
 *                       in ingest order; the row's number is the *entry*
 *   ids              8  first word of the record id, entry u32
 *                       ascending by that word, then entry
 *   idFences         4  first word of the first row of each block of `ids`
 *   traces          20  trace id, entry u32
 *                       ascending by trace id, then entry; only entries that have one
 *   traceFences     16  trace id of the first row of each block of `traces`
 *   postings        12  time u64, entry u32
 *                       by partition; inside it ascending by time, then entry
 *   postingFences   12  the first row of each block of `postings`
 *   partitions      32  name hash u32, name offset u32, records u32, first posting u32, min time u64, max time u64
 *                       ascending by name hash; the row's number is the *partition*
 *   names            4  words of the partition names, see `encodePartitionName`; behind each its facts: bytes of the records of the partition
 *                       u64, their signals u32 (bit 0 logs, bit 1 traces). A name and its facts lie inside one block
 *   idFilter         4  words of the membership filter over the record ids, see filter-blocks.ts
 *   traceFilter      4  words of the membership filter over the trace ids
 *
 * An id is held as four words, each the big-endian number of 4 bytes: to compare words is to compare ids byte by byte. Entries ascend strictly by
 * (frame offset, record number), so ties in ingest order are ties by entry. Record ids are hashes, whose first words are as good as random: one word
 * is enough to find the few entries that are compared in full. Clients choose trace ids, so these stand in full.
 *
 * I1  every byte that can change an answer is covered: header by headerCrc, checksums by checksumsCrc, blocks by their
 *     checksum; each is verified before its first use. So headerCrc stands for the whole file and is its identity
 */
import assert from 'node:assert/strict'
import { endianness } from 'node:os'
import { crc32 } from 'node:zlib'

assert.equal(endianness(), 'LE') // sections are read and written through typed arrays

export const INDEX_NAME = 'index.bin'
export const INDEX_VERSION = 2
export const BLOCK_BYTES = 16 * 1024
export const BLOCK_WORDS = BLOCK_BYTES / 4
export const HEADER_BYTES = 256

const MAGIC = Buffer.from('TRLGINDX')
const SECTIONS_AT = 64
const RECEIVED_UNTIL_AT = 152
const FACT_BYTES_AT = 160
const HEADER_CRC_AT = HEADER_BYTES - 4

/** In the order of their numbers in the header. */
const SECTION_NAMES = [
  'entries',
  'ids',
  'idFences',
  'traces',
  'traceFences',
  'postings',
  'postingFences',
  'partitions',
  'names',
  'idFilter',
  'traceFilter',
] as const
export type SectionName = (typeof SECTION_NAMES)[number]

/** Words of one row. */
export const ROW_WORDS: Readonly<Record<SectionName, number>> = {
  entries: 8,
  ids: 2,
  idFences: 1,
  traces: 5,
  traceFences: 4,
  postings: 3,
  postingFences: 3,
  partitions: 8,
  names: 1,
  idFilter: 1,
  traceFilter: 1,
}

/** Bytes of the facts of one partition, see PartitionFacts. */
export const FACT_BYTES = 12

/**
 * A partition's name: u16 bytes of the tenant, u16 bytes of the dataset, tenant and dataset in UTF-8, padded with 0 to whole
 * words. Its hash is the CRC32 of all that.
 */
export function encodePartitionName(tenant: string, dataset: string): Buffer {
  const tenantBytes = Buffer.byteLength(tenant)
  const datasetBytes = Buffer.byteLength(dataset)
  const name = Buffer.alloc((4 + tenantBytes + datasetBytes + 3) & ~3)
  assert(name.byteLength <= BLOCK_BYTES)
  name.writeUInt16LE(tenantBytes, 0)
  name.writeUInt16LE(datasetBytes, 2)
  name.write(tenant, 4)
  name.write(dataset, 4 + tenantBytes)
  return name
}

/** Reverse of `encodePartitionName`; bytes behind the names are ignored. */
export function decodePartitionName(name: Buffer): { readonly tenant: string; readonly dataset: string } {
  const tenantEnd = 4 + name.readUInt16LE(0)
  return {
    tenant: name.toString('utf8', 4, tenantEnd),
    dataset: name.toString('utf8', tenantEnd, tenantEnd + name.readUInt16LE(2)),
  }
}

/** The bit of a signal in `signals` of the facts; 0: it is no signal. @param signal SIGNAL_… of batch-frame.ts */
export const signalBit = (signal: number): number => (1 << signal) >> 1

/** What the index says of a partition, behind its name. */
export interface PartitionFacts {
  /** The bytes of the records as they stand in their batches. */
  readonly bytes: number
  /** See `signalBit`. */
  readonly signals: number
}

export function writeFacts(into: Buffer, at: number, { bytes, signals }: PartitionFacts): void {
  into.writeBigUInt64LE(BigInt(bytes), at)
  into.writeUInt32LE(signals, at + 8)
}

/** @param bytes from where the name begins */
export function readFacts(bytes: Buffer): PartitionFacts {
  const at = (4 + bytes.readUInt16LE(0) + bytes.readUInt16LE(2) + 3) & ~3
  return { bytes: Number(bytes.readBigUInt64LE(at)), signals: bytes.readUInt32LE(at + 8) }
}

export interface Section {
  readonly firstBlock: number
  readonly rows: number
}

export interface IndexHeader {
  readonly base: number
  readonly end: number
  readonly minTime: bigint
  readonly maxTime: bigint
  readonly receivedUntil: bigint
  /** FACT_BYTES, or 0. */
  readonly factBytes: number
  readonly blockCount: number
  readonly dataOffset: number
  readonly checksumsCrc: number
  readonly sections: Readonly<Record<SectionName, Section>>
  /** headerCrc (I1). */
  readonly identity: number
}

export const rowsPerBlock = (section: SectionName): number => Math.floor(BLOCK_WORDS / ROW_WORDS[section])
export const blocksOf = (section: SectionName, rows: number): number => Math.ceil(rows / rowsPerBlock(section))
const dataOffsetOf = (blockCount: number): number =>
  Math.ceil((HEADER_BYTES + 4 * blockCount) / BLOCK_BYTES) * BLOCK_BYTES

/**
 * The sections that say where to look in the others come first: together with the header they open a bundle with one read, or one request over a
 * network. Readers go by the header, so any order is readable.
 */
const FILE_ORDER: readonly SectionName[] = [
  'idFences',
  'traceFences',
  'postingFences',
  'partitions',
  'names',
  'idFilter',
  'traceFilter',
  'entries',
  'ids',
  'traces',
  'postings',
]
assert.deepEqual(FILE_ORDER.toSorted(), SECTION_NAMES.toSorted())

/** How many bytes of the file come before the first of the large sections. */
export const headBytesOf = ({ dataOffset, sections }: Pick<IndexHeader, 'dataOffset' | 'sections'>): number =>
  dataOffset + sections.entries.firstBlock * BLOCK_BYTES

/** Where the sections of an index with these rows lie. */
export function layOut(rows: Readonly<Record<SectionName, number>>): {
  sections: Record<SectionName, Section>
  blockCount: number
  dataOffset: number
  fileBytes: number
} {
  let firstBlock = 0
  const place = (name: SectionName): Section => {
    const section = { firstBlock, rows: rows[name] }
    firstBlock += blocksOf(name, rows[name])
    return section
  }
  // the keys are those of SECTION_NAMES
  const sections = Object.fromEntries(FILE_ORDER.map((name) => [name, place(name)])) as Record<SectionName, Section>
  const dataOffset = dataOffsetOf(firstBlock)
  return { sections, blockCount: firstBlock, dataOffset, fileBytes: dataOffset + firstBlock * BLOCK_BYTES }
}

/**
 * Writes checksums and header into what comes before the blocks. Returns the header as a reader will see it.
 *
 * @param checksums of each block
 */
export function sealIndexFile(
  file: Buffer,
  checksums: Uint32Array,
  facts: Omit<IndexHeader, 'checksumsCrc' | 'identity'>,
): IndexHeader {
  const { blockCount, dataOffset, sections } = facts
  for (let block = 0; block < blockCount; block++) file.writeUInt32LE(checksums[block]!, HEADER_BYTES + 4 * block)
  const checksumsCrc = crc32(file.subarray(HEADER_BYTES, HEADER_BYTES + 4 * blockCount))
  MAGIC.copy(file, 0)
  file.writeUInt32LE(INDEX_VERSION, 8)
  file.writeUInt32LE(BLOCK_BYTES, 12)
  file.writeBigUInt64LE(BigInt(facts.base), 16)
  file.writeBigUInt64LE(BigInt(facts.end), 24)
  file.writeBigUInt64LE(facts.minTime, 32)
  file.writeBigUInt64LE(facts.maxTime, 40)
  file.writeUInt32LE(blockCount, 48)
  file.writeUInt32LE(dataOffset, 52)
  file.writeUInt32LE(checksumsCrc, 56)
  for (const [number, name] of SECTION_NAMES.entries()) {
    file.writeUInt32LE(sections[name].firstBlock, SECTIONS_AT + 8 * number)
    file.writeUInt32LE(sections[name].rows, SECTIONS_AT + 8 * number + 4)
  }
  file.writeBigUInt64LE(facts.receivedUntil, RECEIVED_UNTIL_AT)
  file.writeUInt32LE(facts.factBytes, FACT_BYTES_AT)
  const identity = crc32(file.subarray(0, HEADER_CRC_AT))
  file.writeUInt32LE(identity, HEADER_CRC_AT)
  return { ...facts, checksumsCrc, identity }
}

/** The header, or what is wrong with it. A file whose length differs from what the header says is wrong as well. */
export function readIndexHeader(bytes: Buffer, fileBytes: number): IndexHeader | { readonly problem: string } {
  if (bytes.byteLength < HEADER_BYTES) return { problem: 'shorter than its header' }
  if (!bytes.subarray(0, 8).equals(MAGIC)) return { problem: 'not an index file' }
  const identity = bytes.readUInt32LE(HEADER_CRC_AT)
  if (crc32(bytes.subarray(0, HEADER_CRC_AT)) !== identity) return { problem: 'header checksum mismatch' }
  const version = bytes.readUInt32LE(8)
  if (version !== INDEX_VERSION || bytes.readUInt32LE(12) !== BLOCK_BYTES)
    return { problem: `unknown version ${version}` }
  const blockCount = bytes.readUInt32LE(48)
  const dataOffset = bytes.readUInt32LE(52)
  if (fileBytes !== dataOffset + blockCount * BLOCK_BYTES) {
    return { problem: `${fileBytes} bytes long instead of ${dataOffset + blockCount * BLOCK_BYTES}` }
  }
  const sections = Object.fromEntries(
    SECTION_NAMES.map((name, number) => [
      name,
      {
        firstBlock: bytes.readUInt32LE(SECTIONS_AT + 8 * number),
        rows: bytes.readUInt32LE(SECTIONS_AT + 8 * number + 4),
      },
    ]),
  ) as Record<SectionName, Section> // the keys are SECTION_NAMES
  return {
    base: Number(bytes.readBigUInt64LE(16)),
    end: Number(bytes.readBigUInt64LE(24)),
    minTime: bytes.readBigUInt64LE(32),
    maxTime: bytes.readBigUInt64LE(40),
    receivedUntil: bytes.readBigUInt64LE(RECEIVED_UNTIL_AT),
    factBytes: bytes.readUInt32LE(FACT_BYTES_AT),
    blockCount,
    dataOffset,
    checksumsCrc: bytes.readUInt32LE(56),
    sections,
    identity,
  }
}
