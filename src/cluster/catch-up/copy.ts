/**
 * Copies the log of another node into `catch-up/` of a data directory. The directory's own log may be open meanwhile, as the copy does not touch it.
 *
 * C1  a file counts once the log's own reader has verified all of it: frames by their checksums, their chain and their end; checkpoints, stand-ins and
 *     sidecars by a checksum of the whole file. Frames and stand-ins are verified while they arrive (arrival.ts). Files that a crash left behind are
 *     verified from the disk, so that a copy continues where it stopped
 * C2  segments are copied from the newest to the oldest, as the other node drops the oldest first
 * C3  the other node keeps writing, so the copy lists its log again until a round copied little. The last listing is the log at one moment
 * C4  a merged file (src/log/merged.ts) is copied before the segments that have moved into it, and the segment whose directory holds it is always
 *     copied, too. Segments that have moved on this node are always copied anew. So no segment that is kept depends on a directory that is replaced
 */
import { StoreError } from '../../errors.ts'
import { isWholeCheckpoint } from '../../log/checkpoint.ts'
import { makeDurableDirectory, parentOf, piecesOf } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { readFormat } from '../../log/format.ts'
import { isMoved, mergedEndOf } from '../../log/merged.ts'
import { SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import { readManifest, verifySidecar } from '../../log/sidecar.ts'
import { STAND_IN_NAME } from '../../log/stand-in.ts'
import type { StandIn } from '../../log/stand-in.ts'
import { LogSource, STAGING_NAME, Vanished } from '../../maintenance/source.ts'
import { restingSteps } from '../../pipeline/niceness.ts'
import { ArrivingSegment, ArrivingStandIn } from './arrival.ts'
import type { Arrival } from './arrival.ts'
import type { ListedCheckpoint, ListedFile, ListedSegment, Listing, LogLocation } from './listing.ts'

/** The node that gives its files. */
export interface RemoteLog {
  /** @throws StoreError */
  list(): Promise<Listing>
  /** Reads into the given memory. @returns the verified bytes, which may be fewer than fit; null: the file is gone. @throws StoreError */
  read(path: string, from: number, into: Buffer): Promise<Buffer | null>
}

export interface CopyParts extends LogLocation {
  readonly files: Files
  /** The same files, for the reads of C1 from the disk. Default: `files`. */
  readonly checked?: Files
  readonly remote: RemoteLog
  /** Called after each piece with the bytes of this round that are done, and all bytes of the round. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void
}

/** C3. A round that copied less is the last one. */
const LITTLE_BYTES = 64 << 20
const ROUNDS_MAX = 20
/** As much as is written past the page cache at once (src/log/direct-writes.ts). */
const PIECE_BYTES = 1 << 20
/** Pieces that are requested at once. */
const AHEAD = 2
/** A file that fails its check is copied once more. */
const TRIES = 2

/** @returns what the copy holds, for `commitCopy`. @throws StoreError; what files throw */
export async function copyLog(parts: CopyParts): Promise<Listing> {
  const copy = new Copy(parts)
  for (let round = 1; round <= ROUNDS_MAX; round += 1) {
    const listing = await parts.remote.list()
    const copied = await copy.round(listing)
    if (copied !== null && copied < LITTLE_BYTES) return listing
  }
  throw new StoreError('unavailable', 'catch_up_overtaken', 'the other node writes faster than this one copies')
}

class Copy {
  readonly #parts: CopyParts
  readonly #staging: string
  /** @see CopyParts.checked */
  readonly #checked: Files
  /** C1. Verified files, by path and length. */
  readonly #whole = new Set<string>()
  /** C4. Paths of this round's merged files. */
  #merged: ReadonlySet<string> = new Set()
  #done = 0
  #total = 0

  constructor(parts: CopyParts) {
    this.#parts = parts
    this.#staging = `${parts.directory}/${STAGING_NAME}`
    this.#checked = parts.checked ?? parts.files
  }

  /** @returns bytes that were copied; null: the other node dropped a file meanwhile, and the listing is out of date */
  async round(listing: Listing): Promise<number | null> {
    const { files, directory, segmentsName } = this.#parts
    demandSameLog(files, this.#parts, listing)
    makeDurableDirectory(files, `${this.#staging}/${segmentsName}`)
    const local = new LogSource(files, { directory, segmentsName, logId: listing.logId })
    const merged = listing.segments.flatMap((segment) => segment.merged ?? [])
    this.#merged = new Set(merged.map(({ path }) => `${this.#staging}/${path}`))
    const hosts = hostsOf(listing)
    const missing = listing.segments.filter((one) => hosts.has(one.base) || !hasSegment(local, one)).reverse() // C2
    this.#done = 0
    const wanted = [...missing.map(({ file }) => file), ...listing.checkpoints, ...distinct(merged)]
    this.#total = wanted.reduce((sum, { bytes }) => sum + bytes, 0)
    let copied = 0
    for (const segment of missing) {
      const bytes = await this.#segment(segment, listing)
      if (bytes === null) return null
      copied += bytes
    }
    for (const checkpoint of listing.checkpoints) {
      const bytes = await this.#checkpoint(checkpoint)
      if (bytes === null) return null
      copied += bytes
    }
    return copied
  }

  async #segment(segment: ListedSegment, listing: Listing): Promise<number | null> {
    const staged = new LogSource(this.#checked, { ...this.#parts, directory: this.#staging, logId: listing.logId })
    this.#dropOthers(segment)
    const { merged } = segment
    const mergedBytes = merged === undefined ? 0 : await this.#file(merged, () => arrivingMerged(staged, merged))
    if (mergedBytes === null) return null
    const copied = await this.#file(segment.file, () => arrivingSegment(staged, segment))
    if (copied === null || copied === 0) return copied === null ? null : mergedBytes
    for (const sidecar of segment.sidecars) {
      if ((await this.#fetch(sidecar)) === null) break // the other node has replaced it: this node derives its own
    }
    this.#dropBadSidecars(segment)
    return copied + mergedBytes
  }

  /** Removes the files of another form that the segment had in an earlier round. */
  #dropOthers({ file, sidecars }: ListedSegment): void {
    const { files } = this.#parts
    const folder = parentOf(`${this.#staging}/${file.path}`)
    const wanted = new Set([file, ...sidecars].map(({ path }) => `${this.#staging}/${path}`))
    for (const name of files.list(folder) ?? []) {
      if (!wanted.has(`${folder}/${name}`) && !this.#merged.has(`${folder}/${name}`))
        files.removeFile(`${folder}/${name}`)
    }
  }

  /** Removes all sidecars unless all are whole: they are derived, and can be made again. */
  #dropBadSidecars({ file, sidecars }: ListedSegment): void {
    const { files } = this.#parts
    const folder = parentOf(`${this.#staging}/${file.path}`)
    const read = readManifest(files, folder)
    const isWhole =
      read.kind === 'manifest' && read.manifest.files.every((entry) => verifySidecar(this.#checked, folder, entry))
    if (isWhole) return
    for (const { path } of sidecars) {
      if (files.exists(`${this.#staging}/${path}`)) files.removeFile(`${this.#staging}/${path}`)
    }
    files.syncDirectory(folder)
  }

  #checkpoint(checkpoint: ListedCheckpoint): Promise<number | null> {
    const path = `${this.#staging}/${checkpoint.path}`
    const isWhole = (): boolean => isWholeCheckpoint(this.#checked, path, checkpoint.position)
    return this.#file(checkpoint, () => ({ add() {}, isWhole }))
  }

  /** C1. @returns bytes that were copied, 0 if the file was verified before; null: the other node dropped the file */
  async #file(file: ListedFile, begin: () => Arrival): Promise<number | null> {
    const { path, bytes } = file
    const key = `${path} ${bytes}`
    if (this.#whole.has(key)) return 0
    let copied = 0
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      const arrival = begin()
      const fetched = await this.#fetch(file, arrival)
      if (fetched === null) return null
      copied += fetched
      if (arrival.isWhole()) {
        this.#whole.add(key)
        return copied
      }
      this.#parts.files.removeFile(`${this.#staging}/${path}`)
    }
    throw new StoreError(
      'corrupt',
      'catch_up_damaged',
      `${path} of the other node is damaged, or does not match the listing of that node`,
    )
  }

  /** Continues behind the bytes that are there already. @returns bytes that were fetched; null: the file is gone */
  async #fetch({ path, bytes }: ListedFile, arrival?: Arrival): Promise<number | null> {
    const { files, remote, onProgress } = this.#parts
    const place = `${this.#staging}/${path}`
    makeDurableDirectory(files, parentOf(place))
    const isThere = files.exists(place)
    const file = isThere ? files.open(place, 'write', 'short') : files.create(place, 'short')
    try {
      let at = file.size()
      if (at > bytes) {
        file.truncate(bytes)
        at = bytes
      }
      const from = at
      if (from > 0 && arrival) for (const piece of piecesOf(this.#checked, place)) arrival.add(piece)
      this.#done += at
      const pieces = new PiecesAhead(remote, path, at, bytes)
      while (at < bytes) {
        const piece = await pieces.next(at)
        if (piece === null || piece.byteLength === 0) return null
        file.writev([piece], at)
        if (arrival) for (const step of restingSteps(piece)) arrival.add(step)
        at += piece.byteLength
        this.#done += piece.byteLength
        onProgress?.({ done: this.#done, total: this.#total })
      }
      file.fdatasync()
      files.syncDirectory(parentOf(place))
      return at - from
    } finally {
      file.close()
    }
  }
}

/** Asks for pieces of a file one after the other, so that the other node reads the next one while one is written here. */
class PiecesAhead {
  readonly #remote: RemoteLog
  readonly #path: string
  readonly #bytes: number
  /** Memory of the pieces under way, used in turns. */
  #memory: Buffer[] = []
  /** Requests under way, by the byte of the file where the piece begins, in that order. */
  readonly #asked = new Map<number, Promise<Buffer | null>>()
  #askedEnd: number

  constructor(remote: RemoteLog, path: string, from: number, bytes: number) {
    this.#remote = remote
    this.#path = path
    this.#bytes = bytes
    this.#askedEnd = from
  }

  /** @see RemoteLog.read. The bytes are valid until the next call. */
  next(at: number): Promise<Buffer | null> {
    if (!this.#asked.has(at)) {
      this.#asked.clear() // a piece was shorter than asked for
      this.#memory = [] // requests under way may still fill the old one
      this.#askedEnd = at
    }
    while (this.#asked.size < AHEAD && this.#askedEnd < this.#bytes) this.#ask()
    const piece = this.#asked.get(at)!
    this.#asked.delete(at)
    return piece
  }

  #ask(): void {
    const at = this.#askedEnd
    const bytes = Math.min(PIECE_BYTES, this.#bytes - at)
    const memory = this.#memory.length < AHEAD ? Buffer.allocUnsafe(bytes) : this.#memory.shift()!
    this.#memory.push(memory)
    const piece = this.#remote.read(this.#path, at, memory.subarray(0, bytes))
    piece.catch(() => {}) // `next` gives the same promise, which rejects
    this.#asked.set(at, piece)
    this.#askedEnd += bytes
  }
}

function demandSameLog(files: Files, { directory, segmentsName }: LogLocation, { logId }: Listing): void {
  const own = readFormat(files, directory, segmentsName)
  if (own === null || own === logId) return
  const message = `${directory} holds another log than the other node: choose an empty data directory`
  throw new StoreError('invalid', 'catch_up_foreign', message)
}

/** C4. Bases of the segments in whose directories merged files stand. */
export const hostsOf = ({ segments }: Listing): ReadonlySet<number> =>
  new Set(segments.flatMap(({ merged }) => merged?.base ?? []))

/** Whether the log has the segment in any form but a moved one (C4). The same end by the same chain is the same content. */
export function hasSegment(source: LogSource, { base, end, chain, file }: ListedSegment): boolean {
  try {
    const names = source.files.list(source.pathOf(base)) ?? []
    const standIn = source.standInOf(base)
    if (names.some((name) => mergedEndOf(name) !== null) || (standIn !== null && isMoved(standIn))) return false
    if (standIn !== null) return standIn.end === end && standIn.lastHeaderCrc === chain
    const isSealed = file.path.endsWith(STAND_IN_NAME) || file.bytes === end + SEGMENT_FOOTER_BYTES - base
    const own = source.identityOf(base)
    return isSealed && own !== null && own.footer.end === end && own.footer.lastHeaderCrc === chain
  } catch (error) {
    if (error instanceof Vanished) return false
    throw error
  }
}

/** C1, C4 */
function arrivingMerged(staged: LogSource, { base, path }: NonNullable<ListedSegment['merged']>): Arrival {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return new ArrivingStandIn(staged, base, name, ({ end }) => end === mergedEndOf(name))
}

const distinct = <File extends { readonly path: string }>(files: readonly File[]): readonly File[] => [
  ...new Map(files.map((file) => [file.path, file])).values(),
]

/** C1 */
function arrivingSegment(staged: LogSource, segment: ListedSegment): Arrival {
  const { base, end, chain, file } = segment
  if (!file.path.endsWith(STAND_IN_NAME)) return new ArrivingSegment(staged, segment)
  const fits = (standIn: StandIn): boolean => standIn.end === end && standIn.lastHeaderCrc === chain
  return new ArrivingStandIn(staged, base, STAND_IN_NAME, fits)
}
