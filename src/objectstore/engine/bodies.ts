/**
 * Bodies on their way in.
 *
 *   small   up to INLINE_BYTES_MAX: held in memory, digested here with others of its turn, stored in the frame that commits it
 *   large   copied into the arena, extent by extent; a lane digests each, then it is appended to the log. What commits it lists them
 *
 * B1  the arena's block of an extent is freed when the log has taken the extent (`Log.released`), or when it is given up before
 * B2  a body that waits for space has given what it had in the arena to the log, so that others can continue
 * B3  a body that failed stays failed, for its first reason: its extents are garbage, and nothing commits it
 * B4  as long as a body is open, no segment that it has extents in is dropped: `oldestExtent`
 * B5  while a quarter of the arena or less is free, writes have to wait: that quarter is for bytes that are already on their way. Then
 *     they go on in their order, in each turn of the event loop no more of them than there is room for
 * B6  in a cluster a body ends with the lead in which it began: another leader does not know it, and may clean the segments of its extents
 * B7  an extent has a quarter of a block at least, unless it is the last of its body. This bounds the extents of an object, however many bodies come at
 *     a time, and however slowly. So a body gets a block only when so many of its bytes are here, or all that will come
 */
import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import type { Log } from '../../log/log.ts'
import type { BodyDigest, DigestPlan } from '../bodies/body-digests.ts'
import { WholeDigests } from '../bodies/whole-digests.ts'
import type { BodyTarget, BodyWriter } from '../operations.ts'
import { notLeading, refuse } from '../refusals.ts'
import type { NewFrame } from '../../engine/decision.ts'
import { FrameLost } from '../../engine/appender.ts'
import { notStored } from './core.ts'
import type { Core } from './core.ts'
import type { DigestBody } from '../bodies/digest-lanes.ts'
import { ExtentList, ExtentListBuilder } from './extent-list.ts'
import { FRAME_EXTENT, encodeExtentHead } from './frames.ts'
import type { Change, Content } from './frames.ts'
import { HeldBytes } from './held-bytes.ts'
import { Received } from './received.ts'
import type { RunReads } from './run-reads.ts'
import { SharedCopies } from './shared-copies.ts'
import { INLINE_BYTES_MAX, SmallBody } from './small-body.ts'
import { COPIED_BODY_BYTES_MIN, WrittenRuns } from './written-runs.ts'

/** Extents of one body in the arena: one that fills, and others on their way to the disk. */
const EXTENTS_AT_ONCE_MAX = 6
/** Room that a write needs: more than one read of a connection brings (http/receive-buffer.ts). */
const EXTENTS_PER_WRITE = 2
/** B5 */
const RESERVED_PART = 1 / 4
/** B7 */
const EXTENT_PART_MIN = 1 / 4
const NO_BYTES = Buffer.alloc(0)

/** An extent that was appended. */
interface Appended {
  readonly end: number
  /** Generation of the log. */
  readonly generation: number
  readonly offset: number
}

export class Bodies {
  readonly core: Core
  /** Digests of small bodies. */
  readonly small: WholeDigests
  readonly copies = new SharedCopies()
  /** Length of a block of the arena, and of the longest extent. */
  readonly extentBytes: number
  /** B7 */
  readonly extentBytesMin: number
  readonly #runs: RunReads
  readonly #open = new Set<LargeBody>()
  readonly #waiting = new Set<LargeBody>()
  /** B5, in the order in which they began to wait. */
  readonly #stopped = new Set<LargeBody>()
  #isResuming = false
  /** Extents that the log may still read in the arena, in its order. */
  #appended: Appended[] = []

  constructor(core: Core, runs: RunReads) {
    this.core = core
    this.#runs = runs
    this.small = new WholeDigests(core.defer)
    this.extentBytes = core.arena.blockBytes
    this.extentBytesMin = EXTENT_PART_MIN * this.extentBytes
    core.log.onProgress(() => this.#giveBack(core.log))
    core.log.onStateChange(() => this.#giveBack(core.log))
  }

  receive(lengthBytes: number | null, plan: DigestPlan, target: BodyTarget): BodyWriter {
    const isLarge = lengthBytes !== null && lengthBytes > INLINE_BYTES_MAX
    if (!isLarge) return new SmallBody(this, lengthBytes, plan, target)
    const isCopied = lengthBytes >= COPIED_BODY_BYTES_MIN && target.upload === null // the runs of a part are not those of its object
    return this.large(plan, target, isCopied ? new WrittenRuns(this.#runs) : null)
  }

  large(plan: DigestPlan, target: BodyTarget, copies: WrittenRuns | null = null): LargeBody {
    const body = new LargeBody(this, plan, target, copies)
    this.#open.add(body)
    const { log } = this.core
    if (!log.mayAnswer) body.fail(notLeading(log.cluster?.leader ?? null)) // B6
    return body
  }

  /**
   * The content of a body as extents of the log. A body that is not in the log yet is written there by the frames `before`. The frame that makes it a part
   * is appended right behind them: so it is lost when the body is, and cleaning does not take the body for garbage before.
   */
  inExtents(
    { content }: Received,
    target: BodyTarget,
  ): { readonly before: readonly NewFrame<Change>[]; readonly content: Content } {
    if ('extents' in content) return { before: [], content }
    const bytes = content.inline.byteLength
    if (bytes === 0) return { before: [], content: { extents: ExtentList.EMPTY } }
    let position = 0
    const onTaken = (at: number): void => void (position = at)
    return {
      before: [{ ...this.extentFrame(content.inline, target, 'admit'), onTaken }],
      content: {
        // The position is known when the log has taken the frame before.
        get extents() {
          return ExtentList.of([{ position, bytes }])
        },
      },
    }
  }

  /** Makes a frame of its own for a piece of a body, from memory. */
  extentFrame(bytes: Buffer, target: BodyTarget, purpose: NewFrame<Change>['purpose']): NewFrame<Change> {
    const head = extentHeadOf(target)
    return {
      type: FRAME_EXTENT,
      payloadBytes: head.byteLength + bytes.byteLength,
      encode(into, at) {
        copyBytes(bytes, into, copyBytes(head, into, at))
      },
      purpose,
      durability: 'sync',
    }
  }

  /** B4. Infinity: there is none. */
  get oldestExtent(): number {
    let oldest = Infinity
    for (const body of this.#open) oldest = Math.min(oldest, body.oldestExtent)
    return oldest
  }

  /** B6. Fails all open bodies. None waits any more by then, so none takes a block that another one frees. */
  endAll(failure: Error): void {
    this.#waiting.clear()
    this.#stopped.clear()
    for (const body of this.#open) body.fail(failure)
  }

  // For the bodies

  /** @returns -1: no block is free now; `continueWithSpace` is called when one is */
  allocate(body: LargeBody): number {
    const offset = this.core.arena.allocate(this.extentBytes)
    if (offset >= 0) return offset
    this.#waiting.add(body)
    for (const other of this.#open) other.submitPart() // B2
    return -1
  }

  free(offset: number): void {
    this.core.arena.free(offset)
    for (const body of this.#waiting) {
      this.#waiting.delete(body)
      body.continueWithSpace()
      if (this.#waiting.has(body)) return
    }
    this.#resume()
  }

  /** How many more writes have room. */
  get #room(): number {
    const { arena } = this.core
    if (arena.usedBytes === 0) return Infinity // no block is in use that could be freed and wake a waiting write
    const reservedBytes = RESERVED_PART * arena.bytes.byteLength
    const freeBytes = arena.bytes.byteLength - arena.usedBytes
    return Math.floor((freeBytes - reservedBytes) / (EXTENTS_PER_WRITE * this.extentBytes))
  }

  /** True when the body has to wait; `resume` is called when it may continue. */
  mustStop(body: LargeBody): boolean {
    if (this.#room > 0) return false
    this.#stopped.add(body)
    body.submitPart() // B2
    return true
  }

  /** B5 */
  #resume(): void {
    if (this.#isResuming || this.#stopped.size === 0) return
    let room = this.#room
    if (room <= 0) return
    this.#isResuming = true
    this.core.defer(() => {
      this.#isResuming = false
      this.#resume()
    })
    for (const body of this.#stopped) {
      this.#stopped.delete(body)
      body.resume()
      if (--room === 0) return
    }
  }

  /** Frees the block when the log has released the extent that was appended last, which is in it. */
  freeWhenReleased(offset: number): void {
    const { log, appender } = this.core
    this.#appended.push({ end: appender.end, generation: log.generation, offset })
  }

  closed(body: LargeBody): void {
    this.#open.delete(body)
    this.#waiting.delete(body)
    this.#stopped.delete(body)
  }

  /** B1. The journals of a closed log read nothing more. A log that lost its quorum has journals that still write. */
  #giveBack(log: Log): void {
    const { released, generation } = log
    const isOver = log.state.kind === 'read-only' && !log.isWriting
    const isRead = (extent: Appended): boolean => extent.end > released && extent.generation === generation && !isOver
    const first = this.#appended.findIndex(isRead)
    const free = first < 0 ? this.#appended : this.#appended.slice(0, first)
    this.#appended = first < 0 ? [] : this.#appended.slice(first)
    for (const { offset } of free) this.free(offset)
  }
}

export class LargeBody implements BodyWriter {
  readonly #bodies: Bodies
  readonly #head: Buffer
  readonly #headCrc: number
  readonly #digest: DigestBody
  /** Where the extent that is being filled begins in the arena; -1: there is none. */
  #offset = -1
  #filled = 0
  /** Bytes for which there was no space, or that are too few for an extent (B7). */
  readonly #held = new HeldBytes()
  /** There was no space: `continueWithSpace` is called when there is. */
  #isWaiting = false
  /** Extents that were given to the lane and are not appended yet. */
  readonly #submitted: { readonly offset: number; readonly bytes: number }[] = []
  /** Extents in the arena, the one that is being filled included. */
  #inArena = 0
  readonly #extents = new ExtentListBuilder()
  readonly #copies: WrittenRuns | null
  #onDrain: (() => void) | null = null
  #isFull = false
  /** B5 */
  #isStopped = false
  #isFinishing = false
  /** Callbacks of `finish`: one of them is called, once. */
  #whole: { received(body: Received): void; failed(error: Error): void } | null = null
  #state: 'open' | 'failed' | 'closed' = 'open'
  /** B3 */
  #failure: Error | null = null

  constructor(bodies: Bodies, plan: DigestPlan, target: BodyTarget, copies: WrittenRuns | null) {
    this.#bodies = bodies
    this.#copies = copies
    this.#head = extentHeadOf(target)
    this.#headCrc = crc32(this.#head)
    this.#digest = bodies.core.digests.begin(plan, {
      updated: (payloadCrc) => this.#append(payloadCrc),
      finished: (digest) => this.#finished(digest),
      failed: () => this.fail(notKept()),
    })
  }

  get oldestExtent(): number {
    const { list } = this.#extents
    return list.length === 0 ? Infinity : list.at(0).position
  }

  write(bytes: Uint8Array): boolean {
    if (this.#state !== 'open') return true // the caller of `finish` gets the failure
    if (this.#isWaiting) this.#held.add(bytes)
    else this.#take(bytes)
    this.#isStopped ||= this.#inArena > 0 && this.#bodies.mustStop(this)
    this.#isFull = this.#isStopped || this.#isWaiting || this.#inArena >= EXTENTS_AT_ONCE_MAX
    return !this.#isFull
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener
  }

  finish(received: (body: Received) => void, failed: (error: unknown) => void): void {
    if (this.#state !== 'open') return failed(this.#failure ?? notKept())
    this.#whole = { received, failed }
    this.#isFinishing = true
    this.#endWhenGiven()
  }

  abandon(): void {
    this.close()
  }

  close(): void {
    this.#copies?.drop()
    this.#end('closed')
    this.#takeWhole()?.failed(notKept())
  }

  /** The object that it became is stored. */
  stored(position: number): void {
    this.#copies?.keep(position)
  }

  /** B3 */
  get failure(): Error | null {
    return this.#state === 'open' ? null : (this.#failure ?? notKept())
  }

  // For Bodies

  /** There is space again. */
  continueWithSpace(): void {
    this.#isWaiting = false
    this.#take(NO_BYTES)
    if (this.#isWaiting) return
    if (this.#isFinishing) this.#endWhenGiven()
    else this.#drained()
  }

  resume(): void {
    this.#isStopped = false
    this.#drained()
  }

  /** B2 */
  submitPart(): void {
    if (this.#offset >= 0 && this.#filled > 0) this.#submit()
  }

  /** Takes the held bytes, and then these. */
  #take(bytes: Uint8Array): void {
    const held = this.#held.take()
    this.#copy(held, held.byteLength + bytes.byteLength)
    this.#copy(bytes, this.#held.byteLength + bytes.byteLength)
  }

  /** Copies into the arena, and holds what may not be there yet. @param hereBytes bytes that wait for the arena, these included */
  #copy(bytes: Uint8Array, hereBytes: number): void {
    const { core, extentBytes } = this.#bodies
    const { arena } = core
    for (let at = 0; at < bytes.byteLength;) {
      if (this.#offset < 0 && !this.#begin(hereBytes - at)) {
        this.#held.add(bytes.subarray(at))
        return
      }
      const count = Math.min(extentBytes - this.#filled, bytes.byteLength - at)
      copyBytes(bytes.subarray(at, at + count), arena.bytes, this.#offset + this.#filled)
      this.#filled += count
      at += count
      if (this.#filled === extentBytes) this.#submit()
    }
  }

  #begin(hereBytes: number): boolean {
    if (this.#isWaiting || (hereBytes < this.#bodies.extentBytesMin && !this.#isFinishing)) return false // B7
    this.#offset = this.#bodies.allocate(this)
    this.#isWaiting = this.#offset < 0
    if (this.#isWaiting) return false
    this.#inArena += 1
    this.#filled = 0
    return true
  }

  #submit(): void {
    this.#submitted.push({ offset: this.#offset, bytes: this.#filled })
    this.#digest.update(this.#offset, this.#filled, this.#headCrc)
    this.#offset = -1
  }

  #takeWhole() {
    const whole = this.#whole
    this.#whole = null
    return whole
  }

  #endWhenGiven(): void {
    if (!this.#isWaiting) this.#take(NO_BYTES)
    if (this.#isWaiting) return
    if (this.#offset >= 0) this.#submit()
    this.#isFinishing = false
    this.#digest.finish()
  }

  #append(payloadCrc: number): void {
    const { core } = this.#bodies
    const extent = this.#submitted.shift()
    assert(extent !== undefined)
    const { offset, bytes } = extent
    const head = this.#head
    const frame: NewFrame<Change> = {
      type: FRAME_EXTENT,
      payloadBytes: head.byteLength,
      encode: (target, at) => void head.copy(target, at),
      external: { offset, bytes, payloadCrc },
      purpose: 'admit',
      durability: 'sync',
      onTaken: (position) => this.#extents.add({ position, bytes }),
    }
    const settled = (stored: boolean): void => void (stored || this.fail(notStored(new FrameLost())))
    const notTaken = core.engine.append(frame, { settled })
    if (notTaken !== null) {
      this.#free(offset)
      return this.fail(notStored(notTaken))
    }
    const { list } = this.#extents
    this.#copies?.add(list.at(list.length - 1), core.arena.bytes.subarray(offset, offset + bytes))
    this.#bodies.freeWhenReleased(offset)
    this.#inArena -= 1
    this.#drained()
  }

  #finished(digest: BodyDigest): void {
    this.#takeWhole()?.received(new Received(digest, { extents: this.#extents.list }, this))
  }

  #drained(): void {
    if (!this.#isFull || this.#isStopped || this.#isWaiting || this.#inArena >= EXTENTS_AT_ONCE_MAX / 2) return
    this.#isFull = false
    this.#onDrain?.()
  }

  /** B3 */
  fail(error: Error): void {
    if (this.#state !== 'open') return
    this.#failure = error
    this.#copies?.drop()
    this.#end('failed')
    this.#takeWhole()?.failed(error)
    if (this.#isFull) this.#onDrain?.()
  }

  /** Gives up what it has in the arena, and takes nothing more. The lane may still read blocks that others use by then: its results are not used. */
  #end(state: 'failed' | 'closed'): void {
    const wasOpen = this.#state === 'open'
    this.#state = state
    this.#bodies.closed(this)
    if (!wasOpen) return
    this.#digest.drop()
    this.#held.clear()
    const offsets = this.#submitted.splice(0).map(({ offset }) => offset)
    if (this.#offset >= 0) offsets.push(this.#offset)
    this.#offset = -1
    for (const offset of offsets) this.#free(offset)
  }

  #free(offset: number): void {
    this.#inArena -= 1
    this.#bodies.free(offset)
  }
}

/** What the frames of a body say of it, before its bytes. */
const extentHeadOf = ({ bucket, key, upload }: BodyTarget): Buffer =>
  encodeExtentHead({
    bucket: bucket.number,
    key: Buffer.from(key),
    uploadId: upload?.uploadId ?? null,
    partNumber: upload?.partNumber ?? 0,
  })

const notKept = (): Error => refuse('InternalError', 'The body could not be stored. Please try again.')
