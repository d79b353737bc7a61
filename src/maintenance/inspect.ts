/**
 * Looks through a data directory and says what is damaged, and where. Reads every byte and writes none (R1 of source.ts), so that a node may have the
 * directory meanwhile.
 *
 * I1  what the node drops or replaces meanwhile is no damage: it is left out
 * I2  what is not there yet is no damage: the beginning of a frame behind the last one, the sidecar of a segment that was just sealed
 */
import { StoreError, messageOf } from '../errors.ts'
import { checkpointName, checkpointPositions, isWholeCheckpoint } from '../log/checkpoint.ts'
import { MARK_NAME, readMark } from '../log/durable-mark.ts'
import { TEMPORARY_SUFFIX, errorCode } from '../log/files.ts'
import type { Files } from '../log/files.ts'
import { MOVED_REASON, isMoved, mergedName } from '../log/merged.ts'
import { readIncidents, readQuarantine } from '../log/quarantine.ts'
import {
  RECORDS_NAME,
  SEGMENTS_NAME_OF,
  SEGMENT_FOOTER_BYTES,
  segmentBaseOf,
  segmentName,
} from '../log/segment-format.ts'
import { MANIFEST_NAME, readManifest, verifySidecar } from '../log/sidecar.ts'
import { STAND_IN_NAME } from '../log/stand-in.ts'
import type { StandIn } from '../log/stand-in.ts'
import { LogSource, STAGING_NAME, Vanished, logFolders, namesIn, withFile } from './source.ts'
import type { SegmentScan } from './source.ts'

interface Problem {
  /** A file or folder, in the data directory. */
  readonly where: string
  readonly reason: string
}

export interface InspectedSegment {
  readonly name: string
  readonly base: number
  readonly end: number
  /** Being written, sealed, replaced by its stand-in, or moved into a merged file. */
  readonly form: 'written' | 'sealed' | 'compacted' | 'merged'
  readonly bytes: number
  readonly frames: number
  /** Files that its manifest names; null: it has none, and the service makes it. */
  readonly sidecars: readonly string[] | null
  /** Damaged ranges that the service knows of. */
  readonly quarantined: number
}

interface InspectedCheckpoint {
  readonly name: string
  readonly position: number
  readonly bytes: number
  readonly whole: boolean
}

export interface InspectedLog {
  /** Its folder in the data directory; empty: the data directory itself. */
  readonly place: string
  readonly service: 'logstore' | 'objectstore' | 'broker' | 'unknown'
  readonly logId: number
  readonly epoch: number
  readonly begin: number
  readonly end: number
  /** The durable mark: everything before this position was durable when the mark was written. */
  readonly durable: number
  /** Length of its segments' files, and their frames. */
  readonly bytes: number
  readonly frames: number
  readonly segments: readonly InspectedSegment[]
  readonly checkpoints: readonly InspectedCheckpoint[]
  /** Folders with a manifest that are no segments: files that it names. */
  readonly bundles: readonly { readonly name: string; readonly files: readonly string[] }[]
  /** What a crash or a removal under way left; the next start removes it. */
  readonly leftovers: readonly string[]
  /** Incidents ever recorded, including those of segments that are gone. */
  readonly incidents: number
  readonly problems: readonly Problem[]
}

/**
 * @returns by place
 * @throws StoreError notFound data_directory_empty; what the file system throws
 */
export function inspect(files: Files, dataDirectory: string): readonly InspectedLog[] {
  return Array.from(logFolders(files, dataDirectory), ([place, found]) => {
    if (found instanceof StoreError) return unreadable(place, messageOf(found))
    return new Inspection(place, new LogSource(files, found)).run()
  })
}

const unreadable = (place: string, reason: string): InspectedLog => ({
  place,
  service: 'unknown',
  logId: 0,
  epoch: 0,
  begin: 0,
  end: 0,
  durable: 0,
  bytes: 0,
  frames: 0,
  segments: [],
  checkpoints: [],
  bundles: [],
  leftovers: [],
  incidents: 0,
  problems: [{ where: place === '' ? 'FORMAT' : `${place}/FORMAT`, reason }],
})

/** Frame types that only the broker has, and the first byte of the JSON that the object store's log begins with. */
const BROKER_TYPES = [6, 7]
const JSON_BEGIN = 0x7b

interface Looked {
  readonly segment: InspectedSegment
  readonly scan: Pick<SegmentScan, 'epoch' | 'frameCount' | 'types' | 'firstByteOfType1'>
}

class Inspection {
  readonly #place: string
  readonly #source: LogSource
  readonly #problems: Problem[] = []
  readonly #leftovers: string[] = []
  readonly #mergedWhole = new Map<string, boolean>()

  constructor(place: string, source: LogSource) {
    this.#place = place
    this.#source = source
  }

  /** True when the log of a running service has reached a position since its segments were listed. */
  #hasGrown(lastBase: number, position: number): boolean {
    const bases = this.#source.bases()
    return (
      bases.some((base) => base > lastBase) ||
      (bases.includes(lastBase) && this.#source.scan(lastBase, null).end >= position)
    )
  }

  run(): InspectedLog {
    const { files, directory, logId, segmentsName } = this.#source
    const bases = this.#source.bases()
    const mark = readMark(files, directory, logId) // after the segments were listed and before they are read, so that it fits both
    const scanned: Looked[] = []
    for (const [index, base] of bases.entries()) {
      const looked = this.#lookAt(base, bases[index + 1] ?? null)
      if (looked !== null) scanned.push(looked)
    }
    const segments = scanned.map(({ segment }) => segment)
    this.#findGaps(segments, mark.begin)
    const end = segments.at(-1)?.end ?? mark.begin ?? 0
    const checkpoints = this.#checkpoints()
    const known = Math.max(mark.position, checkpoints[0]?.position ?? 0)
    if (known > end && !this.#hasGrown(bases.at(-1) ?? -1, known))
      this.#problem(segmentsName, `the log ends at ${end}, but was durable up to ${known}: its end is missing`)
    if (segments.length > 0 && mark.epoch === 0) this.#problem(MARK_NAME, 'neither of its two marks can be read')
    const bundles = this.#bundles()
    return {
      place: this.#place,
      service: this.#service(scanned.map(({ scan }) => scan)),
      logId,
      epoch: scanned.reduce((highest, { scan }) => Math.max(highest, scan.epoch), mark.epoch),
      begin: mark.begin ?? segments[0]?.base ?? 0,
      end,
      durable: mark.position,
      bytes: segments.reduce((sum, { bytes }) => sum + bytes, 0),
      frames: segments.reduce((sum, { frames }) => sum + frames, 0),
      segments,
      checkpoints,
      bundles,
      leftovers: this.#leftovers,
      incidents: readIncidents(files, directory).length,
      problems: this.#problems,
    }
  }

  /** Null: it was dropped meanwhile (I1), or has nothing in it yet (I2). */
  #lookAt(base: number, nextBase: number | null): Looked | null {
    const { files } = this.#source
    const place = this.#source.placeOf(base)
    const path = this.#source.pathOf(base)
    try {
      const standIn = this.#source.standInOf(base)
      if (standIn !== null) return this.#lookAtStandIn(base, standIn)
      const scan = this.#source.scan(base, nextBase)
      const bytes = this.#source.withRecords(base, (file) => file.size())
      const ranges = readQuarantine(files, path)
      if (ranges === 'unreadable') this.#problem(`${place}/quarantine.json`, 'its checksum does not match')
      for (const { from, to, reason } of scan.damage) {
        this.#problem(`${place}/${RECORDS_NAME}`, `positions ${from} to ${to}: ${reason}`)
      }
      const sidecars = this.#manifest(place, path)
      if (nextBase === null && !scan.sealed && scan.frameCount === 0) return null
      const { end, sealed, frameCount: frames } = scan
      const quarantined = ranges === 'unreadable' ? 0 : ranges.length
      const form = sealed ? ('sealed' as const) : ('written' as const)
      const segment = { name: segmentName(base), base, end, form, bytes, frames, sidecars, quarantined }
      return { scan, segment }
    } catch (error) {
      if (!(error instanceof Vanished)) throw error
      if (this.#source.isDropped(base)) {
        if (files.exists(path)) this.#leftovers.push(place)
      } else if (this.#source.standInOf(base) !== null) return this.#lookAt(base, nextBase) // it has replaced what was read
      else if (files.exists(path) && nextBase !== null) return this.#lookAtLost(base, nextBase)
      return null
    }
  }

  /** No form of the segment opens. A merged file over it has its records, and the service makes its stand-in again (recovery V10). */
  #lookAtLost(base: number, nextBase: number): Looked | null {
    const place = this.#source.placeOf(base)
    let merged: StandIn | null
    try {
      merged = this.#mergedOver(base)
    } catch (error) {
      if (!(error instanceof Vanished)) throw error
      return this.#lookAt(base, nextBase)
    }
    if (merged === null) {
      const hasStandIn = this.#source.files.exists(`${this.#source.pathOf(base)}/${STAND_IN_NAME}`)
      if (hasStandIn) this.#problem(`${place}/${STAND_IN_NAME}`, `it cannot be opened, and ${RECORDS_NAME} is missing`)
      else this.#problem(place, `${RECORDS_NAME} is missing`)
      return null
    }
    const end = Math.min(merged.end, nextBase - SEGMENT_FOOTER_BYTES)
    const reason = `positions ${base} to ${end}: it cannot be opened. Nothing is lost: the service writes it again from ${mergedName(merged.end)}`
    this.#problem(`${place}/${STAND_IN_NAME}`, reason)
    const form = 'merged' as const
    const segment = { name: segmentName(base), base, end, form, bytes: 0, frames: 0, sidecars: null, quarantined: 0 }
    return { segment, scan: { epoch: merged.epoch, frameCount: 0, types: new Map(), firstByteOfType1: null } }
  }

  #lookAtStandIn(base: number, standIn: StandIn): Looked {
    const { end, epoch, frameCount: frames, fileBytes: bytes } = standIn
    if (!this.#source.judgeStandIn(base, standIn).isWhole) {
      const reason = `positions ${base} to ${end}: the checksum of its content does not match`
      this.#problem(`${this.#source.placeOf(base)}/${STAND_IN_NAME}`, reason)
    }
    const hasMoved = isMoved(standIn)
    if (hasMoved && this.#mergedOver(base) === null) {
      const reason = `positions ${base} to ${end}: ${MOVED_REASON}`
      this.#problem(`${this.#source.placeOf(base)}/${STAND_IN_NAME}`, reason)
    }
    const ranges = readQuarantine(this.#source.files, this.#source.pathOf(base))
    const quarantined = ranges === 'unreadable' ? 0 : ranges.length
    const segment = {
      name: segmentName(base),
      base,
      end,
      form: hasMoved ? ('merged' as const) : ('compacted' as const),
      bytes,
      frames,
      sidecars: null,
      quarantined,
    }
    return { segment, scan: { epoch, frameCount: frames, types: new Map(), firstByteOfType1: null } }
  }

  /** Reads a merged file once for all segments that have moved into it. Null: there is none that is whole. */
  #mergedOver(base: number): StandIn | null {
    const merged = this.#source.mergedOver(base)
    if (merged === null) return null
    const name = mergedName(merged.end)
    const path = `${this.#source.placeOf(merged.base)}/${name}`
    const isWhole = this.#mergedWhole.get(path) ?? this.#source.judgeStandIn(merged.base, merged, name).isWhole
    this.#mergedWhole.set(path, isWhole)
    return isWhole ? merged : null
  }

  /** Files that the manifest of a folder names; null when there is none. A set that is replaced meanwhile is read again. */
  #manifest(place: string, path: string): readonly string[] | null {
    const { files } = this.#source
    for (;;) {
      const before = this.#manifestBytes(path)
      if (before === null) return null
      const [names, problem] = this.#verifyManifest(path)
      if (problem === null) return names
      const after = this.#manifestBytes(path)
      if (after === null || !files.exists(path)) return null
      if (after.equals(before)) {
        this.#problem(`${place}/${MANIFEST_NAME}`, `${problem}: the service writes it again`)
        return names
      }
    }
  }

  #verifyManifest(path: string): readonly [names: readonly string[], problem: string | null] {
    const { files } = this.#source
    try {
      const read = readManifest(files, path)
      if (read.kind === 'absent') return [[], 'it is missing']
      if (read.kind === 'bad') return [[], read.reason]
      const bad = read.manifest.files.find((entry) => !verifySidecar(files, path, entry))
      return [read.manifest.files.map(({ name }) => name), bad === undefined ? null : `${bad.name} is damaged`]
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return [[], 'one of its files is missing']
      throw error
    }
  }

  #manifestBytes(path: string): Buffer | null {
    try {
      return withFile(this.#source.files, `${path}/${MANIFEST_NAME}`, (file) => {
        const bytes = Buffer.alloc(file.size())
        return bytes.subarray(0, file.read(bytes, 0))
      })
    } catch (error) {
      if (error instanceof Vanished) return null
      throw error
    }
  }

  #findGaps(segments: readonly InspectedSegment[], begin: number | null): void {
    const { files, directory, logId, segmentsName } = this.#source
    const first = segments[0]?.base
    const isThere = (base: number): boolean => this.#source.hasSegment(base)
    const isMissing = (before: number): boolean => (readMark(files, directory, logId).begin ?? before) < before // I1: a drop moves the mark first
    if (begin !== null && first !== undefined && begin < first && isThere(first) && isMissing(first)) {
      this.#problem(segmentsName, `positions ${begin} to ${first}: the segments of this range are missing`)
    }
    for (const [index, { base, end }] of segments.entries()) {
      const next = segments[index + 1]
      const expected = end + SEGMENT_FOOTER_BYTES
      if (next === undefined || next.base === expected || !isThere(base)) continue
      if (next.base > expected) {
        this.#problem(segmentsName, `positions ${expected} to ${next.base}: the segments of this range are missing`)
      } else this.#problem(`${segmentsName}/${next.name}`, 'it begins inside the segment before it')
    }
  }

  #checkpoints(): readonly InspectedCheckpoint[] {
    const { files, directory } = this.#source
    return checkpointPositions(files, directory).flatMap((position) => {
      const name = checkpointName(position)
      try {
        const whole = isWholeCheckpoint(files, `${directory}/${name}`, position)
        const bytes = withFile(files, `${directory}/${name}`, (file) => file.size())
        if (!whole) this.#problem(name, 'it is damaged: a start uses the one before it')
        return [{ name, position, bytes, whole }]
      } catch (error) {
        if (error instanceof Vanished || errorCode(error) === 'ENOENT') return [] // I1
        throw error
      }
    })
  }

  /** Folders beside the segments, and files that a removal left. */
  #bundles(): readonly { readonly name: string; readonly files: readonly string[] }[] {
    const { files, directory, segmentsName } = this.#source
    const found: { readonly name: string; readonly files: readonly string[] }[] = []
    const isFolder = (path: string): boolean => namesIn(files, path) !== null
    const note = (place: string): void => {
      const names = this.#manifest(place, `${directory}/${place}`)
      if (names !== null) found.push({ name: place, files: names })
    }
    for (const name of namesIn(files, directory) ?? []) {
      if (name.endsWith(TEMPORARY_SUFFIX)) this.#leftovers.push(name)
      if (name === segmentsName || name === STAGING_NAME || !isFolder(`${directory}/${name}`)) continue
      note(name)
      for (const inner of files.list(`${directory}/${name}`) ?? []) {
        if (isFolder(`${directory}/${name}/${inner}`)) note(`${name}/${inner}`)
      }
    }
    for (const name of files.list(`${directory}/${segmentsName}`) ?? []) {
      if (segmentBaseOf(name) === null && !name.startsWith('spare-')) this.#leftovers.push(`${segmentsName}/${name}`)
    }
    return found
  }

  #service(scans: readonly Looked['scan'][]): InspectedLog['service'] {
    if (this.#source.segmentsName === SEGMENTS_NAME_OF.logstore) return 'logstore'
    if (scans.some(({ types }) => BROKER_TYPES.some((type) => types.has(type)))) return 'broker'
    const first = scans.find(({ firstByteOfType1 }) => firstByteOfType1 !== null)?.firstByteOfType1
    if (first !== undefined) return first === JSON_BEGIN ? 'objectstore' : 'broker'
    return scans.some(({ frameCount }) => frameCount > 0) ? 'objectstore' : 'unknown'
  }

  #problem(where: string, reason: string): void {
    this.#problems.push({ where: this.#place === '' ? where : `${this.#place}/${where}`, reason })
  }
}
