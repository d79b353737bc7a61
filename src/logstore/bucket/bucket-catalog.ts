/**
 * Which bundles are in the bucket: a copy of the directory of a log's segments, made by tools that know nothing of bundles, in any order.
 *
 * C1  a bundle counts when its manifest is whole and every file that it names is there with its size, or when its stand-in has the length that it says. A
 *     bundle that is still being copied does not count
 * C4  a bundle that counted still counts while its stand-in is being copied, whatever is left of the other form: queries of it fail until the stand-in is
 *     whole
 * C2  a manifest is read once for each ETag, so a refresh only lists the bucket when nothing has changed
 * C5  a segment that has moved (src/log/merged.ts) is read from the merged file over it once that is there, or from its other files as long as they are
 *     there. Without both it counts with what its stand-in says, and queries of it fail: an answer without its records would look whole
 * C6  bundles that a merged file over a moved segment encloses do not count beside it, whatever is left of them. Merged files count for nothing else but C7
 * C7  a segment that has nothing whole, and whose stand-in is being copied, is read from the merged file over it: a trimmed merged bundle goes back to a
 *     stand-in for each segment
 * C8  an object is never there in part. So if a manifest or stand-in is there but cannot be read, and neither the segment itself nor a merged file over it
 *     has anything that counts, the segment counts as one that may hold anything, and each query of it fails
 * C3  bundles of two logs cannot be told apart by position, so with both there is no catalog
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
import { MERGED_POSITIONS_MAX, MOVED_BYTES, chosenMerged, mergedEndOf } from '../../log/merged.ts'
import { COMPACT_BEGIN_BYTES, decodeCompactHead } from '../compact/compact-format.ts'
import { decodeMoved } from '../compact/moved.ts'
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
  /** The name of its stand-in or merged file; null: it is not compacted, or it cannot be read (C5, C8). */
  readonly compactName: string | null
  /** The ETags of its files. */
  readonly version: string
  readonly bundle: Bundle
  /** Null: nothing of it can be read (C8). */
  readonly logId: number | null
  readonly indexHeadBytes: number | null
  readonly damaged: readonly DamagedPositions[]
}

/** What is known of the files of one segment. */
interface KnownSegment {
  readonly base: number
  /** What counts of the segment itself; null: nothing. */
  readonly bundle: KnownBundle | null
  /** C8 */
  readonly isUnreadable: boolean
  /** Whether a merged file over it counts: the segment has moved, or C7. */
  readonly readsMerged: boolean
  /** The merged files that begin with this segment. */
  readonly merged: readonly KnownBundle[]
}

/** Files of one bundle, by name. */
type Objects = ReadonlyMap<string, ListedObject>

/** Null: the bundle has another form. */
export interface BundleObjects {
  readonly index: ListedObject | null
  readonly records: ListedObject | null
  readonly compact: ListedObject | null
  /** Bytes that open the file of the bundle; null: an older version did not say. */
  readonly indexHeadBytes: number | null
  /** C8. Null: its files can be read, as far as they are there. */
  readonly problem: string | null
}

export interface BucketState {
  /** Ascending by base. */
  readonly bundles: readonly Bundle[]
  /** 0 while there is no bundle. */
  readonly logId: number
  readonly damaged: readonly DamagedPositions[]
}

/** Segments whose files are read at once. */
const READS_AT_ONCE = 16

export class BucketCatalog {
  readonly #client: ObjectClient
  readonly #prefix: string
  /** By key of a manifest, stand-in or merged file: the bundle that it describes (C2). Kept even if the refresh that read it fails. */
  #read = new Map<string, KnownBundle>()
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
    const { indexHeadBytes, bundle, compactName } = known
    const ofForm = (name: string, isIt: boolean): ListedObject | null => (isIt && objects.get(name)) || null
    const isCompacted = bundle.isCompacted === true
    return {
      index: ofForm(INDEX_NAME, !isCompacted),
      records: ofForm(RECORDS_NAME, !isCompacted),
      compact: compactName === null ? null : ofForm(compactName, isCompacted),
      indexHeadBytes,
      problem: known.logId === null ? UNREADABLE : null,
    }
  }

  /** @throws ObjectReadError: the catalog then stays as it was */
  async refresh(signal: AbortSignal): Promise<BucketState> {
    const listed = segmentsOf(await this.#client.list(this.#prefix, signal), this.#prefix)
    const segments: KnownSegment[] = []
    const waiting = [...listed]
    const readNext = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
        segments.push(await this.#segmentOf(...next, signal))
    }
    await Promise.all(Array.from({ length: READS_AT_ONCE }, readNext))
    const known = chosenOf(segments)
    const state = stateOf(known)
    this.#known = new Map(known.map((one) => [one.bundle.base, one]))
    this.#objects = listed
    const keys = new Set([...listed.values()].flatMap((objects) => [...objects.values()].map(({ key }) => key)))
    for (const key of this.#read.keys()) if (!keys.has(key)) this.#read.delete(key)
    return state
  }

  async #segmentOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownSegment> {
    const moved = await this.#movedOf(base, objects, signal)
    const read = await this.#bundleOf(base, objects, signal)
    const own = read === 'unreadable' ? null : read
    const merged: KnownBundle[] = []
    for (const [name, object] of objects) {
      const end = mergedEndOf(name)
      const its = end === null ? null : await this.#compactedOf(base, object, name, signal)
      if (its !== null && its.bundle.end === end) merged.push({ ...its, bundle: { ...its.bundle, isMerged: true } })
    }
    const replaced = moved === null ? this.#replacedOf(base, objects) : moved // C4, C5
    const isOnItsWay = own === null && objects.has(STAND_IN_NAME) // C7
    const isUnreadable = isOnItsWay || read === 'unreadable'
    return { base, bundle: own ?? replaced, isUnreadable, readsMerged: moved !== null || isOnItsWay, merged }
  }

  /** C4 */
  #replacedOf(base: number, objects: Objects): KnownBundle | null {
    const before = this.#known.get(base)
    const isOfSegment = before !== undefined && before.logId !== null && before.bundle.isMerged !== true
    return objects.has(STAND_IN_NAME) && isOfSegment ? before : null
  }

  /** Null: it does not count (C1). `unreadable`: its manifest is there and cannot be used (C8). */
  async #bundleOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownBundle | 'unreadable' | null> {
    const compact = objects.get(STAND_IN_NAME)
    const compacted = compact === undefined ? null : await this.#compactedOf(base, compact, STAND_IN_NAME, signal)
    return compacted ?? (await this.#indexedOf(base, objects, signal))
  }

  /** C5. Null: the segment has not moved. */
  async #movedOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownBundle | null> {
    const object = objects.get(STAND_IN_NAME)
    if (object?.bytes !== MOVED_BYTES) return null
    return this.#readOnce(object, MOVED_BYTES, signal, (bytes) => {
      const moved = decodeMoved(bytes)
      if (moved?.base !== base) return null
      const { logId, ...facts } = moved
      const bundle = { ...facts, identity: 0, isCompacted: true }
      return { compactName: null, version: object.etag, bundle, logId, indexHeadBytes: null, damaged: [] }
    })
  }

  async #compactedOf(
    base: number,
    compact: ListedObject,
    name: string,
    signal: AbortSignal,
  ): Promise<KnownBundle | null> {
    if (compact.bytes < COMPACT_BEGIN_BYTES) return null
    return this.#readOnce(compact, COMPACT_BEGIN_BYTES, signal, (begin) => {
      const standIn = decodeStandInHeader(begin)
      const head = decodeCompactHead(begin.subarray(STAND_IN_HEADER_BYTES))
      if (standIn === null || head === null) return null
      const { end, logId } = standIn
      if (standIn.base !== base || standIn.fileBytes !== compact.bytes) return null
      const { minTime, maxTime, receivedUntil, records, identity, openBytes, level } = head
      const bundle = { base, end, minTime, maxTime, receivedUntil, records, identity, isCompacted: true, level }
      return { compactName: name, version: compact.etag, bundle, logId, indexHeadBytes: openBytes, damaged: [] }
    })
  }

  /** Decodes the first bytes of a file, once for each ETag (C2). Null: they do not count, or the file was replaced since it was listed. */
  async #readOnce(
    object: ListedObject,
    bytes: number,
    signal: AbortSignal,
    decode: (begin: Buffer) => KnownBundle | null,
  ): Promise<KnownBundle | null> {
    const before = this.#read.get(object.key)
    if (before?.version === object.etag) return before
    try {
      const known = decode(Buffer.from(await this.#client.read(object, 0, bytes, signal)))
      if (known !== null) this.#read.set(object.key, known)
      return known
    } catch (error) {
      if (error instanceof ObjectReadError && error.kind === 'stale') return null
      throw error
    }
  }

  async #indexedOf(base: number, objects: Objects, signal: AbortSignal): Promise<KnownBundle | 'unreadable' | null> {
    const manifest = objects.get(MANIFEST_NAME)
    const records = objects.get(RECORDS_NAME)
    const index = objects.get(INDEX_NAME)
    if (manifest === undefined || records === undefined || index === undefined) return null
    const quarantine = objects.get(QUARANTINE_NAME)
    const version = [manifest, records, index, quarantine].map((object) => object?.etag).join(' ')
    const before = this.#read.get(manifest.key)
    if (before?.version === version) return before
    try {
      const bytes = await this.#whole(manifest, signal)
      const read = decodeManifest(bytes, (name) => objects.get(name)?.bytes ?? 0)
      if (read.kind === 'bad') return read.what === 'file' ? null : 'unreadable'
      const described = describedBundle(read.manifest)
      if (described === null || described.bundle.base !== base) return 'unreadable'
      // While a segment is written or copied, it is not as long as its manifest says.
      if (records.bytes !== described.bundle.end - base + SEGMENT_FOOTER_BYTES) return null
      const logId = described.logId ?? (await this.#logIdOf(records, signal))
      if (logId === null) return 'unreadable'
      const ranges = quarantine === undefined ? [] : decodeQuarantine(await this.#whole(quarantine, signal))
      if (ranges === 'unreadable') return ranges
      const damaged = ranges.map(({ from, to }) => ({ from, to }))
      const { bundle, indexHeadBytes } = described
      const known = { compactName: null, version, bundle, logId, indexHeadBytes, damaged }
      this.#read.set(manifest.key, known)
      return known
    } catch (error) {
      // The object was replaced or removed since it was listed: the next refresh finds what is there then.
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

const UNREADABLE = 'its files in the bucket are damaged, or of another version'

/** C8 */
function unreadable(base: number, segments: readonly KnownSegment[]): KnownBundle {
  const next = Math.min(...segments.flatMap((other) => (other.base > base ? other.base : [])))
  const end = Math.min(next - SEGMENT_FOOTER_BYTES, base + MERGED_POSITIONS_MAX) // the segment ends there at the latest
  const times = { minTime: 0n, maxTime: 2n ** 64n - 1n, receivedUntil: 2n ** 64n - 1n }
  const bundle = { base, end, ...times, records: 1, identity: 0, isCompacted: true }
  return { compactName: null, version: '', bundle, logId: null, indexHeadBytes: null, damaged: [] }
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

/** C5, C6 */
function chosenOf(segments: readonly KnownSegment[]): readonly KnownBundle[] {
  const moved = segments.filter(({ readsMerged }) => readsMerged).map(({ base }) => base)
  const ranges = segments.flatMap(({ merged }) => merged.map((known) => ({ ...known.bundle, known })))
  const chosen = chosenMerged(
    moved.toSorted((a, b) => a - b),
    ranges,
  )
  const isIn = (base: number): boolean => chosen.some((over) => over.base <= base && base < over.end)
  const others = segments.flatMap(({ base, bundle, isUnreadable }) => {
    if (isIn(base)) return []
    return bundle ?? (isUnreadable ? unreadable(base, segments) : [])
  })
  return [...chosen.map(({ known }) => known), ...others]
}

function stateOf(known: readonly KnownBundle[]): BucketState {
  const logIds = new Set(known.flatMap(({ logId }) => logId ?? []))
  if (logIds.size > 1) {
    throw new ObjectReadError('failed', 'the prefix holds bundles of several logs: give each log its own prefix')
  }
  return {
    bundles: known.map(({ bundle }) => bundle).toSorted((a, b) => a.base - b.base),
    logId: [...logIds][0] ?? 0,
    damaged: known.flatMap(({ damaged }) => damaged).toSorted((a, b) => a.from - b.from),
  }
}
