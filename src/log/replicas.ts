/**
 * Opening a log that is kept in several directories: brings them to the same state, so that nothing a write quorum acknowledged is
 * lost while fewer directories than the quorum are damaged, wiped or missing, the primary among them or not.
 *
 * Files are byte-identical in all directories (P2 of log-writer.ts), so repair is copying. A segment may have a stand-in in one directory and its file
 * in another: both are the same segment (T2 of stand-in.ts), and it is copied in the form that its source has. If a segment has moved into a merged file
 * (merged.ts), that file is copied first.
 *
 * R1  every acknowledged frame is whole in at least one directory that is undamaged and was not behind: so the source is taken
 *     from the highest epoch, the least damaged, the longest, in that order
 * R2  the source first takes missing frames that link to its own from the other directories of its epoch. A frame more than was
 *     acknowledged is allowed, one less is not. A directory that missed the last opening may hold a fork, so nothing is taken from it
 * R3  then all others are made equal to it, before the log opens a new epoch
 * R4  each directory could be started alone: it has the newest checkpoints, and no segments from before the beginning of the log, which the log dropped
 *     while the directory was away
 */
import { StoreError, messageOf } from '../errors.ts'
import { atOnce, stepsOf } from '../steps.ts'
import type { Steps } from '../steps.ts'
import { completeCheckpoints } from './checkpoint-copies.ts'
import { dropForgotten } from './drop-forgotten.ts'
import { readMark } from './durable-mark.ts'
import { makeDurableDirectory, publishInSteps, readWhole, syncedInTurns, withOpenFile } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import { readFormat, writeFormat } from './format.ts'
import { copyMerged } from './merged-copy.ts'
import { isMoved, mergedName, mergedOver } from './merged.ts'
import { QUARANTINE_NAME } from './quarantine.ts'
import { readFrame, readHeader, scanInSteps } from './read.ts'
import { recoverDirectory } from './recovery.ts'
import type { RecoveredLog, RecoveredSegment } from './recovery.ts'
import { RECORDS_NAME, SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, segmentName } from './segment-format.ts'
import { STAND_IN_NAME, clearBesideStandIn, isStandInWhole, publishStandIn, readStandIn } from './stand-in.ts'
import type { StandIn } from './stand-in.ts'

const EQUALISING = 'making a directory of the log equal to the others'
const PIECE_BYTES = 1 << 20

export interface RecoverDirectoriesOptions {
  readonly files: Files
  /** The primary first. */
  readonly directories: readonly string[]
  readonly segmentsName: string
  readonly writeQuorum: number
  readonly randomUint32: () => number
  /** See RecoverOptions. */
  readonly keepUpTo?: number
  /** See RecoverOptions. */
  readonly durableHere?: number
  /** Replicas that are not to be used, and why. They hold nothing that the primary lacks. */
  readonly leftOut?: ReadonlyMap<number, string>
  /** Replicas that cannot be used, and why. What they hold is not known. */
  readonly unusable?: ReadonlyMap<number, string>
}

interface DirectoryProblem {
  readonly replica: number
  readonly reason: string
}

export interface RecoveredDirectories {
  readonly logId: number
  /** The primary directory's. */
  readonly primary: RecoveredLog
  /** The highest epoch seen in any directory. */
  readonly epoch: number
  /** By directory: true when it is equal to the primary and can be written to. */
  readonly usable: readonly boolean[]
  readonly problems: readonly DirectoryProblem[]
  /** Directories that held no log that could be read, while others did. */
  readonly remade: readonly string[]
}

export const recoverDirectories = (options: RecoverDirectoriesOptions): Steps<RecoveredDirectories> =>
  new Replicas(options).run()

class Replicas {
  readonly #options: RecoverDirectoriesOptions
  readonly #files: Files
  readonly #usable: boolean[]
  readonly #problems: DirectoryProblem[] = []
  readonly #remade: string[] = []
  /** Merged files that were read through, and what was found; those that were copied. By path. */
  readonly #mergedWhole = new Map<string, boolean>()
  readonly #mergedCopied = new Set<string>()
  #logId = 0
  /** R4. Where the log begins, by the mark of the source; null: something before that may be lost, and was not dropped. */
  #begin: number | null = null

  constructor(options: RecoverDirectoriesOptions) {
    this.#options = options
    this.#files = options.files
    this.#usable = options.directories.map(() => true)
    for (const [replica, reason] of [...(options.leftOut ?? []), ...(options.unusable ?? [])])
      this.#giveUp(replica, new Error(reason))
  }

  *run(): Steps<RecoveredDirectories> {
    this.#settleFormat()
    if (this.#usable.length > 1) yield* this.#makeEqual()
    const recovered = yield* this.#each((directory) =>
      recoverDirectory({ ...this.#options, directory, logId: this.#logId }),
    )
    const primary = recovered[0]!
    for (const [replica, other] of recovered.entries()) {
      if (other === null || (other.tail.end === primary.tail.end && other.tail.chain === primary.tail.chain)) continue
      this.#giveUp(replica, new Error('it could not be made equal to the primary directory'))
    }
    yield* this.#each((directory, replica) => this.#makeStartable(directory, replica, primary.tail.end))
    this.#requireQuorum()
    const epoch = recovered.reduce((highest, one) => Math.max(highest, one?.epoch ?? 0), 0)
    return { logId: this.#logId, primary, epoch, usable: this.#usable, problems: this.#problems, remade: this.#remade }
  }

  /** One log id for all; a directory that lost its FORMAT, or never had one, gets it. */
  #settleFormat(): void {
    const { directories, segmentsName, randomUint32 } = this.#options
    const unreadable: StoreError[] = []
    const ids = this.#eachAtOnce((directory) => {
      try {
        return readFormat(this.#files, directory, segmentsName)
      } catch (error) {
        if (!(error instanceof StoreError) || error.code === 'log_format_newer') throw error
        unreadable.push(error)
        return null
      }
    })
    const known = new Set(ids.filter((id) => id !== null))
    if (known.size > 1) {
      throw new StoreError(
        'corrupt',
        'log_replicas_differ',
        `the directories hold different logs: ${directories.join(', ')}. Give each log its own directories, or empty the wrong ones`,
      )
    }
    const [id] = known
    if (id === undefined && unreadable[0]) throw unreadable[0]
    this.#logId = id ?? randomUint32()
    this.#requireQuorum()
    this.#eachAtOnce((directory, replica) => {
      if (ids[replica] !== null) return
      writeFormat(this.#files, directory, this.#logId)
      if (id !== undefined) this.#remade.push(directory)
    })
  }

  *#makeEqual(): Steps<void> {
    const surveys = yield* this.#each((directory) => this.#surveyOne(directory))
    this.#requireQuorum()
    let source = 0
    for (const [replica, survey] of surveys.entries()) {
      if (survey !== null && (surveys[source] === null || isBetter(survey, surveys[source]!))) source = replica
    }
    const { epoch } = surveys[source]!
    for (const [replica, survey] of surveys.entries()) {
      if (replica === source || survey?.epoch !== epoch) continue
      yield* this.#complete(source, surveys[source]!, replica, survey)
      surveys[source] = yield* this.#surveyOne(this.#options.directories[source]!)
    }
    for (const [replica, survey] of surveys.entries()) {
      if (survey === null || replica === source) continue
      yield* this.#attempt(replica, () => this.#copyAll(surveys, source, replica))
    }
    const first = surveys[source]!.segments[0]?.base ?? 0
    const { begin } = readMark(this.#files, this.#options.directories[source]!, this.#logId)
    this.#begin = begin !== null && begin >= first ? first : null
  }

  /** R4 */
  *#makeStartable(directory: string, replica: number, end: number): Steps<void> {
    const directories = this.#options.directories.filter((_, other) => this.#usable[other])
    if (directories.length === 1) return
    try {
      yield* completeCheckpoints(this.#files, directories, directory, end)
    } catch (error) {
      if (replica !== 0) throw error // without a checkpoint of its own, the primary directory can do with those of the others
    }
    if (replica === 0 || this.#begin === null) return
    yield* dropForgotten(this.#files, directory, this.#options.segmentsName, this.#logId, this.#begin)
  }

  /** R2. Copies what `from` has and `to` lacks. */
  *#complete(to: number, target: RecoveredLog, from: number, other: RecoveredLog): Steps<void> {
    const missing = missingSegments(target, other)
    for (const segment of other.segments) {
      const own = target.segments.find(({ base }) => base === segment.base)
      const isWanted = own
        ? isDamaged(target, own.base) && (segment.sealed || segment.end >= own.end)
        : missing.includes(segment)
      if (isWanted) {
        if (yield* this.#isWhole(from, segment)) yield* this.#copySegment(from, to, segment)
      } else if (own && !own.sealed && own.end < segment.end && !isDamaged(other, segment.base)) {
        if (this.#standInOf(from, segment.base) !== null) {
          if (yield* this.#isWhole(from, segment)) yield* this.#copySegment(from, to, segment) // it was committed before it was compacted
        } else if (this.#links(from, segment, own)) yield* this.#copyFrom(from, to, segment, own.end)
      }
    }
  }

  /** R3 */
  *#copyAll(surveys: readonly (RecoveredLog | null)[], source: number, to: number): Steps<void> {
    const { segments } = surveys[source]!
    const target = surveys[to]!
    const first = segments[0]?.base ?? 0
    for (const { base } of target.segments) {
      const isKept = base < first || segments.some((segment) => segment.base === base)
      if (!isKept) this.#files.removeDirectory(this.#directoryOf(to, base))
    }
    for (const [done, segment] of segments.entries()) {
      yield {
        phase: EQUALISING,
        done,
        total: segments.length,
        unit: 'segments',
      }
      const own = target.segments.find(({ base }) => base === segment.base)
      const isDamagedHere = own !== undefined && isDamaged(target, own.base)
      if (own && !isDamagedHere && isSame(own, segment)) continue
      if (own && !isDamagedHere && !own.sealed && own.end < segment.end && this.#links(source, segment, own)) {
        yield* this.#copyFrom(source, to, segment, own.end)
        continue
      }
      const from = yield* this.#wholeAt(surveys, segment, source)
      if (from !== null) yield* this.#copySegment(from, to, segment)
      else if (!isDamagedHere) yield* this.#copySegment(source, to, segment) // all copies are damaged: one of them
    }
  }

  /** A directory whose copy of the segment has no damage at all; null when there is none. */
  *#wholeAt(
    surveys: readonly (RecoveredLog | null)[],
    segment: RecoveredSegment,
    source: number,
  ): Steps<number | null> {
    if (yield* this.#isWhole(source, segment)) return source
    for (const [replica, survey] of surveys.entries()) {
      const copy = survey?.segments.find(({ base }) => base === segment.base)
      if (!copy || replica === source || !isSame(copy, segment)) continue
      if (yield* this.#isWhole(replica, copy)) return replica
    }
    return null
  }

  /** Reads every frame: a sealed segment is not read otherwise. */
  *#isWhole(replica: number, segment: RecoveredSegment): Steps<boolean> {
    const path = `${this.#directoryOf(replica, segment.base)}/${RECORDS_NAME}`
    if (!this.#files.exists(path)) {
      const standIn = this.#standInOf(replica, segment.base)
      const directory = this.#directoryOf(replica, segment.base)
      const isWhole = standIn !== null && isStandInWhole(this.#files, directory, standIn)
      return isWhole && (!isMoved(standIn) || this.#hasMergedWhole(replica, segment.base))
    }
    const file = this.#files.open(path, 'read')
    try {
      const header = readHeader(file)
      let isWhole = header !== null && header.base === segment.base && header.logId === this.#logId
      const to = segment.end - segment.base
      const parts = scanInSteps(file, this.#logId, segment.base, SEGMENT_HEADER_BYTES, to, {
        frame() {},
        bad() {
          isWhole = false
        },
      })
      yield* stepsOf(parts, { phase: 'comparing the directories of the log', done: 0, total: to })
      return isWhole
    } finally {
      file.close()
    }
  }

  /** Whether the frame behind `own.end` in the other directory follows the last frame of `own`. */
  #links(replica: number, segment: RecoveredSegment, own: RecoveredSegment): boolean {
    if (this.#standInOf(replica, segment.base) !== null) return false
    return withOpenFile(this.#files, `${this.#directoryOf(replica, segment.base)}/${RECORDS_NAME}`, (file) => {
      const read = readFrame(file, this.#logId, segment.base, own.end - segment.base)
      return read.kind === 'frame' && read.frame.previousHeaderCrc === own.chain
    })
  }

  *#copySegment(from: number, to: number, segment: RecoveredSegment): Steps<void> {
    const target = this.#directoryOf(to, segment.base)
    makeDurableDirectory(this.#files, target)
    if (this.#files.exists(`${target}/${QUARANTINE_NAME}`)) this.#files.removeFile(`${target}/${QUARANTINE_NAME}`)
    const standIn = this.#standInOf(from, segment.base)
    if (standIn !== null) {
      if (isMoved(standIn)) yield* this.#copyMerged(from, to, segment.base)
      const bytes = readWhole(this.#files, `${this.#directoryOf(from, segment.base)}/${STAND_IN_NAME}`)!
      publishStandIn(this.#files, target, [bytes])
      return clearBesideStandIn(this.#files, target, this.#logId, segment.base)
    }
    yield* publishInSteps(this.#files, target, RECORDS_NAME, (file) => this.#copyBytes(from, segment, 0, file))
    if (this.#files.exists(`${target}/${STAND_IN_NAME}`)) this.#files.removeFile(`${target}/${STAND_IN_NAME}`)
  }

  /** Whether the merged file of a moved segment is whole. A file that many segments have moved into is read once. */
  #hasMergedWhole(replica: number, base: number): boolean {
    const merged = mergedOver(this.#files, this.#segmentsOf(replica), this.#logId, base)
    if (merged === null) return false
    const [directory, name] = [this.#directoryOf(replica, merged.base), mergedName(merged.end)]
    const path = `${directory}/${name}`
    const known = this.#mergedWhole.get(path)
    if (known !== undefined) return known
    const isWhole = isStandInWhole(this.#files, directory, merged, name)
    this.#mergedWhole.set(path, isWhole)
    return isWhole
  }

  /** Copies what the segment has moved into. Does nothing when `from` has no such file, as the segment is damaged there, too. */
  *#copyMerged(from: number, to: number, base: number): Steps<void> {
    const merged = mergedOver(this.#files, this.#segmentsOf(from), this.#logId, base)
    if (merged === null) return
    const path = `${this.#directoryOf(to, merged.base)}/${mergedName(merged.end)}`
    if (this.#mergedCopied.has(path)) return
    makeDurableDirectory(this.#files, this.#directoryOf(to, merged.base))
    yield* copyMerged(this.#files, this.#logId, merged, this.#segmentsOf(from), this.#segmentsOf(to))
    this.#mergedCopied.add(path)
    this.#mergedWhole.delete(path)
  }

  /** The stand-in that counts for a segment. Null: there is the file of the segment, or no stand-in that fits. */
  #standInOf(replica: number, base: number): StandIn | null {
    const directory = this.#directoryOf(replica, base)
    if (this.#files.exists(`${directory}/${RECORDS_NAME}`)) return null
    return readStandIn(this.#files, directory, this.#logId, base)
  }

  /** Appends what is behind a position, footer included. */
  *#copyFrom(from: number, to: number, segment: RecoveredSegment, position: number): Steps<void> {
    const at = position - segment.base
    const path = `${this.#directoryOf(to, segment.base)}/${RECORDS_NAME}`
    const file = syncedInTurns(this.#files.open(path, 'write'))
    try {
      file.truncate(at)
      yield* this.#copyBytes(from, segment, at, file)
      file.fdatasync()
    } finally {
      file.close()
    }
  }

  /** The segment's bytes from an offset to the end of its frames, and the footer. */
  *#copyBytes(replica: number, segment: RecoveredSegment, offset: number, to: OpenFile): Steps<void> {
    const end = segment.end - segment.base + (segment.sealed ? SEGMENT_FOOTER_BYTES : 0)
    const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - offset))
    const file = this.#files.open(`${this.#directoryOf(replica, segment.base)}/${RECORDS_NAME}`, 'read')
    try {
      for (let at = offset; at < end;) {
        const bytes = file.read(piece.subarray(0, Math.min(piece.byteLength, end - at)), at)
        if (bytes === 0) return
        to.writev([piece.subarray(0, bytes)], at)
        at += bytes
        yield { phase: EQUALISING, done: at - offset, total: end - offset, unit: 'bytes' }
      }
    } finally {
      file.close()
    }
  }

  #surveyOne(directory: string): Steps<RecoveredLog> {
    return recoverDirectory({ ...this.#options, directory, logId: this.#logId, dryRun: true })
  }

  /** Runs the steps for every usable directory. The result is null for a directory that is not usable, or that fails now. */
  *#each<Result>(run: (directory: string, replica: number) => Steps<Result>): Steps<(Result | null)[]> {
    const results: (Result | null)[] = []
    for (const [replica, directory] of this.#options.directories.entries()) {
      const isUsable = this.#usable[replica]
      results.push(isUsable ? yield* this.#attempt(replica, () => run(directory, replica)) : null)
    }
    return results
  }

  #eachAtOnce<Result>(run: (directory: string, replica: number) => Result): (Result | null)[] {
    return atOnce(
      // oxlint-disable-next-line require-yield
      this.#each(function* (directory, replica) {
        return run(directory, replica)
      }),
    )
  }

  /** The log can do without a replica directory that fails, not without the primary one. */
  *#attempt<Result>(replica: number, run: () => Steps<Result>): Steps<Result | null> {
    if (replica === 0) return yield* run()
    try {
      return yield* run()
    } catch (error) {
      if (error instanceof StoreError) throw error
      this.#giveUp(replica, error)
      return null
    }
  }

  #giveUp(replica: number, error: unknown): void {
    this.#usable[replica] = false
    this.#problems.push({ replica, reason: messageOf(error) })
  }

  /** Throws unless there are enough directories to write to, and to be sure that one of them has whatever was acknowledged. */
  #requireQuorum(): void {
    const { writeQuorum, leftOut } = this.#options
    const count = this.#usable.length
    const needed = Math.max(writeQuorum, count - (leftOut?.size ?? 0) - writeQuorum + 1)
    const have = this.#usable.filter(Boolean).length
    if (have >= needed) return
    const reasons = this.#problems.map(({ replica, reason }) => `${this.#options.directories[replica]!}: ${reason}`)
    throw new StoreError(
      'unavailable',
      'log_quorum_unavailable',
      `only ${have} of ${count} log directories can be used, but ${needed} are needed: ${reasons.join('; ')}`,
    )
  }

  #directoryOf(replica: number, base: number): string {
    return `${this.#segmentsOf(replica)}/${segmentName(base)}`
  }

  #segmentsOf(replica: number): string {
    return `${this.#options.directories[replica]!}/${this.#options.segmentsName}`
  }
}

/** R1 */
function isBetter(one: RecoveredLog, other: RecoveredLog): boolean {
  if (one.epoch !== other.epoch) return one.epoch > other.epoch
  if (one.incidents.length !== other.incidents.length) return one.incidents.length < other.incidents.length
  return one.framesEnd > other.framesEnd
}

function isSame(one: RecoveredSegment, other: RecoveredSegment): boolean {
  return one.end === other.end && one.chain === other.chain && one.sealed === other.sealed
}

function isDamaged(log: RecoveredLog, base: number): boolean {
  return log.incidents.some((incident) => incident.segmentBase === base)
}

/** Segments of another directory that stand right before those of the log, right behind them, or in a gap between. */
function missingSegments(log: RecoveredLog, other: RecoveredLog): RecoveredSegment[] {
  const last = log.segments.at(-1)
  if (last === undefined) return [...other.segments]
  let first = log.segments[0]!.base
  let next = last.sealed ? last.end + SEGMENT_FOOTER_BYTES : Infinity
  const before = other.segments.toReversed().filter((segment) => {
    const precedes = segment.sealed && segment.end + SEGMENT_FOOTER_BYTES === first
    if (precedes) first = segment.base
    return precedes
  })
  const behind = other.segments.filter((segment) => {
    const follows = segment.base === next
    if (follows) next = segment.end + SEGMENT_FOOTER_BYTES
    return follows
  })
  const between = other.segments.filter((segment) =>
    log.incidents.some((incident) => incident.from <= segment.base && incident.to >= segment.end),
  )
  return [...before, ...behind, ...between]
}
