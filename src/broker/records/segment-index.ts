/**
 * `index.bin`, the sidecar of a sealed segment of the broker: where the records of every stream are in it, so that a start reads no frame of
 * it. It is derived from the segment: it may be deleted and is made again. Integers are little-endian.
 *
 *   offset  bytes  what
 *        0      8  magic       'TLBRKIDX'
 *        8      4  version     u32, SEGMENT_INDEX_VERSION
 *       12      4  runCount    u32
 *       16      8  base        u64, position of the segment
 *       24      8  end         u64, position behind its last frame
 *       32      4  markCount   u32
 *       36      4  placeCount  u32
 *       40      8  unused      0
 *       48      …  runs        48 bytes each
 *        …      …  marks       24 bytes each, of the first run, then of the second, …: see record-run.ts
 *        …      …  places      u32 each, of the first run, then of the second, …
 *
 * Run:
 *
 *        0      4  streamNumber  u32
 *        4      4  count         u32, records
 *        8      8  firstOffset   u64
 *       16     32  whole         four f64, see record-run.ts; the last is 0 in the sidecars of older versions
 *
 * N1  the manifest's checksum covers every byte and is verified before the first use (sidecar D2); lengths are checked all the same
 * N2  marks and places begin at multiples of 8 and 4: a reader makes views on the file's bytes and copies nothing
 */
import assert from 'node:assert/strict'
import { endianness } from 'node:os'
import { crc32 } from 'node:zlib'
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { readWhole } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { inParts, publishSidecars, readManifest } from '../../log/sidecar.ts'
import type { RecordIndex } from './record-index.ts'
import { MARK_NUMBERS, RecordRun, WHOLE_NUMBERS, marksOf } from './record-run.ts'

assert.equal(endianness(), 'LE') // marks and places are read and written through typed arrays

const INDEX_NAME = 'index.bin'
const SEGMENT_INDEX_VERSION = 1
const MAGIC = Buffer.from('TLBRKIDX')
const HEADER_BYTES = 48
const RUN_BYTES = 48
const RUN_WHOLE_AT = 16
const MARK_BYTES = 8 * MARK_NUMBERS
const PLACE_BYTES = 4

interface SegmentRange {
  readonly base: number
  readonly end: number
}

export interface StreamRun {
  readonly streamNumber: number
  readonly run: RecordRun
}

/** A task for the thread that writes; the bytes are handed over to it. */
export interface SidecarTask {
  readonly kind: 'sidecar'
  readonly directory: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** What the sidecar of a segment needs of a stream. */
export interface StreamRuns {
  readonly number: number
  readonly index: Pick<RecordIndex, 'runsIn'>
}

/** Encodes what the indexes on the main thread hold of a sealed segment, as the bytes of its sidecar. */
export function encodeSegmentIndex(
  { base, end }: SegmentRange,
  streams: Iterable<StreamRuns>,
): Uint8Array<ArrayBuffer> {
  const runs: StreamRun[] = []
  for (const { number, index } of streams) {
    for (const run of index.runsIn(base)) runs.push({ streamNumber: number, run })
  }
  const markCount = runs.reduce((sum, { run }) => sum + marksOf(run.count), 0)
  const placeCount = runs.reduce((sum, { run }) => sum + run.count, 0)
  const marksAt = HEADER_BYTES + RUN_BYTES * runs.length
  const placesAt = marksAt + MARK_BYTES * markCount
  const bytes = new Uint8Array(placesAt + PLACE_BYTES * placeCount)
  bytes.set(MAGIC)
  writeU32(bytes, 8, SEGMENT_INDEX_VERSION)
  writeU32(bytes, 12, runs.length)
  writeU64(bytes, 16, base)
  writeU64(bytes, 24, end)
  writeU32(bytes, 32, markCount)
  writeU32(bytes, 36, placeCount)
  const marks = new Float64Array(bytes.buffer, marksAt, MARK_NUMBERS * markCount)
  const places = new Uint32Array(bytes.buffer, placesAt, placeCount)
  let mark = 0
  let place = 0
  for (const [number, { streamNumber, run }] of runs.entries()) {
    const at = HEADER_BYTES + RUN_BYTES * number
    writeU32(bytes, at, streamNumber)
    writeU32(bytes, at + 4, run.count)
    writeU64(bytes, at + 8, run.firstOffset)
    new Float64Array(bytes.buffer, at + RUN_WHOLE_AT, WHOLE_NUMBERS).set(run.whole)
    marks.set(run.marks.subarray(0, MARK_NUMBERS * marksOf(run.count)), MARK_NUMBERS * mark)
    places.set(run.places.subarray(0, run.count), place)
    mark += marksOf(run.count)
    place += run.count
  }
  return bytes
}

/** Null when the bytes are not an index of this segment. The runs are views on them (N2). */
export function decodeSegmentIndex(bytes: Uint8Array<ArrayBuffer>, segment: SegmentRange): StreamRun[] | null {
  if (bytes.byteLength < HEADER_BYTES || !MAGIC.equals(bytes.subarray(0, MAGIC.byteLength))) return null
  if (readU32(bytes, 8) !== SEGMENT_INDEX_VERSION) return null
  if (readU64(bytes, 16) !== segment.base || readU64(bytes, 24) !== segment.end) return null
  const runCount = readU32(bytes, 12)
  const markCount = readU32(bytes, 32)
  const placeCount = readU32(bytes, 36)
  const marksAt = HEADER_BYTES + RUN_BYTES * runCount
  const placesAt = marksAt + MARK_BYTES * markCount
  if (placesAt + PLACE_BYTES * placeCount !== bytes.byteLength) return null
  const from = bytes.byteOffset
  const marks = new Float64Array(bytes.buffer, from + marksAt, MARK_NUMBERS * markCount)
  const places = new Uint32Array(bytes.buffer, from + placesAt, placeCount)
  const runs: StreamRun[] = []
  let mark = 0
  let place = 0
  for (let at = HEADER_BYTES; at < marksAt; at += RUN_BYTES) {
    const count = readU32(bytes, at + 4)
    const nextMark = mark + marksOf(count)
    if (count === 0 || nextMark > markCount || place + count > placeCount) return null
    const run = new RecordRun(
      segment.base,
      readU64(bytes, at + 8),
      count,
      places.subarray(place, place + count),
      marks.subarray(MARK_NUMBERS * mark, MARK_NUMBERS * nextMark),
      new Float64Array(bytes.buffer, from + at + RUN_WHOLE_AT, WHOLE_NUMBERS),
    )
    runs.push({ streamNumber: readU32(bytes, at), run })
    mark = nextMark
    place += count
  }
  return mark === markCount && place === placeCount ? runs : null
}

/** For people who read a manifest, and for a start that only checks whether the sidecar fits. */
interface AboutSegmentIndex extends SegmentRange {
  readonly index_version: number
  readonly runs: number
  readonly records: number
}

export function publishSegmentIndex(files: Files, directory: string, bytes: Uint8Array): void {
  const about: AboutSegmentIndex = {
    index_version: SEGMENT_INDEX_VERSION,
    base: readU64(bytes, 16),
    end: readU64(bytes, 24),
    runs: readU32(bytes, 12),
    records: readU32(bytes, 36),
  }
  publishSidecars(files, directory, [inParts(INDEX_NAME, [bytes])], () => about)
}

export type SegmentIndexRead =
  | { readonly kind: 'runs'; readonly runs: readonly StreamRun[] }
  /** Its records have to be found by reading the frames. */
  | { readonly kind: 'missing' | 'damaged'; readonly reason: string }

/** @throws what the file system throws */
export function readSegmentIndex(
  files: Files,
  segment: SegmentRange & { readonly directory: string },
): SegmentIndexRead {
  const { directory } = segment
  const read = readManifest(files, directory)
  if (read.kind === 'absent') return { kind: 'missing', reason: 'there is no manifest' }
  if (read.kind === 'bad') return { kind: 'damaged', reason: read.reason }
  const entry = read.manifest.files.find(({ name }) => name === INDEX_NAME)
  const bytes = entry === undefined ? null : readWhole(files, `${directory}/${INDEX_NAME}`)
  if (entry === undefined || bytes === null) return { kind: 'missing', reason: `there is no ${INDEX_NAME}` }
  if (bytes.byteLength !== entry.bytes || crc32(bytes) !== entry.crc32) {
    return { kind: 'damaged', reason: `${INDEX_NAME} fails its checksum` }
  }
  const runs = decodeSegmentIndex(bytes as Buffer<ArrayBuffer>, segment) // readWhole allocates it
  return runs === null
    ? { kind: 'damaged', reason: `${INDEX_NAME} is of another segment or version` }
    : { kind: 'runs', runs }
}
