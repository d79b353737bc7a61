/**
 * Copies one log into a backup while its service runs.
 *
 * C1  the service is not held up: before it drops a segment, the live content was written again behind it, or is not needed any more. So a copy whose
 *     end was written after the drop has all that the state at this end needs
 * C2  segments are copied from the newest to the oldest, as the service drops the oldest first. The checkpoints follow, and then what was
 *     written meanwhile. So a checkpoint that is copied stands for every segment that was dropped
 * C3  a file that the previous snapshot has is not copied again
 * C4  of several directories, the one that the log would be recovered from is copied (replicas R1). A segment that is damaged there comes
 *     from a directory where it is whole
 * C5  a segment that has moved into a merged file (src/log/merged.ts) is copied with that file. Segments that have moved into one that begins before the
 *     copy are left out: the service drops such segments together, the first one first
 * C6  a stand-in that opens in no directory is copied as it is: the merged file over it may have its records (recovery V10)
 */
import { createHash } from 'node:crypto'
import { StoreError } from '../errors.ts'
import {
  CHECKPOINTS_KEPT,
  checkpointName,
  checkpointPositions,
  coversLogBefore,
  isWholeCheckpoint,
} from '../log/checkpoint.ts'
import { MARK_NAME, readMark } from '../log/durable-mark.ts'
import { TEMPORARY_SUFFIX } from '../log/files.ts'
import { FORMAT_NAME } from '../log/format.ts'
import { LOCK_NAME } from '../log/lock.ts'
import { DROPPED_PREFIX, RECORDS_NAME, SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES } from '../log/segment-format.ts'
import { MOVED_REASON, isMoved, mergedName } from '../log/merged.ts'
import { MANIFEST_NAME, readManifest } from '../log/sidecar.ts'
import { STAND_IN_NAME } from '../log/stand-in.ts'
import type { StandIn } from '../log/stand-in.ts'
import type { LogSource, SegmentScan } from './source.ts'
import { STAGING_NAME, Vanished, digestOf, identityOfBytes, namesIn, piecesOf, unlessGone, withFile } from './source.ts'
import { filesOf, logPrefix, withoutPartsOfMerged } from './snapshot.ts'
import type { StoredCheckpoint, StoredFile, StoredLog, StoredSegment } from './snapshot.ts'
import type { BackupTarget } from './target.ts'

/** Times that the copy begins again because files that it needs were dropped or replaced meanwhile. */
const ATTEMPTS_MAX = 5
/** Times that a segment is looked at, as it may take another form meanwhile. */
const LOOKS_MAX = 3
/** Times that a set of small files is listed again because one of them was replaced. */
const LISTINGS_MAX = 20
/** Files of a data directory that a restore writes anew, or that mean nothing in it. */
const NOT_COPIED = new Set([FORMAT_NAME, MARK_NAME, LOCK_NAME, STAGING_NAME])

export interface CaptureCounts {
  copiedFiles: number
  copiedBytes: number
  reusedFiles: number
  reusedBytes: number
}

export interface CaptureParts {
  readonly place: string
  /** C4: the best first. */
  readonly sources: readonly LogSource[]
  readonly target: BackupTarget
  /** What the target has, by key. */
  readonly present: ReadonlyMap<string, number>
  /** The log in the previous snapshot. */
  readonly previous: StoredLog | null
  readonly counts: CaptureCounts
  /** Called before so many bytes are handed to the target; it may wait. */
  readonly pace: (bytes: number) => void
}

/** @throws StoreError unavailable backup_overtaken; what files and the target throw */
export async function captureLog(parts: CaptureParts): Promise<StoredLog> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await new Capture(parts).run()
    } catch (error) {
      if (!(error instanceof Vanished)) throw error
      if (attempt < ATTEMPTS_MAX) continue
      const { directory } = parts.sources[0]!
      const message = `${directory}: the log is written and cleaned faster than it can be copied: try again, or choose a faster place`
      throw new StoreError('unavailable', 'backup_overtaken', message, { cause: error })
    }
  }
}

interface StandInCopy {
  readonly source: LogSource
  readonly isWhole: boolean
  readonly identity: string
  readonly bytes: number
  /** The merged file that the segment has moved into. */
  readonly merged: StandIn | null
  /** Why a part of the segment cannot be read; null: all of it can. */
  readonly problem: string | null
}

class Capture {
  readonly #parts: CaptureParts
  readonly #source: LogSource
  /** The highest epoch of all frames. */
  #epoch = 0
  readonly #prefix: string
  readonly #previous: ReadonlyMap<string, StoredFile>
  readonly #previousSegments: ReadonlyMap<string, StoredSegment>
  /** C5. By key: merged files that are in the backup; by directory and key, whether they are whole there. */
  readonly #merged = new Map<string, StoredFile>()
  readonly #mergedWhole = new Map<string, boolean>()

  constructor(parts: CaptureParts) {
    const { sources, previous } = parts
    this.#parts = parts
    this.#source = sources[0]!
    this.#prefix = logPrefix(this.#source.logId)
    this.#previous = new Map(previous === null ? [] : filesOf(previous).map((file) => [file.key, file]))
    const segments = previous?.segments.filter(({ records }) => records !== null) ?? []
    this.#previousSegments = new Map(segments.map((segment) => [segment.records!.key, segment]))
  }

  /** C2. @throws Vanished when the copy has to begin again */
  async run(): Promise<StoredLog> {
    const source = this.#source
    const seen = source.bases()
    const seenEnd = source.end()
    let isDropped = false
    const newestFirst: StoredSegment[] = []
    for (let index = seen.length - 2; index >= 0 && !isDropped; index -= 1) {
      const segment = await this.#copyOrDropped(seen[index]!, seen[index + 1]!)
      if (segment === null) isDropped = true
      else newestFirst.push(segment)
    }
    const newestCheckpoints = await this.#copyCheckpoints()
    const others = await this.#copyOthers()
    const mark = readMark(source.files, source.directory, source.logId) // read before the end is looked for, so that it is not behind the end
    const before = newestFirst.reverse()
    const segments = withoutPartsOfMerged([...before, ...(await this.#copyRest(before.at(-1)?.base ?? -1))])
    this.#demandNoGap(segments)
    const last = segments.at(-1)
    const first = segments[0]?.base ?? mark.begin ?? 0
    const position = last?.end ?? first
    this.#demandCheckpoint(first, newestCheckpoints)
    const checkpoints = newestCheckpoints.filter(({ position }) => coversLogBefore(first, position))
    const oldest = checkpoints.at(-1)?.position ?? 0
    return {
      place: this.#parts.place,
      segmentsName: source.segmentsName,
      logId: source.logId,
      epoch: Math.max(mark.epoch, this.#epoch),
      begin: Math.min(mark.begin === null || isDropped ? first : mark.begin, first),
      from: first === 0 ? 0 : Math.max(isDropped ? position : seenEnd, oldest),
      position,
      durable: Math.max(position, mark.position, checkpoints[0]?.position ?? 0),
      segments,
      checkpoints,
      others,
    }
  }

  /** Null: the service has dropped it, and all before it. */
  async #copyOrDropped(base: number, nextBase: number): Promise<StoredSegment | null> {
    try {
      return await this.#copyInSomeForm(base, nextBase)
    } catch (error) {
      if (error instanceof Vanished && !this.#source.hasSegment(base)) return null
      throw error
    }
  }

  /** Copies the segments behind a base, including the one that is being written. */
  async #copyRest(after: number): Promise<StoredSegment[]> {
    const bases = this.#source.bases().filter((base) => base > after)
    const segments: StoredSegment[] = []
    for (const [index, base] of bases.entries()) {
      const nextBase = bases[index + 1]
      const segment = nextBase === undefined ? await this.#copyLast(base) : await this.#copyInSomeForm(base, nextBase)
      if (segment !== null) segments.push(segment)
      else if (!this.#source.hasSegment(base)) throw new Vanished() // dropped while it was read, and its file used again
    }
    return segments
  }

  /** The service may put a stand-in in place of the segment's file while that is copied. */
  async #copyInSomeForm(base: number, nextBase: number): Promise<StoredSegment> {
    for (let look = 1; ; look += 1) {
      try {
        const sources = look === 1 ? [this.#source] : this.#parts.sources // C4
        const standIn = sources.map((source) => source.standInOf(base)).find((each) => each !== null)
        if (standIn !== undefined) return await this.#copyStandIn(base, standIn)
        const isSealed = look === 1 || this.#source.files.exists(`${this.#source.pathOf(base)}/${RECORDS_NAME}`)
        return isSealed ? await this.#copySealed(base, nextBase) : await this.#copyUnopened(base, nextBase)
      } catch (error) {
        if (!(error instanceof Vanished) || look === LOOKS_MAX || !this.#source.hasSegment(base)) throw error
      }
    }
  }

  async #copyStandIn(base: number, { end, epoch, lastHeaderCrc: chain }: StandIn): Promise<StoredSegment> {
    this.#epoch = Math.max(this.#epoch, epoch)
    const place = this.#source.placeOf(base)
    const path = `${place}/${STAND_IN_NAME}`
    const copy = this.#wholestStandIn(base)
    const key = `${this.#prefix}${place}/compact-${copy.identity}.bin`
    const known = copy.isWhole ? this.#known(key, path) : null
    const records = known ?? (await this.#put(copy.source, path, key, copy.bytes, true))
    const { merged, problem } = copy
    const damage = problem === null ? [] : [{ from: base, to: end, reason: problem }]
    const sidecars = merged === null ? [] : [await this.#copyMerged(copy.source, merged)]
    return { base, end, sealed: true, chain, records, sidecars, damage }
  }

  /** C6 */
  async #copyUnopened(base: number, nextBase: number): Promise<StoredSegment> {
    const [source, place] = [this.#source, this.#source.placeOf(base)]
    const path = `${source.pathOf(base)}/${STAND_IN_NAME}`
    const bytes = withFile(source.files, path, (file) => file.size())
    const key = `${this.#prefix}${place}/compact-damaged-${digestOf(source.files, path, bytes)}.bin`
    const records = await this.#put(source, `${place}/${STAND_IN_NAME}`, key, bytes)
    const merged = source.mergedOver(base)
    const isIn = merged !== null && this.#isMergedWhole(source, merged)
    const end = Math.min(nextBase - SEGMENT_FOOTER_BYTES, isIn ? merged.end : Infinity)
    const sidecars = isIn ? [await this.#copyMerged(source, merged)] : []
    const damage = isIn ? [] : [{ from: base, to: end, reason: `${STAND_IN_NAME} is damaged` }]
    return { base, end, sealed: true, chain: 0, records, sidecars, damage }
  }

  /** C4 */
  #wholestStandIn(base: number): StandInCopy {
    const copies = this.#parts.sources.flatMap((source) => {
      const standIn = source.hasSegment(base) ? source.standInOf(base) : null
      return standIn === null ? [] : [{ source, standIn }]
    })
    if (copies.length === 0) throw new Vanished()
    let withoutMerged: StandInCopy | null = null
    for (const { source, standIn } of copies) {
      const { isWhole, identity } = source.judgeStandIn(base, standIn)
      if (!isWhole) continue
      const copy = { source, isWhole, identity, bytes: standIn.fileBytes, merged: null, problem: null }
      if (!isMoved(standIn)) return copy
      const merged = source.mergedOver(base)
      if (merged !== null && this.#isMergedWhole(source, merged)) return { ...copy, merged }
      withoutMerged ??= { ...copy, problem: MOVED_REASON }
    }
    if (withoutMerged !== null) return withoutMerged
    const { source, standIn } = copies[0]!
    const path = `${source.pathOf(base)}/${STAND_IN_NAME}`
    const identity = `damaged-${digestOf(source.files, path, standIn.fileBytes)}`
    const problem = `${STAND_IN_NAME} is damaged`
    return { source, isWhole: false, identity, bytes: standIn.fileBytes, merged: null, problem }
  }

  #isMergedWhole(source: LogSource, merged: StandIn): boolean {
    const key = `${source.directory} ${merged.base} ${merged.end} ${merged.contentCrc}`
    const name = mergedName(merged.end)
    const isWhole = this.#mergedWhole.get(key) ?? source.judgeStandIn(merged.base, merged, name).isWhole
    this.#mergedWhole.set(key, isWhole)
    return isWhole
  }

  /** C5. Once for all segments that are in it. */
  async #copyMerged(source: LogSource, { base, end, contentCrc, fileBytes }: StandIn): Promise<StoredFile> {
    const place = source.placeOf(base)
    const path = `${place}/${mergedName(end)}`
    const key = `${this.#prefix}${place}/merged-${end.toString(16)}-${contentCrc.toString(16)}-${fileBytes}.bin`
    const copied = this.#merged.get(key)
    if (copied !== undefined) return copied
    const file = this.#known(key, path) ?? (await this.#put(source, path, key, fileBytes, true))
    this.#merged.set(key, file)
    return file
  }

  async #copySealed(base: number, nextBase: number): Promise<StoredSegment> {
    if (this.#source.isWithoutFile(base)) return this.#missingSegment(base, nextBase)
    const known = this.#source.identityOf(base)
    const before = known === null ? undefined : this.#previousSegments.get(this.#sealedKey(base, known.identity))
    if (known !== null && before !== undefined && this.#isPresent(before.records!)) {
      this.#epoch = Math.max(this.#epoch, known.footer.epoch)
      this.#reused(before.records!)
      return { ...before, sidecars: await this.#copySidecars(base) }
    }
    const { source, scan } = this.#wholest(base, nextBase)
    this.#epoch = Math.max(this.#epoch, scan.epoch)
    const path = `${source.pathOf(base)}/${RECORDS_NAME}`
    const bytes = withFile(source.files, path, (file) => file.size())
    const whole = scan.damage.length === 0 ? source.identityOf(base) : null
    const key = this.#sealedKey(base, whole?.identity ?? `damaged-${digestOf(source.files, path, bytes)}`)
    const records = await this.#put(source, `${source.placeOf(base)}/${RECORDS_NAME}`, key, bytes)
    const { end, chain, damage } = scan
    return { base, end, sealed: true, chain, records, sidecars: await this.#copySidecars(base), damage }
  }

  /** C4. The copy of a segment that has the least damage. */
  #wholest(base: number, nextBase: number): { readonly source: LogSource; readonly scan: SegmentScan } {
    let best: { readonly source: LogSource; readonly scan: SegmentScan } | null = null
    for (const source of this.#parts.sources) {
      const isElsewhere = source !== this.#source && (!source.hasSegment(base) || source.standInOf(base) !== null)
      if (isElsewhere) continue // a replica may have it in the other form
      const scan = source.scan(base, nextBase)
      if (best === null || scan.damage.length < best.scan.damage.length) best = { source, scan }
      if (scan.damage.length === 0) break
    }
    return best!
  }

  /** The segment that is written, up to its last frame; null when there is none in it yet. */
  async #copyLast(base: number): Promise<StoredSegment | null> {
    const source = this.#source
    const standIn = source.standInOf(base)
    if (standIn !== null) return this.#copyStandIn(base, standIn)
    if (this.#source.isWithoutFile(base)) return null
    const scan = source.scan(base, null)
    if (scan.sealed) return this.#copySealed(base, scan.end + SEGMENT_FOOTER_BYTES)
    if (scan.frameCount === 0) return null
    this.#epoch = Math.max(this.#epoch, scan.epoch)
    const key = `${this.#prefix}${source.placeOf(base)}/tail-${scan.end.toString(16)}-${scan.chain.toString(16)}.log`
    const path = `${source.placeOf(base)}/${RECORDS_NAME}`
    const known = this.#known(key, path)
    const records = known ?? (await this.#put(source, path, key, scan.end - base))
    return { base, end: scan.end, sealed: false, chain: scan.chain, records, sidecars: [], damage: scan.damage }
  }

  #missingSegment(base: number, nextBase: number): StoredSegment {
    const end = nextBase - SEGMENT_FOOTER_BYTES
    const damage = [{ from: base, to: end, reason: `${RECORDS_NAME} is missing` }]
    return { base, end, sealed: true, chain: 0, records: null, sidecars: [], damage }
  }

  /** Copies the files that the manifest names. They are derived: a set that changes all the time is left out, and the service makes it again. */
  async #copySidecars(base: number): Promise<readonly StoredFile[]> {
    const { files } = this.#source
    const directory = this.#source.pathOf(base)
    for (let listing = 1; listing <= LISTINGS_MAX; listing += 1) {
      try {
        return await this.#copyManifest(this.#source.placeOf(base))
      } catch (error) {
        if (!(error instanceof Vanished)) throw error
        if (!files.exists(directory)) return [] // the segment is copied: what belongs to it is made again
      }
    }
    return []
  }

  /** Copies the files that the manifest of a folder names, and the manifest; nothing without a valid manifest. @throws Vanished */
  async #copyManifest(place: string): Promise<readonly StoredFile[]> {
    const { files, directory } = this.#source
    const folder = `${directory}/${place}`
    if (!files.exists(`${folder}/${MANIFEST_NAME}`)) return []
    const bytes = withFile(files, `${folder}/${MANIFEST_NAME}`, readFile)
    const read = readManifest(files, folder)
    if (read.kind !== 'manifest') return []
    const stored: StoredFile[] = []
    for (const { name, bytes: size, crc32 } of read.manifest.files) {
      const key = `${this.#prefix}${place}/${crc32.toString(16)}-${size}-${name}`
      stored.push(
        this.#known(key, `${place}/${name}`) ?? (await this.#put(this.#source, `${place}/${name}`, key, size)),
      )
    }
    return [...stored, await this.#putBytes(`${place}/${MANIFEST_NAME}`, bytes)]
  }

  /** C2 */
  async #copyCheckpoints(): Promise<StoredCheckpoint[]> {
    const { files, directory } = this.#source
    for (let listing = 1; listing <= LISTINGS_MAX; listing += 1) {
      try {
        const copied: StoredCheckpoint[] = []
        for (const position of checkpointPositions(files, directory)) {
          const checkpoint = await this.#copyCheckpoint(position)
          if (checkpoint !== null) copied.push(checkpoint)
          if (copied.length === CHECKPOINTS_KEPT) break
        }
        return copied
      } catch (error) {
        if (!(error instanceof Vanished)) throw error // replaced by a newer one
      }
    }
    throw new Vanished(directory)
  }

  /** Null: it is damaged in every directory. */
  async #copyCheckpoint(position: number): Promise<StoredCheckpoint | null> {
    const name = checkpointName(position)
    for (const source of this.#parts.sources) {
      const path = `${source.directory}/${name}`
      if (source !== this.#source && !source.files.exists(path)) continue
      const [head, bytes] = withFile(source.files, path, (file) => {
        const head = Buffer.alloc(SEGMENT_HEADER_BYTES)
        return [head.subarray(0, file.read(head, 0)), file.size()] as const
      })
      const key = `${this.#prefix}checkpoint-${position.toString(16).padStart(16, '0')}-${identityOfBytes(head)}.bin`
      const known = this.#known(key, name)
      if (known !== null) return { position, file: known }
      const isWhole = unlessGone('checkpoint', () => isWholeCheckpoint(source.files, path, position))
      if (isWhole) return { position, file: await this.#put(source, name, key, bytes) }
    }
    return null
  }

  /** Copies small files of the directory, and folders that have a manifest. */
  async #copyOthers(): Promise<readonly StoredFile[]> {
    for (let listing = 1; listing <= LISTINGS_MAX; listing += 1) {
      try {
        return await this.#copyOthersOnce()
      } catch (error) {
        if (!(error instanceof Vanished)) throw error
      }
    }
    throw new Vanished(this.#source.directory)
  }

  async #copyOthersOnce(): Promise<readonly StoredFile[]> {
    const { files, directory, segmentsName } = this.#source
    const stored: StoredFile[] = []
    for (const name of namesIn(files, directory) ?? []) {
      if (NOT_COPIED.has(name) || name === segmentsName || name.endsWith(TEMPORARY_SUFFIX)) continue
      if (name.startsWith(DROPPED_PREFIX) || name.startsWith('checkpoint-')) continue
      const folders = namesIn(files, `${directory}/${name}`)
      if (folders === null) {
        stored.push(await this.#putBytes(name, withFile(files, `${directory}/${name}`, readFile)))
      } else {
        stored.push(...(await this.#copyManifest(name)))
        for (const folder of folders) stored.push(...(await this.#copyManifest(`${name}/${folder}`)))
      }
    }
    return stored
  }

  /** A middle segment that is missing in the store is missing in the copy as well; one that vanished during the copy must not be. */
  #demandNoGap(segments: readonly StoredSegment[]): void {
    const oldest = this.#source.bases()[0] ?? Infinity
    for (const [index, { base, end }] of segments.entries()) {
      const next = segments[index + 1]
      if (next !== undefined && next.base > end + SEGMENT_FOOTER_BYTES && oldest > base) throw new Vanished()
    }
  }

  /** A store whose first segments are gone needs a checkpoint of what they held, if its service writes any. */
  #demandCheckpoint(first: number, checkpoints: readonly StoredCheckpoint[]): void {
    const newest = checkpoints[0]?.position
    if (newest === undefined) {
      if (first === 0 || checkpointPositions(this.#source.files, this.#source.directory).length === 0) return
      throw this.#withoutCheckpoint()
    }
    if (!coversLogBefore(first, newest)) throw this.#withoutCheckpoint()
  }

  #withoutCheckpoint(): StoreError {
    const message = `${this.#source.directory}: no checkpoint that replaces the removed segments can be read, and a start would be refused as well: restore the directory`
    return new StoreError('corrupt', 'backup_checkpoint_missing', message)
  }

  #sealedKey = (base: number, identity: string): string =>
    `${this.#prefix}${this.#source.placeOf(base)}/records-${identity}.log`

  #isPresent = (file: StoredFile): boolean => this.#parts.present.get(file.key) === file.bytes

  /** C3 */
  #known(key: string, path: string): StoredFile | null {
    const file = this.#previous.get(key)
    if (file === undefined || !this.#isPresent(file)) return null
    this.#reused(file)
    return { ...file, path }
  }

  #reused({ bytes }: StoredFile): void {
    this.#parts.counts.reusedFiles += 1
    this.#parts.counts.reusedBytes += bytes
  }

  async #put(source: LogSource, path: string, key: string, bytes: number, isAll = false): Promise<StoredFile> {
    const hash = createHash('sha256')
    const { files, directory } = source
    const { pace } = this.#parts
    function* hashed(): Generator<Buffer, void, undefined> {
      for (const piece of piecesOf(files, `${directory}/${path}`, bytes, isAll)) {
        hash.update(piece)
        pace(piece.byteLength)
        yield piece
      }
    }
    await this.#parts.target.put(key, bytes, hashed())
    return this.#copied({ path, key, bytes, sha256: hash.digest('hex') })
  }

  async #putBytes(path: string, content: Buffer): Promise<StoredFile> {
    const key = `${this.#prefix}other/${identityOfBytes(content)}-${path.replaceAll('/', '-')}`
    const known = this.#known(key, path)
    if (known !== null) return known
    const sha256 = createHash('sha256').update(content).digest('hex')
    await this.#parts.target.put(key, content.byteLength, [content])
    return this.#copied({ path, key, bytes: content.byteLength, sha256 })
  }

  #copied(file: StoredFile): StoredFile {
    this.#parts.counts.copiedFiles += 1
    this.#parts.counts.copiedBytes += file.bytes
    return file
  }
}

function readFile(file: { size(): number; read(into: Uint8Array, at: number): number }): Buffer {
  const bytes = Buffer.alloc(file.size())
  return bytes.subarray(0, file.read(bytes, 0))
}
