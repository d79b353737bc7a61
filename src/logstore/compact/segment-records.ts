/**
 * The records of a sealed segment for compaction: where each is, its resource and scope, and all that an index says of it. The records themselves stay in
 * the file and are read again block by block, so the memory grows with their number and not with their length.
 *
 * S1  every frame is verified in the first pass. Bytes that read differently later do not get into a bundle: the record id differs from the one in the
 *     index, or the checksum does where the id does not follow from the record alone
 */
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import type { OpenFile } from '../../log/files.ts'
import { crc32 } from 'node:zlib'
import { StoreError } from '../../errors.ts'
import { freeMemory } from '../../free-memory.ts'
import { readFooter, scanFrames } from '../../log/read.ts'
import { SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, segmentName } from '../../log/segment-format.ts'
import type { SegmentFooter } from '../../log/segment-format.ts'
import { BATCH_FRAME_TYPE, FORMAT_JSON, SIGNAL_LOG, StoredBatch } from '../batch-frame.ts'
import { EntryColumns } from './entry-columns.ts'
import { FrameIndexer } from '../index/index-frame.ts'
import { SEGMENT_ENTRIES_MAX } from '../limits.ts'
import { rootOf } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { GroupTable } from './group-table.ts'

export interface SegmentRecords {
  readonly footer: SegmentFooter
  /** The length of the file. */
  readonly bytes: number
  readonly index: EntryColumns
  readonly count: number
  /** By entry: where the record begins and ends in the file, and its group. */
  readonly start: Uint32Array
  readonly end: Uint32Array
  readonly group: Uint32Array
  readonly groups: readonly Group[]
  /** Ids that do not follow from record and group: those of records without a time, and of records that are repeated in their batch. */
  readonly explicitIds: ReadonlyMap<number, Uint32Array>
  /** The bytes of the records of these entries; valid until the next call. @throws StoreError when they differ from before (S1) */
  read(entries: Uint32Array): RecordBytes
  /** Frees the memory of all of this. */
  free(): void
}

/** Records in memory. */
interface RecordBytes {
  readonly source: Buffer
  /** Where each of the records begins and ends. */
  readonly starts: Uint32Array
  readonly ends: Uint32Array
}

/** Consecutive records with no more than this between them are read at once. */
const GAP_BYTES_MAX = 256

/** Null: a frame cannot be read, or is no batch; such a segment stays as it is. @param file stays open as long as records are read */
export function readSegmentRecords(file: OpenFile, logId: number, base: number, end: number): SegmentRecords | null {
  const footer = readFooter(file)
  const isOurs = footer !== null && footer.base === base && footer.end === end && footer.logId === logId
  if (!isOurs || end - base + SEGMENT_FOOTER_BYTES !== file.size()) return null
  // A record takes at least a byte, so a small segment needs no memory for SEGMENT_ENTRIES_MAX entries, which would cost more than to read it.
  const loader = new Loader(file, segmentName(base), Math.min(end - base, SEGMENT_ENTRIES_MAX))
  let isWhole = true
  scanFrames(file, logId, base, SEGMENT_HEADER_BYTES, end - base, {
    frame(view, offset) {
      if (view.type === BATCH_FRAME_TYPE) loader.add(offset, view.payload)
      else isWhole = false
    },
    bad() {
      isWhole = false
    },
  })
  if (isWhole) return { footer, bytes: file.size(), ...loader.result() }
  loader.free()
  return null
}

class Loader {
  readonly #file: OpenFile
  readonly #name: string
  #source = Buffer.allocUnsafeSlow(1 << 16)
  /** Checksums of records whose ids are explicit. */
  readonly #checksums = new Map<number, number>()
  readonly #active: EntryColumns
  readonly #indexer = new FrameIndexer()
  /** By entry: where records begin, where they end, and their groups. */
  readonly #places: Uint32Array<ArrayBuffer>
  readonly #start: Uint32Array
  readonly #end: Uint32Array
  readonly #group: Uint32Array
  readonly #groups = new GroupTable()
  readonly #explicitIds = new Map<number, Uint32Array>()

  /** @param name of the segment, for messages; @param capacity it has no more entries */
  constructor(file: OpenFile, name: string, capacity: number) {
    this.#file = file
    this.#name = name
    this.#active = new EntryColumns(capacity)
    this.#places = new Uint32Array(3 * capacity)
    this.#start = this.#places.subarray(0, capacity)
    this.#end = this.#places.subarray(capacity, 2 * capacity)
    this.#group = this.#places.subarray(2 * capacity)
  }

  result() {
    const count = this.#active.count
    return {
      index: this.#active,
      count,
      start: this.#start,
      end: this.#end,
      group: this.#group,
      groups: this.#groups.groups,
      explicitIds: this.#explicitIds,
      read: (entries: Uint32Array) => this.#read(entries),
      free: () => this.free(),
    }
  }

  free(): void {
    this.#active.free()
    freeMemory(this.#places)
    freeMemory(this.#source)
  }

  #read(entries: Uint32Array): RecordBytes {
    const [starts, ends] = [new Uint32Array(entries.length), new Uint32Array(entries.length)]
    let end = 0
    for (let first = 0; first < entries.length;) {
      const from = this.#start[entries[first]!]!
      let to = this.#end[entries[first]!]!
      let count = 1
      for (; first + count < entries.length; count++) {
        const next = this.#start[entries[first + count]!]!
        if (next < to || next - to > GAP_BYTES_MAX) break
        to = this.#end[entries[first + count]!]!
      }
      this.#reserve(end, to - from)
      const into = this.#source.subarray(end, end + to - from)
      if (this.#file.read(into, from) !== into.byteLength) throw this.#differs('it ends inside a record')
      for (let i = first; i < first + count; i++) {
        starts[i] = end + this.#start[entries[i]!]! - from
        ends[i] = end + this.#end[entries[i]!]! - from
        const checksum = this.#checksums.get(entries[i]!)
        if (checksum !== undefined && checksum !== crc32(this.#source.subarray(starts[i], ends[i])))
          throw this.#differs('a record reads otherwise than before') // S1
      }
      end += to - from
      first += count
    }
    return { source: this.#source, starts, ends }
  }

  /** Makes room for `bytes` more behind the bytes [0, end). */
  #reserve(end: number, bytes: number): void {
    if (end + bytes <= this.#source.byteLength) return
    const larger = Buffer.allocUnsafeSlow(Math.max(end + bytes, 2 * this.#source.byteLength))
    this.#source.copy(larger, 0, 0, end)
    freeMemory(this.#source)
    this.#source = larger
  }

  #differs(how: string): StoreError {
    return new StoreError('corrupt', 'compaction_differs', `bundle ${this.#name}: ${how}`)
  }

  add(frameOffset: number, payload: Buffer): void {
    const payloadAt = frameOffset + FRAME_HEADER_BYTES
    const first = this.#active.count
    this.#indexer.add(this.#active, frameOffset, payload)
    const batch = new StoredBatch(payload)
    const bodyAt = payloadAt + (batch.body.byteOffset - payload.byteOffset)
    const explicit = this.#indexer.explicitRecords()
    let entry = first
    let groupOfBatch = -1
    let group = -1
    for (let record = 0; record < batch.recordCount; record++) {
      if (batch.isCollapsed(record)) continue
      const place = batch.placeOf(record)
      if (place.group !== groupOfBatch) {
        groupOfBatch = place.group
        const { resource, scope, resourceSchemaUrl, scopeSchemaUrl } = batch.record(record)
        const { signal, format, source } = batch.envelope
        const root = rootOf(format === FORMAT_JSON, signal === SIGNAL_LOG)
        group = this.#groups.numberOf({
          signal,
          format,
          source,
          resource,
          scope,
          resourceSchemaUrl,
          scopeSchemaUrl,
          root,
        })
      }
      this.#start[entry] = bodyAt + place.recordStart
      this.#end[entry] = bodyAt + place.recordEnd
      this.#group[entry] = group
      if (explicit.has(record)) this.#noteExplicitId(entry, batch.body.subarray(place.recordStart, place.recordEnd))
      entry++
    }
  }

  #noteExplicitId(entry: number, record: Buffer): void {
    this.#explicitIds.set(entry, this.#active.idWords.slice(4 * entry, 4 * entry + 4))
    this.#checksums.set(entry, crc32(record))
  }
}
