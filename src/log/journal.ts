/**
 * The journal of one directory: takes the frames that wait in the ring of its lane and makes them durable, group by group. It starts no thread:
 * `workers/journal.ts` runs it on one, tests step it by hand.
 *
 *   ring ─► frames waiting now ─► one writev (per segment) ─► one fdatasync, if any frame asks for it ─► written, synced
 *
 * J1  a position is published as written or synced only after the call that made it so returned
 * J2  bytes go to the file at the offset their position says: `end` is where the next frame must begin
 * J3  a failed write or fdatasync is final: nothing more is written, nothing more is published; the ring is still drained, so
 *     that the producer never waits for a dead disk. Only after a write to a full disk it is known what was written, see `failed`
 * J4  a new segment's name is durable before any of its frames is reported; the one before is sealed, synced, by then
 * J5  messages of another generation are discarded: their frames were given up by a recovery in place
 * J6  in a cluster, the leader's journal and lane both move the committed position. Each looks at the other's position after it has stored its own. So
 *     one of them wakes main
 */
import assert from 'node:assert/strict'
import { paddedBytes, readU32, readU64 } from '../../native-free-codecs/frame.ts'
import { StoreError, messageOf } from '../errors.ts'
import { SpscRing } from '../pipeline/spsc-ring.ts'
import { DurableMark } from './durable-mark.ts'
import type { JournalMessage, JournalRequest, JournalTail, JournalTask } from './environment.ts'
import { dropInSteps } from './drop-segment.ts'
import { errorCode, isFullDisk } from './files.ts'
import type { Files, OpenFile, PageCache } from './files.ts'
import {
  MESSAGE_HEAD_BYTES,
  MESSAGE_OPENS_SEGMENT,
  MESSAGE_REPORT_WRITTEN,
  MESSAGE_SEAL,
  MESSAGE_SYNC,
} from './journal-message.ts'
import { FINISH_RESERVE_BYTES, FreeSpace } from './free-space.ts'
import { GatheredWrite } from './gathered-write.ts'
import { LogShared } from './log-shared.ts'
import {
  RECORDS_NAME,
  SEGMENT_FOOTER_BYTES,
  SEGMENT_HEADER_BYTES,
  encodeSegmentFooter,
  encodeSegmentHeader,
  segmentName,
} from './segment-format.ts'
import { removeSpares, takeSpare } from './spare.ts'
import { WriteAhead } from './write-ahead.ts'

/** Bytes after which a group ends although more is waiting: bounds how long the first frame of a group waits for its sync. */
const GROUP_BYTES_MAX = 32 << 20
/** Bytes of the arena. Main is told of this many before they are synced: otherwise bodies that wait for room would wait for the disk, too. */
const ROOM_BYTES = 4 << 20
/** Free space is looked at again after this many bytes or this much time. */
const SPACE_REFRESH_BYTES = 16 << 20
const SPACE_REFRESH_MS = 250

export interface JournalOptions {
  readonly files: Files
  readonly directory: string
  readonly segmentsName: string
  readonly replica: number
  readonly ring: SpscRing
  /** External payload parts; empty when the log has none. */
  readonly arena: Uint8Array
  readonly shared: LogShared
  readonly tail: JournalTail
  readonly reserveBytes: number
  readonly pageCache: PageCache
  readonly writeAheadBytes: number
  /** See JournalTask. */
  readonly refusals: number
  /** Monotonic, milliseconds with fractions. */
  readonly nowMs: () => number
  notify(message: JournalMessage): void
}

export class Journal {
  readonly #options: JournalOptions
  readonly #files: Files
  readonly #shared: LogShared
  readonly #ring: SpscRing
  readonly #replica: number
  readonly #generation: number
  readonly #segments: string
  readonly #words: Uint32Array
  readonly #mark: DurableMark
  readonly #space: FreeSpace
  /** How many frames the last group had. */
  groupFrames = 0
  #failed = false
  #isSyncing = false

  // The segment that is open.
  #file: OpenFile | null = null
  #base: number
  #end: number
  #frameCount: number
  #epoch: number
  #chain: number

  readonly #write = new GatheredWrite()
  readonly #ahead: WriteAhead

  /** Removals of segments that are not finished, in this order. */
  readonly #drops: Generator<void, void, undefined>[] = []
  #unsyncedBytes = false
  #spaceBytes = 0
  #spaceMs: number

  constructor(options: JournalOptions) {
    this.#options = options
    this.#files = options.files
    this.#shared = options.shared
    this.#ring = options.ring
    this.#replica = options.replica
    this.#generation = options.shared.generation
    this.#segments = `${options.directory}/${options.segmentsName}`
    this.#words = new Uint32Array(
      options.ring.bytes.buffer,
      options.ring.bytes.byteOffset,
      options.ring.capacityBytes >>> 2,
    )
    this.#mark = DurableMark.open(options.files, options.directory, options.shared.logId)
    this.#ahead = new WriteAhead(options.writeAheadBytes)
    this.#space = new FreeSpace({ ...options, segments: this.#segments })
    const { tail } = options
    this.#base = tail.base
    this.#end = tail.end
    this.#frameCount = tail.frameCount
    this.#epoch = tail.epoch
    this.#chain = tail.chain
    if (tail.base >= 0) {
      this.#file = this.#files.open(this.#recordsPath(), 'write', options.pageCache)
      this.#write.begin(this.#file, tail.end - tail.base)
      this.#ahead.begin(this.#file, this.#file.size())
    }
    this.#spaceMs = options.nowMs()
  }

  /** Writes and reports one group. False when nothing was waiting. Never throws on I/O: a failure is published (J3). */
  runGroup(): boolean {
    const first = this.#ring.next()
    if (first < 0) return false
    try {
      this.#runGroup(first)
    } catch (error) {
      this.#fail(error)
    }
    return true
  }

  #runGroup(first: number): void {
    let kinds = 0
    let groupBytes = 0
    let externalBytes = 0
    this.groupFrames = 0
    for (let at = first; at >= 0; at = groupBytes < GROUP_BYTES_MAX ? this.#ring.next() : -1) {
      const words = at >>> 2
      this.groupFrames += 1
      if (this.#failed || this.#words[words] !== this.#generation) continue // J3, J5
      const kind = this.#words[words + 1]!
      kinds |= kind
      if (kind & MESSAGE_SEAL) this.#seal()
      else {
        externalBytes += this.#words[words + 3]!
        groupBytes += this.#add(at, kind, this.#words[words + 2]!, this.#words[words + 3]!)
      }
    }
    const committedBefore = this.#shared.committed()
    if (!this.#failed && groupBytes > 0) {
      this.#flush()
      this.#shared.addGroup(this.#replica, groupBytes)
      this.#shared.publishWritten(this.#replica, this.#end) // J1
    }
    this.#ring.release()
    if (this.#failed || groupBytes === 0) return
    if (kinds & MESSAGE_REPORT_WRITTEN || externalBytes >= ROOM_BYTES) this.#wakeMain()
    if (kinds & MESSAGE_SYNC) {
      if (this.#unsyncedBytes) {
        this.#writeAhead(groupBytes)
        this.#sync()
      } // not when the group ended with a seal
      this.#shared.publishSynced(this.#replica, this.#end) // J1
    }
    this.#spaceBytes += groupBytes
    if (this.#spaceBytes >= SPACE_REFRESH_BYTES || this.#options.nowMs() - this.#spaceMs >= SPACE_REFRESH_MS) {
      this.#refreshSpace()
      return this.#wakeMain()
    }
    const isForLane = this.#shared.leads && externalBytes === 0 && this.#shared.committed() === committedBefore
    if (!isForLane) this.#wakeMain() // J6
  }

  /** Nothing has waited for a while: brings the mark and the free space up to date. */
  idle(): void {
    if (this.#failed) return
    try {
      this.#writeMark()
      if (this.#options.nowMs() - this.#spaceMs >= SPACE_REFRESH_MS) this.#refreshSpace()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** The log has no other directory. */
  get isOnly(): boolean {
    return this.#shared.replicaCount === 1
  }

  /** Something is left for `idle` to do soon. */
  get hasUnwrittenMark(): boolean {
    return !this.#failed && this.#mark.position !== this.#shared.synced(this.#replica)
  }

  /** Removes a sealed segment, by and by (`dropStep`). */
  drop(request: JournalRequest): void {
    this.#drops.push(this.#drop(request))
  }

  /** Runs one step of what `drop` asked for: frames that come meanwhile wait for one step at most. False: nothing is left. */
  dropStep(): boolean {
    const [first] = this.#drops
    if (first === undefined) return false
    try {
      if (first.next().done) this.#drops.shift()
    } catch (error) {
      this.#fail(error)
    }
    if (this.#failed) for (const each of this.#drops.splice(0)) each.return()
    return this.#drops.length > 0
  }

  /**
   * The segment is renamed first, so that half a removal is never taken for damage; and only when the mark says that the log begins behind it, so
   * that its absence is not taken for a loss.
   */
  *#drop({ base, begin }: JournalRequest): Generator<void, void, undefined> {
    if (this.#failed) return
    if (this.#mark.begin === null || this.#mark.begin < begin) {
      this.#mark.moveBegin({ epoch: this.#shared.epoch, position: this.#shared.synced(this.#replica), begin })
    }
    const keepFile = this.#space.bytes >= 4 * this.#options.reserveBytes
    yield* dropInSteps(this.#files, this.#segments, base, keepFile)
  }

  /** Syncs what is not synced. The ring is empty. */
  close(): void {
    if (!this.#failed) {
      try {
        if (this.#unsyncedBytes) {
          this.#sync()
          this.#shared.publishSynced(this.#replica, this.#end)
        }
        this.#writeMark()
        this.#mark.sync()
      } catch (error) {
        this.#fail(error)
      }
    }
    this.#file?.close()
    this.#file = null
    this.#space.close()
    this.#mark.close()
  }

  /** Gathers one frame. @returns the bytes that it takes in the file */
  #add(at: number, kind: number, externalOffset: number, externalBytes: number): number {
    const bytes = this.#ring.bytes
    const headerAt = at + MESSAGE_HEAD_BYTES
    const ringBytes = this.#ring.messageBytes - MESSAGE_HEAD_BYTES
    const position = readU64(bytes, headerAt + 8)
    const epoch = readU32(bytes, headerAt + 32)
    if (kind & MESSAGE_OPENS_SEGMENT) this.#openSegment(position - SEGMENT_HEADER_BYTES, epoch)
    assert(position === this.#end, 'a frame does not begin where the one before ended') // J2

    this.#write.add(bytes, headerAt, ringBytes)
    let wholeBytes = ringBytes
    if (externalBytes > 0) {
      this.#write.add(this.#options.arena, externalOffset, externalBytes)
      wholeBytes = paddedBytes(ringBytes + externalBytes)
      this.#write.add(PADDING, 0, wholeBytes - ringBytes - externalBytes)
    } else if (wholeBytes % 8 !== 0) {
      wholeBytes = paddedBytes(ringBytes)
      this.#write.add(PADDING, 0, wholeBytes - ringBytes)
    }
    this.#end = position + wholeBytes
    this.#frameCount += 1
    this.#epoch = epoch
    this.#chain = readU32(bytes, headerAt)
    return wholeBytes
  }

  #flush(): void {
    if (this.#write.flush()) this.#unsyncedBytes = true
  }

  #writeAhead(groupBytes: number): void {
    const { nowMs, reserveBytes } = this.#options
    const atMs = nowMs()
    if (!this.#ahead.isDue(this.#end - this.#base, groupBytes, atMs)) return
    if (this.#space.bytes >= 4 * reserveBytes) this.#ahead.extend(atMs)
  }

  #sync(): void {
    assert(this.#file !== null)
    const startMs = this.#options.nowMs()
    this.#isSyncing = true
    this.#file.fdatasync()
    this.#isSyncing = false
    this.#unsyncedBytes = false
    this.#shared.addSync(this.#replica, Math.round((this.#options.nowMs() - startMs) * 1e6))
  }

  /** J4 */
  #openSegment(base: number, epoch: number): void {
    this.#seal()
    this.#requireDirectory()
    const directory = `${this.#segments}/${segmentName(base)}`
    this.#files.makeDirectory(directory)
    this.#base = base
    const isSpare = takeSpare(this.#files, this.#segments, this.#recordsPath())
    const { pageCache } = this.#options
    this.#file = isSpare
      ? this.#files.open(this.#recordsPath(), 'write', pageCache)
      : this.#files.create(this.#recordsPath(), pageCache)
    const header = encodeSegmentHeader({ logId: this.#shared.logId, base, epoch, previousHeaderCrc: this.#chain })
    this.#file.writev([header], 0)
    this.#isSyncing = true
    this.#file.fdatasync()
    this.#files.syncDirectory(directory)
    this.#files.syncDirectory(this.#segments)
    this.#isSyncing = false
    this.#end = base + SEGMENT_HEADER_BYTES
    this.#write.begin(this.#file, SEGMENT_HEADER_BYTES)
    this.#ahead.begin(this.#file, this.#file.size())
    this.#frameCount = 0
    this.#shared.publishSegmentBase(this.#replica, base)
    this.#options.notify({ kind: 'opened', base })
  }

  #seal(): void {
    if (this.#file === null) return
    this.#flush()
    const footer = encodeSegmentFooter({
      frameCount: this.#frameCount,
      logId: this.#shared.logId,
      end: this.#end,
      epoch: this.#epoch,
      lastHeaderCrc: this.#chain,
      base: this.#base,
    })
    this.#file.writev([footer], this.#end - this.#base)
    this.#file.truncate(this.#end - this.#base + SEGMENT_FOOTER_BYTES)
    this.#sync()
    this.#shared.publishWritten(this.#replica, this.#end)
    this.#shared.publishSynced(this.#replica, this.#end)
    this.#file.close()
    this.#file = null
    this.#options.notify({ kind: 'sealed', base: this.#base, end: this.#end })
    this.#wakeMain()
  }

  #writeMark(): void {
    const position = this.#shared.synced(this.#replica)
    if (position === this.#mark.position) return
    this.#mark.write({ epoch: this.#shared.epoch, position, begin: this.#mark.begin })
  }

  #refreshSpace(): void {
    this.#spaceBytes = 0
    this.#spaceMs = this.#options.nowMs()
    this.#requireDirectory()
    if (this.#space.bytes < 2 * this.#options.reserveBytes) removeSpares(this.#files, this.#segments)
    this.#space.publish()
  }

  /**
   * Throws when the directory, which was made at the start, is gone: then what was stored is gone too, and a new directory would only hide that.
   * Writes to the open file do not fail then.
   */
  #requireDirectory(): void {
    const needed = this.#file === null ? this.#segments : this.#recordsPath()
    if (!this.#files.exists(needed)) throw new StoreError('unavailable', 'ENOENT', `${needed} is gone`)
  }

  #wakeMain(): void {
    if (this.#shared.claimWake()) this.#options.notify({ kind: 'progress' })
  }

  /** J3 */
  #fail(error: unknown): void {
    this.#failed = true
    this.#shared.dropReplica(this.#replica)
    while (this.#ring.next() >= 0);
    this.#ring.release()
    const isFull = isFullDisk(error) && !this.#isSyncing
    const showsRoom = isFull && this.#showsRoom()
    this.#options.notify({ kind: 'failed', code: errorCode(error), message: messageOf(error), isFull, showsRoom })
    this.#wakeMain()
  }

  #showsRoom(): boolean {
    try {
      return this.#files.freeBytes(this.#options.directory) >= FINISH_RESERVE_BYTES
    } catch {
      return false
    }
  }

  #recordsPath(): string {
    return `${this.#segments}/${segmentName(this.#base)}/${RECORDS_NAME}`
  }
}

const PADDING = Buffer.alloc(8)

const NO_ARENA = new Uint8Array(0)

/** The journal a task describes, and the ring it takes frames from. */
export function journalOf(
  task: JournalTask,
  world: Pick<JournalOptions, 'files' | 'nowMs' | 'notify'>,
): { journal: Journal; ring: SpscRing } {
  const ring = SpscRing.attach(task.ring)
  const arena = task.arena === null ? NO_ARENA : new Uint8Array(task.arena)
  return { journal: new Journal({ ...task, ...world, ring, arena, shared: LogShared.attach(task.shared) }), ring }
}
