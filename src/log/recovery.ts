/**
 * Opening the segments of one directory: what is there, what was torn by a crash, what is damaged.
 *
 * V1  a segment with a footer, known to be durable to its end, is sealed and not read; any other is read frame by frame
 * V2  bytes that were durable and cannot be read are damage: an incident, kept. A later frame, a later segment, the durable mark or the name
 *     of a checkpoint says that bytes were durable. The mark also says where the log begins: bytes missing from there on are damage
 * V3  bytes that were not known to be durable and cannot be read are the torn tail of a crash: they are cut off, with all that follows
 * V4  everything kept is durable before it counts as recovered. Bytes that are not known to be durable are written once more and synced,
 *     because an earlier failed sync may have left them only in memory, marked as clean
 * V5  a position that may have been reported as durable is never given to another frame: a segment damaged at its end is
 *     sealed, and the log continues behind the missing part
 * V6  a directory behind the end of the log is ignored unless its file belongs to this log: it stays where it is, and is an incident
 * V7  a segment without its file that has a whole stand-in (stand-in.ts) is that segment, sealed; beside the file a stand-in says nothing
 * V8  a segment that has moved into a merged file (merged.ts), or of which no form opens, and that is before the beginning that the mark names, was being
 *     dropped: it is removed
 * V9  a segment that has moved, and is in no merged file of this directory, is damage: another directory may have it
 * V10 a segment of which no form opens, and that is in a merged file of this directory, is there: its service makes its stand-in again. In a dry run it is
 *     damage, so that the stand-in is taken from a directory that has it
 */
import { frameBytes } from '../../native-free-codecs/frame.ts'
import { StoreError } from '../errors.ts'
import { newestCheckpointPosition } from './checkpoint.ts'
import { readMark } from './durable-mark.ts'
import type { Mark } from './durable-mark.ts'
import { TEMPORARY_SUFFIX, fileBytes } from './files.ts'
import type { Files, OpenFile } from './files.ts'
import { stepsOf } from '../steps.ts'
import type { Steps } from '../steps.ts'
import type { JournalTail } from './environment.ts'
import { MOVED_REASON, isMoved, mergedOver, needsMerged } from './merged.ts'
import { readQuarantine, writeQuarantine } from './quarantine.ts'
import type { QuarantineIncident } from './quarantine.ts'
import { readFooter, readHeader, scanInSteps } from './read.ts'
import type { DamagedRange } from './read.ts'
import {
  DROPPED_PREFIX,
  RECORDS_NAME,
  SEGMENT_BYTES_MAX,
  SEGMENT_FOOTER_BYTES,
  SEGMENT_HEADER_BYTES,
  encodeSegmentFooter,
  segmentBaseOf,
  segmentName,
} from './segment-format.ts'
import { readStandIn } from './stand-in.ts'
import type { StandIn } from './stand-in.ts'

export interface RecoverOptions {
  readonly files: Files
  readonly directory: string
  readonly segmentsName: string
  readonly logId: number
  /** Frames that end behind it are given up. Set for a restart in place, and when a log of a cluster is opened. */
  readonly keepUpTo?: number
  /**
   * Set for a log of a cluster. Its frames say what was durable on the node that built them, which need not be durable here. So recovery trusts only
   * this directory's own mark, footers and checkpoints, and this position, up to which everything was durable here.
   */
  readonly durableHere?: number
  /** Only says what it would find: changes no file. */
  readonly dryRun?: boolean
}

export interface RecoveredSegment {
  readonly base: number
  /** Position behind the last frame. */
  readonly end: number
  readonly sealed: boolean
  readonly frameCount: number
  readonly epoch: number
  /** headerCrc of the last frame. */
  readonly chain: number
}

export interface RecoveredLog {
  readonly segments: readonly RecoveredSegment[]
  /** Position behind the last frame that reads; before tail.end only when the last segment ends damaged. */
  readonly framesEnd: number
  /** Where the journal continues. */
  readonly tail: JournalTail
  /** Base of the next segment, when tail.base is -1. */
  readonly nextBase: number
  /** Where the log begins, what is lost of its beginning included. */
  readonly begin: number
  /** The highest epoch seen. */
  readonly epoch: number
  readonly incidents: readonly QuarantineIncident[]
  readonly tornTail: DamagedRange | null
}

/** Where the producer continues. */
export function producerStateOf({ tail, nextBase }: RecoveredLog) {
  const mustOpen = tail.base < 0
  return { tail: tail.end, base: tail.base, nextBase, mustOpen, chain: tail.chain, frameCount: tail.frameCount }
}

export const recoverDirectory = (options: RecoverOptions): Steps<RecoveredLog> => new Recovery(options).run()

class Recovery {
  readonly #options: RecoverOptions
  readonly #files: Files
  readonly #segments: string
  readonly #dryRun: boolean
  readonly #incidents: QuarantineIncident[] = []
  #tornTail: DamagedRange | null = null
  #framesEnd = 0
  #bases: readonly number[] = []

  constructor(options: RecoverOptions) {
    this.#options = options
    this.#files = options.files
    this.#segments = `${options.directory}/${options.segmentsName}`
    this.#dryRun = options.dryRun ?? false
  }

  *run(): Steps<RecoveredLog> {
    const { files, directory, logId } = this.#options
    const marked = readMark(files, directory, logId)
    const { durableHere = 0 } = this.#options
    const known = Math.max(marked.position, newestCheckpointPosition(files, directory), durableHere)
    const durable = Math.min(known, this.#options.keepUpTo ?? Infinity)

    const bases = (this.#bases = yield* this.#withoutStrays(this.#listBases(marked.begin ?? 0), durable))
    const first = bases[0] ?? 0
    if (marked.begin !== null && marked.begin < first) {
      this.#report(marked.begin, { from: marked.begin, to: first, reason: MISSING })
    }
    const opened: RecoveredSegment[] = []
    for (const [index, base] of bases.entries()) {
      const nextBase = bases[index + 1]
      const previous = opened.at(-1)
      if (previous) this.#checkGap(previous, base)
      const segment = yield* this.#openSegment(base, nextBase, durable, previous?.chain ?? 0)
      if (segment) opened.push(segment)
    }
    return this.#result(opened, durable, marked)
  }

  #result(opened: readonly RecoveredSegment[], durable: number, marked: Mark): RecoveredLog {
    const last = opened.at(-1)
    const epoch = opened.reduce((highest, segment) => Math.max(highest, segment.epoch), marked.epoch)
    let nextBase = last ? last.end + SEGMENT_FOOTER_BYTES : (marked.begin ?? 0)
    if (durable > nextBase) {
      this.#report(last?.base ?? 0, { from: nextBase, to: durable, reason: MISSING })
      nextBase = aligned(durable) // V5
    }
    const isOpen = last !== undefined && !last.sealed
    return {
      segments: opened,
      framesEnd: this.#framesEnd,
      tail: {
        base: isOpen ? last.base : -1,
        end: last?.end ?? 0,
        frameCount: isOpen ? last.frameCount : 0,
        epoch: last?.epoch ?? 0,
        chain: last?.chain ?? 0,
      },
      nextBase,
      begin: Math.min(marked.begin ?? Infinity, opened[0]?.base ?? nextBase),
      epoch,
      incidents: this.#incidents,
      tornTail: this.#tornTail,
    }
  }

  /** Finishes removals that were begun. @returns bases in ascending order */
  #listBases(begin: number): number[] {
    const bases: number[] = []
    for (const name of this.#files.list(this.#segments) ?? []) {
      if (name.endsWith(TEMPORARY_SUFFIX) && !this.#dryRun) this.#files.removeFile(`${this.#segments}/${name}`)
      if (name.startsWith(DROPPED_PREFIX) && !this.#dryRun) this.#files.removeDirectory(`${this.#segments}/${name}`)
      const base = segmentBaseOf(name)
      if (base === null) continue
      const isCut = base + SEGMENT_HEADER_BYTES > (this.#options.keepUpTo ?? Infinity)
      const isDropped = base < begin && needsMerged(this.#files, this.#directoryOf(base), this.#options.logId, base) // V8
      if (isCut || isDropped) this.#remove(base)
      else bases.push(base)
    }
    return bases.sort((a, b) => a - b)
  }

  /** V6 */
  *#withoutStrays(bases: readonly number[], durable: number): Steps<number[]> {
    const kept = [...bases]
    for (let last = kept.at(-1); last !== undefined; last = kept.at(-1)) {
      if (last < durable || this.#isBehind(kept.at(-2), last) || (yield* this.#isOurs(last))) break
      kept.pop()
    }
    for (const base of bases.slice(kept.length)) {
      const reason = `${this.#directoryOf(base)} is no segment of this log: move it away`
      this.#report(base, { from: base, to: base, reason })
    }
    return kept
  }

  /** Whether `base` is where the next segment begins: its file may not be there yet. */
  #isBehind(previous: number | undefined, base: number): boolean {
    if (previous === undefined) return true
    const path = `${this.#directoryOf(previous)}/${RECORDS_NAME}`
    if (!this.#files.exists(path)) {
      const standIn = this.#standInOf(previous)
      return standIn !== null && standIn.end + SEGMENT_FOOTER_BYTES === base
    }
    return previous + fileBytes(this.#files, path) === base
  }

  *#isOurs(base: number): Steps<boolean> {
    const path = `${this.#directoryOf(base)}/${RECORDS_NAME}`
    if (!this.#files.exists(path)) return this.#standInOf(base) !== null
    const { logId } = this.#options
    const file = this.#files.open(path, 'read')
    try {
      const footer = readFooter(file)
      const hasFooter = footer !== null && footer.base === base && footer.logId === logId
      if (hasFooter || hasHeader(file, base, logId)) return true
      const { frameCount } = yield* this.#scan(file, base, base + file.size())
      return frameCount > 0
    } finally {
      file.close()
    }
  }

  #checkGap(previous: RecoveredSegment, base: number): void {
    const expected = previous.end + SEGMENT_FOOTER_BYTES
    if (base > expected) {
      this.#report(previous.base, { from: expected, to: base, reason: MISSING })
    } else if (base < expected) {
      throw new StoreError(
        'corrupt',
        'log_segments_overlap',
        `${this.#segments}/${segmentName(base)} begins inside the segment before it: one of the two belongs to another log`,
      )
    }
  }

  /** Null when nothing of the segment had come into being. */
  *#openSegment(
    base: number,
    nextBase: number | undefined,
    durable: number,
    chain: number,
  ): Steps<RecoveredSegment | null> {
    const path = `${this.#directoryOf(base)}/${RECORDS_NAME}`
    if (!this.#files.exists(path)) {
      const standIn = this.#standInOf(base)
      if (standIn !== null) return this.#openCompacted(standIn)
      const merged = this.#dryRun ? null : this.#mergedOver(base)
      if (merged !== null) return this.#openFromMerged(base, nextBase, merged, chain)
      if (nextBase === undefined && durable <= base + SEGMENT_HEADER_BYTES) return this.#remove(base)
      const to = nextBase === undefined ? durable : nextBase - SEGMENT_FOOTER_BYTES
      this.#report(base, { from: base, to, reason: `${RECORDS_NAME} is missing` })
      return { base, end: aligned(to), sealed: true, frameCount: 0, epoch: 0, chain }
    }
    const file = this.#files.open(path, 'write')
    try {
      return (
        (yield* this.#openSealed(file, base, nextBase === undefined ? durable : Infinity)) ??
        (yield* this.#openUnsealed(file, base, nextBase, durable, chain))
      )
    } finally {
      file.close()
    }
  }

  #standInOf(base: number): StandIn | null {
    return readStandIn(this.#files, this.#directoryOf(base), this.#options.logId, base)
  }

  /** V7, V9 */
  #openCompacted(standIn: StandIn): RecoveredSegment {
    const { base, end, frameCount, epoch, lastHeaderCrc } = standIn
    const known = readQuarantine(this.#files, this.#directoryOf(base))
    for (const range of known === 'unreadable' ? [] : known) this.#report(base, range)
    if (isMoved(standIn) && this.#mergedOver(base) === null)
      this.#report(base, { from: base, to: end, reason: MOVED_REASON })
    this.#framesEnd = end
    return { base, end, sealed: true, frameCount, epoch, chain: lastHeaderCrc }
  }

  /** V10 */
  #openFromMerged(base: number, nextBase: number | undefined, merged: StandIn, chain: number): RecoveredSegment {
    const end = Math.min(merged.end, (nextBase ?? Infinity) - SEGMENT_FOOTER_BYTES)
    this.#framesEnd = end
    const isLast = end === merged.end
    const { epoch, lastHeaderCrc } = merged
    return { base, end, sealed: true, frameCount: 0, epoch, chain: isLast ? lastHeaderCrc : chain }
  }

  #mergedOver(base: number): StandIn | null {
    return mergedOver(this.#files, this.#segments, this.#options.logId, base, this.#bases)
  }

  /** V1; null when there is no footer that fits, or a crash tore what is before it. */
  *#openSealed(file: OpenFile, base: number, durable: number): Steps<RecoveredSegment | null> {
    const footer = readFooter(file)
    const { logId, keepUpTo = Infinity } = this.#options
    if (footer === null || footer.base !== base || footer.logId !== logId || footer.end > keepUpTo) return null
    if (footer.end - base + SEGMENT_FOOTER_BYTES !== file.size()) return null
    if (durable < footer.end) {
      const { bad } = yield* this.#scan(file, base, footer.end)
      if (bad.length > 0) return null
      if (!this.#dryRun) yield* this.#makeDurable(file, base, Math.max(0, durable - base))
    }
    const known = readQuarantine(this.#files, this.#directoryOf(base))
    const ranges = known === 'unreadable' ? yield* this.#reread(file, base, footer.end) : known
    for (const range of ranges) this.#report(base, range)
    if (!hasHeader(file, base, logId) && !ranges.some((range) => range.from === base))
      this.#report(base, headerRange(base))
    const { end, frameCount, epoch, lastHeaderCrc } = footer
    this.#framesEnd = end
    return { base, end, sealed: true, frameCount, epoch, chain: lastHeaderCrc }
  }

  *#reread(file: OpenFile, base: number, end: number): Steps<DamagedRange[]> {
    const { bad: damaged } = yield* this.#scan(file, base, end)
    if (!this.#dryRun) writeQuarantine(this.#files, this.#directoryOf(base), damaged)
    return damaged
  }

  *#openUnsealed(
    file: OpenFile,
    base: number,
    nextBase: number | undefined,
    markedDurable: number,
    chain: number,
  ): Steps<RecoveredSegment | null> {
    const { keepUpTo = Infinity, logId } = this.#options
    // Before a later segment came into being this one was whole and synced (V2), and ended right before it.
    const sealedEnd =
      nextBase !== undefined && nextBase - base <= SEGMENT_BYTES_MAX ? nextBase - SEGMENT_FOOTER_BYTES : undefined
    const scanTo = sealedEnd ?? Math.min(base + file.size(), keepUpTo)
    const scan = yield* this.#scan(file, base, scanTo)
    const scannedDurable = this.#options.durableHere === undefined ? scan.durable : 0
    const durable = nextBase === undefined ? Math.max(markedDurable, scannedDurable) : (sealedEnd ?? scanTo)

    const withHeader = hasHeader(file, base, logId)
    const isNew = nextBase === undefined && scan.frameCount === 0 && durable <= base + SEGMENT_HEADER_BYTES
    if (!withHeader && isNew) return this.#remove(base) // the crash came before its header was synced

    const torn = scan.bad.find((bad) => bad.from >= durable)
    const { frameCount, epoch, framesEnd, chain: scannedChain } = torn?.before ?? scan
    this.#framesEnd = Math.max(this.#framesEnd, framesEnd)
    const end = torn?.from ?? Math.max(scanTo, base + SEGMENT_HEADER_BYTES)
    if (torn && scan.lastHeader >= torn.from) {
      this.#tornTail = { from: torn.from, to: base + file.size(), reason: torn.reason }
    }

    const damaged: DamagedRange[] = scan.bad.filter((bad) => bad.from < durable)
    if (!withHeader) damaged.unshift(headerRange(base))
    if (durable > end) damaged.push({ from: end, to: durable, reason: 'the file ends early' })
    for (const range of damaged) this.#report(base, range)

    const endsDamaged = damaged.some((range) => range.to >= end && range.to > base + SEGMENT_HEADER_BYTES)
    const sealed = nextBase !== undefined || endsDamaged // V5
    const chainNow = frameCount === 0 ? chain : scannedChain
    const segment = { base, end: sealed ? aligned(end) : end, sealed, frameCount, epoch, chain: chainNow }
    if (!this.#dryRun) yield* this.#settle(file, segment, damaged, durable)
    return segment
  }

  /** Cuts the segment at its end, or seals it, and makes it durable. */
  *#settle(file: OpenFile, segment: RecoveredSegment, damaged: readonly DamagedRange[], durable: number): Steps<void> {
    const { base, end } = segment
    if (damaged.length > 0) writeQuarantine(this.#files, this.#directoryOf(base), damaged)
    if (segment.sealed) this.#writeFooter(file, segment)
    else if (file.size() > end - base) file.truncate(end - base)
    yield* this.#makeDurable(file, base, durable > base + SEGMENT_HEADER_BYTES ? durable - base : 0)
  }

  /** V4 */
  *#makeDurable(file: OpenFile, base: number, from: number): Steps<void> {
    const bytes = Buffer.allocUnsafe(1 << 20)
    const total = file.size() - from
    for (let at = from; ; at += bytes.byteLength) {
      yield { phase: 'writing the end of the log once more', done: at - from, total, unit: 'bytes' }
      const have = file.read(bytes, at)
      if (have > 0) file.writev([bytes.subarray(0, have)], at)
      if (have < bytes.byteLength) break
    }
    file.fdatasync()
    this.#files.syncDirectory(this.#directoryOf(base))
    this.#files.syncDirectory(this.#segments)
  }

  #writeFooter(file: OpenFile, segment: RecoveredSegment): void {
    const { base, end, frameCount, epoch, chain } = segment
    const footer = encodeSegmentFooter({
      frameCount,
      logId: this.#options.logId,
      end,
      epoch,
      lastHeaderCrc: chain,
      base,
    })
    file.truncate(end - base)
    file.writev([footer], end - base)
  }

  *#scan(file: OpenFile, base: number, to: number): Steps<Scan> {
    const scan: Scan = { frameCount: 0, epoch: 0, chain: 0, framesEnd: 0, durable: 0, lastHeader: -1, bad: [] }
    const parts = scanInSteps(file, this.#options.logId, base, SEGMENT_HEADER_BYTES, to - base, {
      frame(view) {
        scan.frameCount += 1
        scan.epoch = view.epoch
        scan.chain = view.headerCrc
        scan.framesEnd = view.position + frameBytes(view.payloadBytes)
        scan.lastHeader = view.position
        scan.durable = Math.max(scan.durable, view.durableBefore)
      },
      damaged(header) {
        scan.lastHeader = header.position
        scan.durable = Math.max(scan.durable, header.durableBefore)
      },
      bad(from, badTo, reason) {
        const { frameCount, epoch, chain, framesEnd } = scan
        scan.bad.push({ from: base + from, to: base + badTo, reason, before: { frameCount, epoch, chain, framesEnd } })
      },
    })
    yield* stepsOf(parts, { phase: 'checking the end of the log', done: 0, total: to - base })
    return scan
  }

  #remove(base: number): null {
    if (this.#dryRun) return null
    this.#files.removeDirectory(this.#directoryOf(base))
    this.#files.syncDirectory(this.#segments)
    return null
  }

  #report(segmentBase: number, { from, to, reason }: DamagedRange): void {
    if (this.#incidents.some((known) => known.from <= from && known.to >= to)) return
    this.#incidents.push({ segmentBase, from, to, reason })
  }

  #directoryOf(base: number): string {
    return `${this.#segments}/${segmentName(base)}`
  }
}

const MISSING = 'the segments of this range are missing'

/** What the frames before some point of a segment add up to. */
interface Before {
  readonly frameCount: number
  readonly epoch: number
  readonly chain: number
  /** Position behind the last good frame; 0 when there is none. */
  readonly framesEnd: number
}

interface Scan {
  frameCount: number
  epoch: number
  chain: number
  framesEnd: number
  /** The highest position a frame says was durable. */
  durable: number
  /** Position of the last valid header: behind it may be old bytes of an earlier file, which are no loss. */
  lastHeader: number
  readonly bad: (DamagedRange & { readonly before: Before })[]
}

function hasHeader(file: OpenFile, base: number, logId: number): boolean {
  const header = readHeader(file)
  return header !== null && header.base === base && header.logId === logId
}

function headerRange(base: number): DamagedRange {
  return { from: base, to: base + SEGMENT_HEADER_BYTES, reason: 'the segment header is damaged' }
}

function aligned(position: number): number {
  return Math.ceil(position / 8) * 8
}
