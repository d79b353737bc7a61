/** The records of a sealed segment as compaction takes them: where each stands, what it belongs to, and all that an index says of it. */
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import { HEAD_BYTES } from '../../../native-free-codecs/blake2s.ts'
import { RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import type { OpenFile } from '../../log/files.ts'
import { readFooter, scanFrames } from '../../log/read.ts'
import { SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES } from '../../log/segment-format.ts'
import type { SegmentFooter } from '../../log/segment-format.ts'
import { BATCH_FRAME_TYPE, FORMAT_JSON, SIGNAL_LOG, StoredBatch } from '../batch-frame.ts'
import { ActiveIndex } from '../index/active-index.ts'
import { FrameIndexer } from '../index/index-frame.ts'
import { SEGMENT_ENTRIES_MAX } from '../limits.ts'
import { rootOf } from './block-writer.ts'
import type { Group } from './block-writer.ts'
import { plainIds, writeGroupHead } from './record-ids.ts'

export interface SegmentRecords {
  readonly footer: SegmentFooter
  /** The whole file. */
  readonly source: Buffer
  readonly index: ActiveIndex
  readonly count: number
  /** By entry: where the record begins and ends in the file, and its group. */
  readonly start: Uint32Array
  readonly end: Uint32Array
  readonly group: Uint32Array
  readonly groups: readonly Group[]
  /** Ids that do not follow from record and group: of records without a time, and of those that stand in their batch twice. */
  readonly explicitIds: ReadonlyMap<number, Uint32Array>
}

/** Null: there is a frame that does not read, or one that is no batch; such a segment stays as it is. */
export function readSegmentRecords(file: OpenFile, logId: number, base: number, end: number): SegmentRecords | null {
  const footer = readFooter(file)
  const isOurs = footer !== null && footer.base === base && footer.end === end && footer.logId === logId
  if (!isOurs || end - base + SEGMENT_FOOTER_BYTES !== file.size()) return null
  const source = Buffer.allocUnsafeSlow(file.size())
  if (file.read(source, 0) !== source.byteLength) return null
  const loader = new Loader(source)
  let isWhole = true
  scanFrames(inMemory(file, source), logId, base, SEGMENT_HEADER_BYTES, end - base, {
    frame(view, offset) {
      if (view.type === BATCH_FRAME_TYPE) loader.add(offset, view.payloadBytes)
      else isWhole = false
    },
    bad() {
      isWhole = false
    },
  })
  return isWhole ? { footer, source, ...loader.result() } : null
}

const inMemory = (file: OpenFile, source: Buffer): OpenFile => ({
  ...file,
  size: () => source.byteLength,
  read: (into, at) => source.copy(into, 0, at),
})

class Loader {
  readonly #source: Buffer
  readonly #active = ActiveIndex.create()
  readonly #indexer = new FrameIndexer()
  readonly #start = new Uint32Array(SEGMENT_ENTRIES_MAX)
  readonly #end = new Uint32Array(SEGMENT_ENTRIES_MAX)
  readonly #group = new Uint32Array(SEGMENT_ENTRIES_MAX)
  readonly #groups: Group[] = []
  readonly #byKey = new Map<string, number>()
  readonly #explicitIds = new Map<number, Uint32Array>()
  readonly #frameStart = new Uint32Array(RECORDS_PER_BATCH_MAX)
  readonly #frameEnd = new Uint32Array(RECORDS_PER_BATCH_MAX)
  readonly #headOf = new Uint16Array(RECORDS_PER_BATCH_MAX)
  #heads = Buffer.alloc(HEAD_BYTES * RECORDS_PER_BATCH_MAX)

  constructor(source: Buffer) {
    this.#source = source
  }

  result() {
    const count = this.#active.count
    return {
      index: this.#active,
      count,
      start: this.#start,
      end: this.#end,
      group: this.#group,
      groups: this.#groups,
      explicitIds: this.#explicitIds,
    }
  }

  add(frameOffset: number, payloadBytes: number): void {
    const payloadAt = frameOffset + FRAME_HEADER_BYTES
    const payload = this.#source.subarray(payloadAt, payloadAt + payloadBytes)
    const first = this.#active.count
    this.#indexer.add(this.#active, frameOffset, payload)
    const batch = new StoredBatch(payload)
    const bodyAt = payloadAt + (batch.body.byteOffset - payload.byteOffset)
    let entry = first
    let count = 0
    let heads = 0
    let groupOfBatch = -1
    let group = -1
    for (let record = 0; record < batch.recordCount; record++) {
      if (batch.isCollapsed(record)) continue
      const place = batch.placeOf(record)
      if (place.group !== groupOfBatch) {
        groupOfBatch = place.group
        const { dataset, ...parts } = batch.record(record)
        const { signal, format, source, tenant } = batch.envelope
        const { resource, scope, resourceSchemaUrl, scopeSchemaUrl } = parts
        const root = rootOf(format === FORMAT_JSON, signal === SIGNAL_LOG)
        group = this.#numberOf({ signal, format, source, resource, scope, resourceSchemaUrl, scopeSchemaUrl, root })
        writeGroupHead(this.#heads, heads++, tenant, dataset, this.#groups[group]!)
      }
      this.#start[entry] = bodyAt + place.recordStart
      this.#end[entry] = bodyAt + place.recordEnd
      this.#group[entry] = group
      this.#frameStart[count] = place.recordStart
      this.#frameEnd[count] = place.recordEnd
      this.#headOf[count++] = heads - 1
      entry++
    }
    this.#noteExplicitIds(batch, first, count)
  }

  #noteExplicitIds({ body }: StoredBatch, first: number, count: number): void {
    if (count === 0) return
    const plain = plainIds(body, this.#frameStart, this.#frameEnd, this.#headOf, this.#heads, 0, count)
    const { idWords } = this.#active
    for (let i = 0; i < count; i++) {
      const at = 4 * (first + i)
      let isPlain = true
      for (let word = 0; word < 4; word++) if (idWords[at + word] !== plain[4 * i + word]) isPlain = false
      if (!isPlain) this.#explicitIds.set(first + i, idWords.slice(at, at + 4))
    }
  }

  #numberOf(group: Group): number {
    const { signal, format, source, ...parts } = group
    const texts = [parts.resource, parts.scope, parts.resourceSchemaUrl, parts.scopeSchemaUrl].map((part) =>
      Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('latin1'),
    )
    const key = `${signal} ${format} ${source} ${texts.map(({ length }) => length).join(' ')} ${texts.join('')}`
    const known = this.#byKey.get(key)
    if (known !== undefined) return known
    this.#byKey.set(key, this.#groups.length)
    return this.#groups.push(group) - 1
  }
}
