/**
 * Which bundles are in the bucket: a copy of the directory of a log's segments, made by tools that know nothing of bundles, in any order.
 *
 * C1  a bundle counts when its manifest is there and whole, and every file it stands for is there with its size; or its stand-in, when that has the
 *     length that it says: what is on its way does not count yet
 * C4  a bundle that counted counts on while its stand-in is on its way, whatever is left of the other form: queries of it fail until it is whole
 * C2  a manifest is read once, as long as its ETag is the same; a look at a bucket of which nothing changed is its listing alone
 * C3  bundles of two logs cannot be told apart by position: then there is no catalog
 */
import { MANIFEST_NAME, decodeManifest } from '../../log/sidecar.ts'
import { QUARANTINE_NAME, decodeQuarantine } from '../../log/quarantine.ts'
import {
  RECORDS_NAME,
  SEGMENT_FOOTER_BYTES,
  SEGMENT_HEADER_BYTES,
  decodeSegmentHeader,
  segmentBaseOf,
} from '../../log/segment-format.ts'
import { STAND_IN_HEADER_BYTES, STAND_IN_NAME, decodeStandInHeader } from '../../log/stand-in.ts'
import { COMPACT_BEGIN_BYTES, decodeCompactHead } from '../compact/compact-format.ts'
import { INDEX_NAME } from '../index/index-file.ts'
import { describedBundle } from '../index/manifest.ts'
import type { Bundle } from '../index/manifest.ts'
import { ObjectReadError } from './object-client.ts'
import type { ListedObject, ObjectClient } from './object-client.ts'

/** Positions [from, to) of frames known to be damaged. */
interface DamagedPositions {
  readonly from: number
  readonly to: number
}

interface KnownBundle {
  /** The ETags of its files. */
  readonly version: string
  readonly bundle: Bundle
  readonly logId: number
  readonly indexHeadBytes: number | null
  readonly damaged: readonly DamagedPositions[]
}

/** Files of one bundle, by name. */
type Objects = ReadonlyMap<string, ListedObject>

/** Null: the bundle has another form. */
export interface BundleObjects {
  readonly index: ListedObject | null
  readonly records: ListedObject | null
  readonly compact: ListedObject | null
  /** Length of what opens the index file of the bundle. */
  readonly indexHeadBytes: number | null
}

export interface BucketState {
  /** Ascending by base. */
  readonly bundles: readonly Bundle[]
  /** 0 while there is no bundle. */
  readonly logId: number
  readonly damaged: readonly DamagedPositions[]
}

/** Manifests that are read at once. */
const READS_AT_ONCE = 16

export class BucketCatalog {
  readonly #client: ObjectClient
  readonly #prefix: string
  /** What was read so far, also by a look that failed in the end (C2). */
  #read = new Map<number, KnownBundle>()
  #known: ReadonlyMap<number, KnownBundle> = new Map()
  #objects: ReadonlyMap<number, Objects> = new Map<number, Objects>()

  /** @param prefix of all keys, empty or with a slash at its end */
  constructor(client: ObjectClient, prefix: string) {
    this.#client = client
    this.#prefix = prefix
  }

  /** Where the files of a bundle are; null when it is not in the catalog. */
  objectsOf(base: number): BundleObjects | null {
    const objects = this.#objects.get(base)
    const known = this.#known.get(base)
    if (objects === undefined || known === undefined) return null
    const { indexHeadBytes, bundle } = known
    const ofForm = (name: string, isIt: boolean): ListedObject | null => (isIt && objects.get(name)) || null
    const isCompacted = bundle.isCompacted === true
    return {
      index: ofForm(INDEX_NAME, !isCompacted),
      records: ofForm(RECORDS_NAME, !isCompacted),
      compact: ofForm(STAND_IN_NAME, isCompacted),
      indexHeadBytes,
    }
  }

  /** @throws ObjectReadError; the catalog is as it was then */
  async refresh(signal: AbortSignal): Promise<BucketState> {
    const listed = segmentsOf(await this.#client.list(this.#prefix, signal), this.#prefix)
    const known = new Map<number, KnownBundle>()
    const waiting = [...listed]
    const readNext = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const [base, objects] = next
        const bundle = (await this.#bundleOf(base, objects, signal)) ?? this.#replacedOf(base, objects)
        if (bundle === null) continue
        known.set(base, bundle)
        this.#read.set(base, bundle)
      }
    }
    await Promise.all(Array.from({ length: READS_AT_ONCE }, readNext))
    const state = stateOf([...known.values()])
    this.#known = known
    this.#read = new Map(known)
    this.#objects = listed
    return state
  }

  /** Null: it does not count (C1). */
  /** C4 */
  #replacedOf(base: number, objects: Objects): KnownBundle | null {
    return objects.has(STAND_IN_NAME) ? (this.#known.get(base) ?? null) : null
  }

  async #bundleOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownBundle | null> {
    return (await this.#compactedOf(base, objects, signal)) ?? (await this.#indexedOf(base, objects, signal))
  }

  async #compactedOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownBundle | null> {
    const compact = objects.get(STAND_IN_NAME)
    if (compact === undefined || compact.bytes < COMPACT_BEGIN_BYTES) return null
    const before = this.#read.get(base)
    if (before?.version === compact.etag) return before
    try {
      const begin = Buffer.from(await this.#client.read(compact, 0, COMPACT_BEGIN_BYTES, signal))
      const standIn = decodeStandInHeader(begin)
      const head = decodeCompactHead(begin.subarray(STAND_IN_HEADER_BYTES))
      if (standIn === null || head === null) return null
      const { end, logId } = standIn
      if (standIn.base !== base || standIn.fileBytes !== compact.bytes) return null
      const { minTime, maxTime, receivedUntil, records, identity, openBytes } = head
      const bundle = { base, end, minTime, maxTime, receivedUntil, records, identity, isCompacted: true }
      return { version: compact.etag, bundle, logId, indexHeadBytes: openBytes, damaged: [] }
    } catch (error) {
      if (error instanceof ObjectReadError && error.kind === 'stale') return null
      throw error
    }
  }

  async #indexedOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownBundle | null> {
    const manifest = objects.get(MANIFEST_NAME)
    const records = objects.get(RECORDS_NAME)
    const index = objects.get(INDEX_NAME)
    if (manifest === undefined || records === undefined || index === undefined) return null
    const quarantine = objects.get(QUARANTINE_NAME)
    const version = [manifest, records, index, quarantine].map((object) => object?.etag).join(' ')
    const before = this.#read.get(base)
    if (before?.version === version) return before
    try {
      const bytes = await this.#whole(manifest, signal)
      const read = decodeManifest(bytes, (name) => objects.get(name)?.bytes ?? 0)
      const described = read.kind === 'manifest' ? describedBundle(read.manifest) : null
      if (described === null || described.bundle.base !== base) return null
      // While it is written, and while it is copied, a segment is not as long as its manifest says.
      if (records.bytes !== described.bundle.end - base + SEGMENT_FOOTER_BYTES) return null
      const logId = described.logId ?? (await this.#logIdOf(records, signal))
      if (logId === null) return null
      const ranges = quarantine === undefined ? [] : decodeQuarantine(await this.#whole(quarantine, signal))
      if (ranges === 'unreadable') return null
      const damaged = ranges.map(({ from, to }) => ({ from, to }))
      return { version, bundle: described.bundle, logId, indexHeadBytes: described.indexHeadBytes, damaged }
    } catch (error) {
      // It is being replaced, or was removed since it was listed: the next look finds what is there then.
      if (error instanceof ObjectReadError && error.kind === 'stale') return null
      throw error
    }
  }

  async #whole(object: ListedObject, signal: AbortSignal): Promise<Buffer> {
    return object.bytes === 0 ? Buffer.alloc(0) : Buffer.from(await this.#client.read(object, 0, object.bytes, signal))
  }

  async #logIdOf(records: ListedObject, signal: AbortSignal): Promise<number | null> {
    const header = await this.#client.read(records, 0, SEGMENT_HEADER_BYTES, signal)
    return decodeSegmentHeader(Buffer.from(header))?.logId ?? null
  }
}

/** The listed objects by segment; files of no segment are left out. */
function segmentsOf(listed: readonly ListedObject[], prefix: string): Map<number, Objects> {
  const segments = new Map<number, Map<string, ListedObject>>()
  for (const object of listed) {
    const [segment, name, ...deeper] = object.key.slice(prefix.length).split('/')
    const base = segmentBaseOf(segment!)
    if (base === null || name === undefined || deeper.length > 0) continue
    let objects = segments.get(base)
    if (objects === undefined) segments.set(base, (objects = new Map()))
    objects.set(name, object)
  }
  return segments
}

function stateOf(known: readonly KnownBundle[]): BucketState {
  const logIds = new Set(known.map(({ logId }) => logId))
  if (logIds.size > 1) {
    throw new ObjectReadError(
      'failed',
      'the bundles below the prefix are of several logs: give each log a prefix of its own',
    )
  }
  return {
    bundles: known.map(({ bundle }) => bundle).toSorted((a, b) => a.base - b.base),
    logId: [...logIds][0] ?? 0,
    damaged: known.flatMap(({ damaged }) => damaged).toSorted((a, b) => a.from - b.from),
  }
}
