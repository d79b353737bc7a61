/**
 * Payload of a batch frame: an admitted ingest request, or one part of a large one (N5 in ingest/batch-intake.ts). The body is stored as it came
 * (decompressed). Tables before it let a reader find one record without scanning the batch. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version        BATCH_VERSION
 *        1      1  signal         1 log, 2 trace
 *        2      1  format         1 protobuf, 2 JSON
 *        3      1  source         1 v1.otlp_http, 2 v1.otlp_http_protobuf, 3 v1.otlp_grpc
 *        4      2  recordCount    1 ..= 512
 *        6      2  groupCount     1 ..= recordCount
 *        8      8  receivedAt     u64, Unix epoch ns: low word, high word
 *       16      2  resourceCount  1 ..= groupCount
 *       18      2  datasetCount   1 ..= resourceCount
 *       20      4  namesBytes     bytes of the names section
 *       24      4  bodyOffset     from the start of the payload, 8-byte aligned
 *       28      4  bodyBytes
 *       32      …  resources      12 B each: start u32, end u32 (in the body; 0,0 absent), dataset u16, schema URL u16
 *        …      …  groups         12 B each: scope start u32, scope end u32, resource u16, schema URL u16
 *        …      …  records        12 B each: start u32, end u32, group u16, flags u16: bit 0 FLAG_COLLAPSED; the others count the identical records in
 *                                 earlier frames of the same batch
 *        …      …  names          tenant, then datasets: u16 bytes, UTF-8
 *        …      …  schema URLs    8 B each: start u32, end u32 (in the body). Rows number them from 1; 0: none
 *        …      …  body
 *
 * Ids, times and trace ids are not repeated here: they follow from the body (see `index/index-frame.ts`), and the sidecar has them sorted.
 */
import assert from 'node:assert/strict'
import type { OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'

export const BATCH_FRAME_TYPE = 1
const BATCH_VERSION = 1
export const SIGNAL_LOG = 1
export const SIGNAL_TRACE = 2
export const signalName = (signal: number): 'log' | 'trace' => (signal === SIGNAL_LOG ? 'log' : 'trace')
export const FORMAT_PROTOBUF = 1
export const FORMAT_JSON = 2
export const SOURCE_OTLP_HTTP = 1
export const SOURCE_OTLP_HTTP_PROTOBUF = 2
export const SOURCE_OTLP_GRPC = 3
export const SOURCES: Readonly<Record<number, string>> = {
  [SOURCE_OTLP_HTTP]: 'v1.otlp_http',
  [SOURCE_OTLP_HTTP_PROTOBUF]: 'v1.otlp_http_protobuf',
  [SOURCE_OTLP_GRPC]: 'v1.otlp_grpc',
}

/** The record's id was stored before: its bytes stand in the body, but it is not a record of this frame. */
export const FLAG_COLLAPSED = 1

const ORDINAL_SHIFT = 1

/** Flags of a record that has `earlier` identical records in the earlier parts of its batch. */
export const flagsOfEarlier = (earlier: number): number => earlier << ORDINAL_SHIFT
export const earlierOf = (flags: number): number => flags >> ORDINAL_SHIFT

const HEADER_BYTES = 32
const ROW_BYTES = 12
const SCHEMA_URL_BYTES = 8

export interface BatchEnvelope {
  readonly signal: number
  readonly format: number
  readonly source: number
  readonly tenant: string
  readonly receivedAtHigh: number
  readonly receivedAtLow: number
}

/** Bytes before the body, a multiple of 8. `names` are the tenant and the distinct datasets, encoded by `encodeNames`. */
export function batchHeadBytes(batch: OtlpBatch, names: Buffer): number {
  const rows = batch.resourceCount + batch.groupCount + batch.recordCount
  const bytes = HEADER_BYTES + ROW_BYTES * rows + names.byteLength + SCHEMA_URL_BYTES * batch.schemaUrlCount
  return (bytes + 7) & ~7
}

export function encodeNames(tenant: string, datasets: readonly string[]): Buffer {
  const parts: Buffer[] = []
  for (const name of [tenant, ...datasets]) {
    const bytes = Buffer.from(name)
    const length = Buffer.allocUnsafe(2)
    length.writeUInt16LE(bytes.byteLength)
    parts.push(length, bytes)
  }
  return Buffer.concat(parts)
}

/**
 * Writes everything that stands before the body.
 *
 * @param resourceDataset  for each resource of the batch, the number of its dataset in `names`
 * @param flags            for each record, its flags as the table above has them
 */
export function writeBatchHead(
  into: Buffer,
  at: number,
  envelope: BatchEnvelope,
  batch: OtlpBatch,
  bodyBytes: number,
  names: Buffer,
  datasetCount: number,
  resourceDataset: Uint16Array,
  flags: Uint16Array,
): void {
  const { recordCount, groupCount, resourceCount } = batch
  const headBytes = batchHeadBytes(batch, names)
  into[at] = BATCH_VERSION
  into[at + 1] = envelope.signal
  into[at + 2] = envelope.format
  into[at + 3] = envelope.source
  into.writeUInt16LE(recordCount, at + 4)
  into.writeUInt16LE(groupCount, at + 6)
  into.writeUInt32LE(envelope.receivedAtLow, at + 8)
  into.writeUInt32LE(envelope.receivedAtHigh, at + 12)
  into.writeUInt16LE(resourceCount, at + 16)
  into.writeUInt16LE(datasetCount, at + 18)
  into.writeUInt32LE(names.byteLength, at + 20)
  into.writeUInt32LE(headBytes, at + 24)
  into.writeUInt32LE(bodyBytes, at + 28)
  const urlsAt = at + HEADER_BYTES + ROW_BYTES * (resourceCount + groupCount + recordCount) + names.byteLength
  let urls = 0
  const numberUrl = (start: number, end: number): number => {
    if (end === 0) return 0
    into.writeUInt32LE(start, urlsAt + SCHEMA_URL_BYTES * urls)
    into.writeUInt32LE(end, urlsAt + SCHEMA_URL_BYTES * urls + 4)
    return ++urls
  }
  let to = at + HEADER_BYTES
  for (let i = 0; i < resourceCount; i++, to += ROW_BYTES) {
    const url = numberUrl(batch.resourceSchemaUrlStart[i]!, batch.resourceSchemaUrlEnd[i]!)
    writeRow(into, to, batch.resourceStart[i]!, batch.resourceEnd[i]!, resourceDataset[i]!, url)
  }
  for (let i = 0; i < groupCount; i++, to += ROW_BYTES) {
    const url = numberUrl(batch.groupSchemaUrlStart[i]!, batch.groupSchemaUrlEnd[i]!)
    writeRow(into, to, batch.groupScopeStart[i]!, batch.groupScopeEnd[i]!, batch.groupResource[i]!, url)
  }
  for (let i = 0; i < recordCount; i++, to += ROW_BYTES) {
    writeRow(into, to, batch.recordStart[i]!, batch.recordEnd[i]!, batch.recordGroup[i]!, flags[i]!)
  }
  names.copy(into, to)
  into.fill(0, urlsAt + SCHEMA_URL_BYTES * urls, at + headBytes)
}

/** Plain stores: four times faster here than Buffer's checked writers, and this runs once a record. */
function writeRow(into: Uint8Array, at: number, start: number, end: number, link: number, last: number): void {
  into[at] = start
  into[at + 1] = start >>> 8
  into[at + 2] = start >>> 16
  into[at + 3] = start >>> 24
  into[at + 4] = end
  into[at + 5] = end >>> 8
  into[at + 6] = end >>> 16
  into[at + 7] = end >>> 24
  into[at + 8] = link
  into[at + 9] = link >>> 8
  into[at + 10] = last
  into[at + 11] = last >>> 8
}

export interface StoredRecord {
  readonly resource: Uint8Array
  readonly scope: Uint8Array
  readonly record: Uint8Array
  readonly resourceSchemaUrl: Uint8Array
  readonly scopeSchemaUrl: Uint8Array
  readonly dataset: string
  readonly collapsed: boolean
}

/** Ranges [start, end) of a record, its scope and its resource in the body; 0 and 0 when absent. */
export interface RecordPlace {
  /** Number of the scope in the batch. */
  group: number
  recordStart: number
  recordEnd: number
  scopeStart: number
  scopeEnd: number
  resourceStart: number
  resourceEnd: number
}

/** An empty place, which its owner fills in for one record after the other. */
export const noPlace = (): RecordPlace => ({
  group: -1,
  recordStart: 0,
  recordEnd: 0,
  scopeStart: 0,
  scopeEnd: 0,
  resourceStart: 0,
  resourceEnd: 0,
})

/** The records that a reader gets together: those of one frame, or of one block of a compacted bundle. */
export interface RecordBatch {
  readonly recordCount: number
  readonly body: Buffer
  /** True when ASCII characters of the records' texts may be written as escapes. */
  readonly mayHaveEscapes: boolean
  /**
   * Puts these records into the body in ascending order, perhaps with gaps between them. The order holds until the next call.
   *
   * @param numbers numbers of `count` records, ascending
   */
  gather(numbers: Uint16Array, count: number): void
  envelopeOf(record: number): Pick<BatchEnvelope, 'signal' | 'format' | 'source' | 'tenant'>
  /** The next call reuses the returned object. */
  placeOf(record: number): RecordPlace
  record(record: number): StoredRecord
}

/** A stored batch, read from a frame's payload. The frame's checksum was verified; a payload that does not fit its own lengths is our bug. */
export class StoredBatch implements RecordBatch {
  readonly envelope: BatchEnvelope
  readonly recordCount: number
  readonly body: Buffer
  readonly datasets: readonly string[]
  readonly #payload: Buffer
  readonly #groupsAt: number
  readonly #recordsAt: number
  readonly #urlsAt: number
  readonly #place = noPlace()

  constructor(payload: Buffer) {
    assert.equal(payload[0], BATCH_VERSION)
    this.#payload = payload
    this.recordCount = payload.readUInt16LE(4)
    const groupCount = payload.readUInt16LE(6)
    const resourceCount = payload.readUInt16LE(16)
    const datasetCount = payload.readUInt16LE(18)
    const bodyOffset = payload.readUInt32LE(24)
    this.#groupsAt = HEADER_BYTES + ROW_BYTES * resourceCount
    this.#recordsAt = this.#groupsAt + ROW_BYTES * groupCount
    let at = this.#recordsAt + ROW_BYTES * this.recordCount
    this.#urlsAt = at + payload.readUInt32LE(20)
    const names: string[] = []
    for (let i = 0; i <= datasetCount; i++) {
      const bytes = payload.readUInt16LE(at)
      names.push(payload.toString('utf8', at + 2, at + 2 + bytes))
      at += 2 + bytes
    }
    assert(at <= bodyOffset)
    this.datasets = names.slice(1)
    this.envelope = {
      signal: payload[1]!,
      format: payload[2]!,
      source: payload[3]!,
      tenant: names[0]!,
      receivedAtLow: payload.readUInt32LE(8),
      receivedAtHigh: payload.readUInt32LE(12),
    }
    this.body = payload.subarray(bodyOffset, bodyOffset + payload.readUInt32LE(28))
  }

  envelopeOf(): BatchEnvelope {
    return this.envelope
  }

  /** The records of a frame are always in order. */
  gather(): void {}

  get mayHaveEscapes(): boolean {
    return this.envelope.format === FORMAT_JSON && this.body.includes(0x5c)
  }

  datasetOfResource(resource: number): string {
    return this.datasets[this.#payload.readUInt16LE(HEADER_BYTES + ROW_BYTES * resource + 8)]!
  }

  isCollapsed(record: number): boolean {
    return (this.flags(record) & FLAG_COLLAPSED) !== 0
  }

  flags(record: number): number {
    return this.#payload.readUInt16LE(this.#recordsAt + ROW_BYTES * record + 10)
  }

  /** The next call reuses the returned object. */
  placeOf(number: number): RecordPlace {
    assert(number < this.recordCount)
    const payload = this.#payload
    const place = this.#place
    const row = this.#recordsAt + ROW_BYTES * number
    const group = payload.readUInt16LE(row + 8)
    place.recordStart = payload.readUInt32LE(row)
    place.recordEnd = payload.readUInt32LE(row + 4)
    if (group === place.group) return place
    const scope = this.#groupsAt + ROW_BYTES * group
    const resource = HEADER_BYTES + ROW_BYTES * payload.readUInt16LE(scope + 8)
    place.group = group
    place.scopeStart = payload.readUInt32LE(scope)
    place.scopeEnd = payload.readUInt32LE(scope + 4)
    place.resourceStart = payload.readUInt32LE(resource)
    place.resourceEnd = payload.readUInt32LE(resource + 4)
    return place
  }

  /** Record `number` with the resource and the scope it came in, and their schema URLs; absent ones are empty. Views, not copies. */
  record(number: number): StoredRecord {
    assert(number < this.recordCount)
    const payload = this.#payload
    const row = this.#recordsAt + ROW_BYTES * number
    const group = this.#groupsAt + ROW_BYTES * payload.readUInt16LE(row + 8)
    const resource = HEADER_BYTES + ROW_BYTES * payload.readUInt16LE(group + 8)
    const range = (at: number) => this.body.subarray(payload.readUInt32LE(at), payload.readUInt32LE(at + 4))
    const urlOf = (row: number) => {
      const number = payload.readUInt16LE(row + 10)
      return number === 0 ? this.body.subarray(0, 0) : range(this.#urlsAt + SCHEMA_URL_BYTES * (number - 1))
    }
    return {
      resource: range(resource),
      scope: range(group),
      record: range(row),
      resourceSchemaUrl: urlOf(resource),
      scopeSchemaUrl: urlOf(group),
      dataset: this.datasets[payload.readUInt16LE(resource + 8)]!,
      collapsed: this.isCollapsed(number),
    }
  }
}
