/**
 * Keeps the log in order. It ends a segment that would take long to read again, and aborts abandoned uploads. When too much of the log is garbage, it
 * moves what lives in the oldest segment behind the end of the log, and drops the segment: the log is a circle that is cleaned from its oldest end.
 *
 * An object is moved by writing it again. Readers at its old place continue there, as segments that are being read stay (`oldestRead`).
 *
 * M2  cleaning begins, and stops, as engine/cleaning.ts says
 * M3  a segment is dropped when all that lived in it is durable at its new place, and a checkpoint holds what its other frames said
 * M4  a damaged frame is not moved and does not stop the cleaning: there is an incident, and reading the frame stays an error
 * M5  where only the lack of a checkpoint keeps a segment from being dropped, one is written
 * M6  in a cluster only the leader moves what lives, by ordinary frames, and says in a frame up to where it has (state S4). Each node drops its
 *     segments by itself: when a checkpoint of its own covers them, and no cut of its log can take that frame away
 * M7  in a cluster a leader does not clean a segment that is damaged on its disk, nor any behind it: other nodes have it whole, and would drop it
 */
import type { SegmentInfo } from '../../log/log.ts'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import type { Checkpoints } from '../../engine/checkpoints.ts'
import { Cleaning } from '../../engine/cleaning.ts'
import type { Upkeep } from '../../engine/upkeep.ts'
import { Rounds } from '../../pipeline/rounds.ts'
import type { Core } from './core.ts'
import type { CheckpointPlan } from './checkpoint-plan.ts'
import { ExtentListBuilder } from './extent-list.ts'
import type { ExtentList } from './extent-list.ts'
import { commitFrameBytes } from './frames.ts'
import type { ScanTask, ScannedFrame, ScannedPart } from './scan-segment.ts'
import type { BodyTarget } from '../operations.ts'
import { S3Error } from '../refusals.ts'
import { extentsOf } from './state.ts'
import type { PartState, UploadState } from './state.ts'
import { partFrame } from './store.ts'
import type { Store } from './store.ts'

/** Frames that are moved at a time: so many share a sync, and the memory between main and the disk stays free for PUTs. */
const MOVED_AT_ONCE = 16
/** Completing an upload again gives the same answer for so long. */
const COMPLETED_KEPT_MS = 24 * 3600 * 1000

export interface CleanerParts {
  readonly core: Core
  readonly store: Store
  readonly checkpoints: Checkpoints
  readonly plan: CheckpointPlan
  readonly segmentBytes: number
  readonly uploadTtlMs: number
  readonly scan: (task: ScanTask) => Promise<ScannedPart>
}

export class Cleaner implements Upkeep {
  readonly #parts: CleanerParts
  readonly #rounds = new Rounds((signal) => this.#enforce(signal))
  readonly #cleaning: Cleaning
  /** Position before which no frame is needed. In a cluster the state has it (M6). */
  #movedTo = 0
  /** By owner: commit sequence of an object that has no extent left in the segment that is being moved out. Its other frames need no look at it. */
  readonly #movedOut = new Map<string, number>()
  /** Parts that have no extent in that segment. */
  readonly #movedOutParts = new Set<PartState>()

  constructor(parts: CleanerParts) {
    this.#parts = parts
    this.#cleaning = new Cleaning(parts.core.log, parts.segmentBytes)
  }

  /** One round; nothing while the one before is under way. */
  enforce(): Promise<void> {
    return this.#rounds.run()
  }

  /** The same as `enforce`: its other work takes little time. */
  reclaim(): Promise<void> {
    return this.enforce()
  }

  /** Ends the round under way early. Resolves when it has ended. */
  close(): Promise<void> {
    return this.#rounds.close()
  }

  async #enforce(signal: AbortSignal): Promise<void> {
    const { core, plan } = this.#parts
    core.log.keepFree(plan.bytes) // M5
    if (!core.log.mayAnswer) return this.#followLeader()
    if (plan.isSegmentFull) core.appender.rotate()
    try {
      await this.#expireUploads(signal)
      await this.#clean(signal)
    } catch (error) {
      if (signal.aborted || !core.log.mayAnswer) return
      core.logger.warn({ reason: String(error) }, 'cleaning failed: it is tried again')
    }
  }

  /** M6. The clocks of nodes may differ, so the newest time in the log tells what is old. */
  #followLeader(): void {
    const { core, checkpoints } = this.#parts
    const { state } = core
    state.forgetCompleted(state.newestCompletedMs - COMPLETED_KEPT_MS)
    this.#drop()
    if (state.cleaned.before > checkpoints.position && this.#cleaning.isShortOfRoom) checkpoints.demand()
  }

  async #expireUploads(signal: AbortSignal): Promise<void> {
    const { core, store, uploadTtlMs } = this.#parts
    const nowMs = core.wallMs()
    core.state.forgetCompleted(nowMs - COMPLETED_KEPT_MS)
    const expired = [...core.state.uploads.values()].filter(({ initiatedMs }) => initiatedMs <= nowMs - uploadTtlMs)
    for (const upload of expired) {
      if (signal.aborted) return
      if (!core.state.uploads.has(upload.uploadId)) continue
      await store.abortUpload(upload)
      core.counters.uploadsExpired += 1
    }
  }

  async #clean(signal: AbortSignal): Promise<void> {
    const { core, checkpoints } = this.#parts
    if (signal.aborted) return
    this.#drop()
    for (let oldest = this.#oldest(); oldest && this.#isDue(); oldest = this.#oldest()) {
      if (oldest.end > this.#parts.store.bodies.oldestExtent) return
      if (!oldest.sealed || oldest.end > checkpoints.position) return this.#demandCheckpoint()
      if (this.#isWholeElsewhere(oldest)) return
      this.#cleaning.begin(core.state.liveBytes)
      if (!(await this.#moveOut(oldest, signal)) || this.#isWholeElsewhere(oldest)) return this.#cleaning.giveUp()
      if (core.log.cluster === null) this.#movedTo = oldest.end
      else await this.#sayCleaned(oldest.end)
      this.#cleaning.movedTo(oldest.end)
      core.counters.segmentsCleaned += 1
      this.#drop()
    }
  }

  /** The oldest segment that is not moved yet. */
  #oldest(): SegmentInfo | undefined {
    const { log, state } = this.#parts.core
    const movedTo = Math.max(this.#movedTo, state.cleaned.before)
    return log.segments.find(({ end }) => end > movedTo)
  }

  /** M7 */
  #isWholeElsewhere({ base, end }: SegmentInfo): boolean {
    const { log } = this.#parts.core
    return log.cluster !== null && log.incidents.some(({ from, to }) => from < end && to > base)
  }

  /** M2 */
  #isDue(): boolean {
    const oldest = this.#oldest()
    return oldest !== undefined && this.#cleaning.isDue(oldest.base, this.#parts.core.state.liveBytes)
  }

  /** M5. With room on the disk, a checkpoint is not written more often than the growth of the log asks for. */
  async #demandCheckpoint(): Promise<void> {
    const { core, checkpoints, plan } = this.#parts
    if (this.#cleaning.isShortOfRoom) {
      if (core.log.roomFor('finish') < plan.bytes)
        throw new Error(
          'the disk is too full to write a checkpoint, without which no segment can be removed: make room',
        )
      checkpoints.demand()
    }
    if (!checkpoints.isDue(core.appender.tail)) return
    core.appender.rotate()
    // In a cluster a segment ends only with the frame that opens the next one.
    if (core.log.cluster !== null) await this.#sayCleaned(core.state.cleaned.before)
  }

  /** M6 */
  async #sayCleaned(before: number): Promise<void> {
    const { core } = this.#parts
    await core.store(core.changeFrame({ kind: 'log_cleaned', before, at_ms: core.wallMs() }, 'finish'))
  }

  /** M3, M6 */
  #drop(): void {
    const { core, store, checkpoints } = this.#parts
    const { log, state } = core
    const { before, saidAt } = state.cleaned
    const mayBeCut = log.cluster !== null && log.cluster.anchored <= saidAt
    const movedTo = mayBeCut ? 0 : Math.max(this.#movedTo, before)
    const position = Math.min(movedTo, checkpoints.position, store.bodies.oldestExtent, store.objects.oldestRead)
    log.dropBefore(position)
  }

  /** False when it ended early, or frames were lost meanwhile: what was not needed may be needed again. */
  async #moveOut(segment: SegmentInfo, signal: AbortSignal): Promise<boolean> {
    const { core, scan } = this.#parts
    const { state } = core
    const { base, end, recordsPath } = segment
    this.#movedOut.clear()
    this.#movedOutParts.clear()
    for (let from = base; from < end;) {
      const { frames, damage, next } = await scan({ kind: 'scan', logId: core.log.id, base, from, end, recordsPath })
      for (const range of damage) core.log.reportDamage(segment, range)
      const living = frames.filter((frame) => this.#mayLive(frame))
      for (let at = 0; at < living.length; at += MOVED_AT_ONCE) {
        if (signal.aborted) return false
        const owners = Map.groupBy(living.slice(at, at + MOVED_AT_ONCE), ownerOf)
        await Promise.all(Array.from(owners.values(), (ofOwner) => this.#moveInTurn(ofOwner, segment)))
      }
      if (signal.aborted) return false
      from = next
    }
    await core.appender.settled()
    return core.state === state
  }

  /** False for a frame whose object was replaced, as most are. This can be decided early, as such a frame never lives again. */
  #mayLive({ bucket, key, position, uploadId, isExtent }: ScannedFrame): boolean {
    if (isExtent || uploadId !== null) return true
    return this.#parts.core.state.index.get(bucket, Buffer.from(key))?.position === position
  }

  /** Moves the frames of one owner: with the first of them the others move. */
  async #moveInTurn(frames: readonly ScannedFrame[], segment: SegmentInfo): Promise<void> {
    const { core } = this.#parts
    for (const frame of frames) {
      // Reading and writing take time: by then the owner may be another object, or an object instead of a part.
      for (let isMoved = false; !isMoved;) {
        const upload = frame.uploadId === null ? undefined : core.state.uploads.get(frame.uploadId)
        const part = upload?.parts.get(frame.partNumber)
        isMoved =
          upload && part && this.#isToBeMoved(part, segment)
            ? await this.#movePart(upload, part, segment)
            : await this.#moveObject(frame, segment)
      }
    }
  }

  /** True when the frame is not needed where it is: it was moved, or another object has its key now. All extents in the segment move together. */
  async #moveObject(frame: ScannedFrame, segment: SegmentInfo): Promise<boolean> {
    const { core, store } = this.#parts
    const { bucket, key, position, isExtent } = frame
    const keyBytes = Buffer.from(key)
    const value = core.state.index.get(bucket, keyBytes)
    if (value === null || (!isExtent && value.position !== position)) return true
    if (isExtent && this.#movedOut.get(ownerOf(frame)) === value.commitSequence) return true
    if (value.position >= core.log.committed) {
      await core.appender.settled()
      return false
    }
    const loaded = await unlessDamaged(store.objects.load(value, keyBytes.byteLength))
    if (loaded === null) return true
    const { content } = loaded.frame
    if (isExtent && !hasExtentIn(segment, extentsOf(content))) {
      this.#movedOut.set(ownerOf(frame), value.commitSequence)
      return true
    }
    const owner = core.state.bucketOf(bucket)
    if (owner === null) return true
    const target = { bucket: owner, key, upload: null }
    this.#demandMove(commitFrameBytes(loaded.frame))
    const moved = 'inline' in content ? content : { extents: await this.#moveExtents(content.extents, segment, target) }
    if ((await store.rewrite(loaded, loaded.details, moved, 'finish')) === null) return false
    this.#movedOut.set(ownerOf(frame), value.commitSequence)
    return true
  }

  /** True while the part has extents in the segment: these move together. */
  #isToBeMoved(part: PartState, segment: SegmentInfo): boolean {
    if (this.#movedOutParts.has(part)) return false
    if (hasExtentIn(segment, part.extents)) return true
    this.#movedOutParts.add(part)
    return false
  }

  /** False when the part was replaced meanwhile, or its upload has ended. */
  async #movePart(upload: UploadState, part: PartState, segment: SegmentInfo): Promise<boolean> {
    const { core } = this.#parts
    const { uploadId, bucketNumber, key } = upload
    const bucket = core.state.bucketOf(bucketNumber)
    if (bucket === null) return true
    const { partNumber, size, lastModifiedMs, etag, checksum } = part
    const target = { bucket, key: key.toString(), upload: { uploadId, partNumber } }
    const extents = await this.#moveExtents(part.extents, segment, target)
    if (core.state.uploads.get(uploadId)?.parts.get(partNumber) !== part) return false
    const details = Buffer.from(JSON.stringify({ checksum: checksum.value }))
    const about = { bucket: bucketNumber, key, partNumber, size, lastModifiedMs, etag, uploadId, details }
    const frame = { ...about, commitSequence: 0, flags: 0, content: { extents } }
    this.#demandMove(commitFrameBytes(frame))
    await core.store(partFrame(frame, 'finish'))
    const moved = core.state.uploads.get(uploadId)?.parts.get(partNumber)
    if (moved !== undefined) this.#movedOutParts.add(moved) // except for damaged extents (M4)
    return true
  }

  async #moveExtents(extents: ExtentList, { base, end }: SegmentInfo, target: BodyTarget): Promise<ExtentList> {
    const { core, store } = this.#parts
    const moved = new ExtentListBuilder(extents.length)
    let done = 0
    for (let i = extents.nextWithin(base, end, 0); i >= 0; i = extents.nextWithin(base, end, i + 1)) {
      const bytes = await unlessDamaged(store.objects.extent(extents.at(i)))
      if (bytes === null) continue
      const frame = store.bodies.extentFrame(bytes, target, 'finish')
      this.#demandMove(frame.payloadBytes)
      moved.addAll(extents.between(done, i))
      moved.add({ position: await core.store(frame), bytes: bytes.byteLength })
      done = i + 1
    }
    moved.addAll(extents.between(done, extents.length))
    return moved.list
  }

  /** Throws when the store closes, or the disk lacks room. Called before every append: on a slow disk the rest of a round would outlast the closing. */
  #demandMove(payloadBytes: number): void {
    this.#rounds.signal.throwIfAborted()
    this.#cleaning.demandRoomToMove(frameBytes(payloadBytes))
  }
}

const hasExtentIn = ({ base, end }: SegmentInfo, extents: ExtentList): boolean => extents.nextWithin(base, end, 0) >= 0

const ownerOf = ({ bucket, key }: ScannedFrame): string => `${bucket}/${key}`

/** M4. Null: it is damaged. @throws S3Error when it could not be read now */
async function unlessDamaged<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof S3Error && error.code === 'InternalError' && !error.retryable) return null
    throw error
  }
}
