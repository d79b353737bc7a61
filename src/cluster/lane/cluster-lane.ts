/**
 * The lane of a cluster: drives the state machine of one log on its stream, on a thread of its own. While this node leads, frames come from the log's
 * ring; frames of another leader go to main. It starts no thread and opens no stream: `workers/cluster.ts` does.
 *
 * M1  the confirmed position and the end of the lease are in the log's shared words before main is woken
 * M2  frames are offered only when main has begun to lead, and only those of the log's generation in which it began. All other frames in the ring were
 *     appended after the lead of this node had ended
 * M3  an anchor is written only after the log is synced up to it
 * M4  a leader takes no more frames while its anchor is far behind: if its log loses what is behind the anchor, the stream must still have it
 * M5  a leader whose disk is full hands over to a follower that has room. If there is none, it keeps the lead: it still takes what finishes something
 */
import { isDeepStrictEqual } from 'node:util'
import { FULL_BELOW_BYTES, ROOM_AGAIN_BYTES } from '../../log/caretaker.ts'
import { isFullDisk } from '../../log/files.ts'
import type { Files } from '../../log/files.ts'
import { LogShared, PRODUCER_OK } from '../../log/log-shared.ts'
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { framesOf, messagesOf } from '../groups.ts'
import type { Anchor } from '../history.ts'
import { LOG_BEGIN } from '../message.ts'
import type { LogPlace } from '../message.ts'
import type { ClusterTimes } from '../node.ts'
import type { NatsStream } from '../nats/nats-stream.ts'
import { Session } from '../nats/session.ts'
import type { LogAction, SessionParts } from '../nats/session.ts'
import { readAnchor, writeAnchor } from './anchor-file.ts'
import { AnchorsAhead } from './anchors-ahead.ts'
import { Gathering } from './gathering.ts'
import type { Pause } from './gathering.ts'
import { LaneMeasures } from './measures.ts'
import type { OtherNodes } from './other-nodes.ts'
import type { FromLane, LaneTaskData, NodeStatus, ToLane } from './protocol.ts'
import { RingFrames } from './ring-frames.ts'

export interface LaneParts {
  readonly stream: Pick<NatsStream, 'publish' | 'lookUp' | 'follow' | 'ends' | 'logId' | 'bodyBytesMax' | 'sendToNodes'>
  readonly data: Pick<LaneTaskData, 'node' | 'leaseMs' | 'url' | 'peerUrl' | 'directory' | 'arena' | 'measures'> & {
    readonly settings: Pick<LaneTaskData['settings'], 'keepBytes'>
  }
  readonly nodes: OtherNodes
  readonly files: Files
  /** Its `nowMs` is the same in all threads of the process. */
  readonly clock: SessionParts['clock']
  readonly random: () => number
  readonly tell: (message: FromLane, transfer?: ArrayBuffer) => void
}

/** Messages in flight. Frames that come meanwhile are the next group. */
const IN_FLIGHT_MAX = 3
const IN_FLIGHT_BYTES_MAX = 8 << 20
/** Bytes of frames that main has not applied yet. */
const WINDOW_BYTES_MAX = 32 << 20
const ANCHOR_MS = 1000
const STATUS_MS = 1000
/** M5. A node that has said nothing for so long may be gone. */
const SILENT_MS = 3 * STATUS_MS
const IDLE_MS = 250

/** The times of the protocol follow from the lease. */
const timesOf = (leaseMs: number): ClusterTimes => ({
  leaseMs,
  followMs: 1.5 * leaseMs,
  spreadMs: leaseMs / 4,
  beatMs: leaseMs / 5,
  ackMs: leaseMs / 4,
  lookMs: leaseMs / 4,
  pauseMs: 20,
})

export class ClusterLane {
  readonly #parts: LaneParts
  readonly #shared: LogShared
  readonly #ring: SpscRing
  readonly #frames: RingFrames
  readonly #gathering = new Gathering()
  readonly #session: Session
  readonly #nodes: OtherNodes
  readonly #measures: LaneMeasures
  /** M2. Generation of the log whose frames are offered; null: none are. */
  #generation: number | null = null
  #offeredEnd: LogPlace = LOG_BEGIN
  #windowBytes = 0
  /** Frames of another leader, which go to main together, when the session is done with all messages that came at once. */
  #frameBytes: Uint8Array[] = []
  /** M3. Anchors to write when the log is synced up to them, and the one that was written last. */
  readonly #ahead: AnchorsAhead
  #anchor: Anchor
  #anchorDueMs = 0
  #statusDueMs = 0
  #leaseUntilMs = -1
  #handOver: { readonly successor: string | null } | null = null
  #isRecovering = false
  #isGathering = false
  #isClosed = false
  /** Ends the wait of `run` for room to offer more. */
  #roomCame: (() => void) | null = null

  constructor(parts: LaneParts, { log, anchor }: Extract<ToLane, { readonly kind: 'join' }>) {
    const { data, stream, nodes, clock, random } = parts
    this.#parts = parts
    this.#shared = LogShared.attach(log.shared)
    this.#ring = SpscRing.attach(log.ring)
    this.#frames = new RingFrames(this.#ring, new Uint8Array(data.arena ?? new ArrayBuffer(0)))
    this.#nodes = nodes
    this.#measures = LaneMeasures.attach(data.measures)
    this.#measures.setInFlight(0, 0)
    this.#anchor = anchor
    this.#ahead = new AnchorsAhead(anchor)
    if (!isDeepStrictEqual(readAnchor(parts.files, data.directory), anchor))
      writeAnchor(parts.files, data.directory, anchor)
    this.#shared.publishAnchored(anchor.end.position)
    this.#shared.publishConfirmed(anchor.end.position)
    this.#session = new Session({
      stream,
      writer: nodes.writer,
      times: timesOf(data.leaseMs),
      anchor,
      clock,
      random,
      onChange: () => this.#onChange(),
      act: (action) => this.#act(action),
      measures: this.#measures,
    })
  }

  /** Ends when `close` was called. */
  async run(): Promise<void> {
    while (!this.#isClosed) {
      await this.#ring.messageCame(IDLE_MS)
      await this.#gather()
      if (this.#isClosed) return
      if (!this.step()) await this.#room()
    }
  }

  /** Waits as long as it is worth waiting for more frames. */
  async #gather(): Promise<void> {
    for (let { pause } = this; pause !== null && !this.#isClosed; { pause } = this) {
      this.#isGathering = true
      await this.#ring.bytesCame(pause.bytes, pause.ms)
      this.#isGathering = false
    }
  }

  /** How long the frames in the ring wait for more; null: `step` is due. */
  get pause(): Pause | null {
    return this.#generation === null ? null : this.#gathering.pause(this.#ring.usedBytes, this.#parts.clock.nowMs())
  }

  /** Offers the frames in the ring, and does what is due. @returns false: there is no room for them */
  step(): boolean {
    const isOffered = this.#offer()
    this.#tick()
    return isOffered
  }

  receive(message: ToLane): void {
    switch (message.kind) {
      case 'begun':
        if (this.#session.node.takesFrames && this.#session.node.epoch === message.epoch)
          this.#generation = message.generation
        break
      case 'applied':
        this.#windowBytes -= message.bytes
        this.#confirmed(this.#session.node.confirmed.position) // published before, but main may have cut its log since
        if (this.#windowBytes < WINDOW_BYTES_MAX / 2) this.#session.resume()
        break
      case 'caught up':
        this.#isRecovering = false
        this.#anchor = message.anchor
        this.#ahead.reached(message.anchor)
        this.#session.caughtUp(message.anchor)
        break
      case 'hand over':
        // The lead that was meant may be over already: the request must not end the next one.
        if (this.#session.node.role === 'leading') this.#handOver = { successor: message.successor }
        break
      case 'give up the lead':
        this.#session.stepDown(message.reason)
        break
      case 'join':
    }
    this.#ring.wake()
    this.#letOffer()
  }

  close(): void {
    this.#isClosed = true
    this.#shared.publishLease(0)
    this.#writeAnchor()
    this.#session.close()
    this.#measures.setInFlight(0, 0)
    this.#ring.wake()
    this.#letOffer()
  }

  /** @returns false: there is no room for the frames in the ring */
  #offer(): boolean {
    const generation = this.#generation
    if (this.#session.node.role !== 'leading') {
      while (this.#ring.next() >= 0);
      this.#frames.release() // M2
      return true
    }
    if (generation === null || !this.#hasRoom()) return false
    const { bodyBytesMax } = this.#parts.stream
    const frames = this.#frames.take(generation, bodyBytesMax)
    const ring = this.#ring.bytes.buffer
    for (const message of messagesOf(frames, this.#offeredEnd, bodyBytesMax)) {
      const body = message.body.buffer === ring ? Buffer.from(message.body) : message.body
      this.#session.offer({ ...message, body })
    }
    this.#offeredEnd = frames.at(-1)?.end ?? this.#offeredEnd
    this.#shared.publishLaneTaken(this.#offeredEnd.position)
    if (frames.length > 0) this.#gathering.offered(frames.length, this.#ring.takenBytes, this.#parts.clock.nowMs())
    this.#frames.release()
    return true
  }

  /** M4 */
  #hasRoom(): boolean {
    const { node } = this.#session
    if (!node.takesFrames) return false
    const aheadBytes = this.#offeredEnd.position - this.#anchor.end.position
    if (aheadBytes > this.#parts.data.settings.keepBytes / 4) return false
    return node.inFlight < IN_FLIGHT_MAX && node.inFlightBytes < IN_FLIGHT_BYTES_MAX
  }

  #room(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(IDLE_MS, () => this.#letOffer())
      this.#roomCame = () => {
        cancel()
        resolve()
      }
    })
  }

  #letOffer(): void {
    const came = this.#roomCame
    this.#roomCame = null
    came?.()
  }

  #act(action: LogAction): void {
    const { tell } = this.#parts
    if (action.kind === 'apply') return this.#apply(action)
    this.#tellFrames()
    switch (action.kind) {
      case 'confirmed':
        return this.#confirmed(action.end.position)
      case 'lead':
        this.#offeredEnd = action.end
        this.#statusDueMs = 0
        return tell({ kind: 'lead', epoch: action.epoch, end: action.end })
      case 'step down':
        this.#generation = null
        this.#handOver = null
        this.#shared.publishLease(0) // M1
        this.#ahead.await(action.end.position)
        this.#statusDueMs = 0
        return tell({ kind: 'step down', end: action.end, reason: action.reason })
      case 'catch up':
        this.#isRecovering = true
        return tell({ kind: 'catch up' })
      case 'stop':
        this.#isRecovering = true
        return tell({ kind: 'stop', reason: action.reason })
    }
  }

  #apply({ bodies, begin, end }: Extract<LogAction, { readonly kind: 'apply' }>): void {
    const { stream } = this.#parts
    const { epoch } = this.#session.node
    const frames = framesOf(bodies, { begin, end }, { logId: stream.logId, epoch })
    if (typeof frames === 'string') {
      this.#session.close()
      this.#tellFrames()
      return this.#parts.tell({ kind: 'stop', reason: `a message of the stream is damaged: ${frames}` })
    }
    for (const frame of frames) this.#windowBytes += frame.bytes.byteLength
    this.#frameBytes.push(...bodies)
    if (this.#windowBytes > WINDOW_BYTES_MAX) this.#session.pause()
    this.#shared.publishConfirmed(end.position)
  }

  #tellFrames(): void {
    if (this.#frameBytes.length === 0) return
    const bytes = new Uint8Array(this.#frameBytes.reduce((sum, each) => sum + each.byteLength, 0))
    let at = 0
    for (const each of this.#frameBytes) {
      bytes.set(each, at)
      at += each.byteLength
    }
    this.#frameBytes = []
    this.#parts.tell({ kind: 'frames', bytes }, bytes.buffer)
  }

  #confirmed(position: number): void {
    const shared = this.#shared
    const committedBefore = shared.committed()
    shared.publishConfirmed(position)
    const isForJournal = shared.leads && shared.committed() === committedBefore // journal J6
    if (!isForJournal && shared.claimWake()) this.#parts.tell({ kind: 'progress' })
  }

  /** M1 */
  #onChange(): void {
    this.#tellFrames()
    const { leaseUntilMs, anchor, inFlight, inFlightBytes } = this.#session.node
    this.#measures.setInFlight(inFlight, inFlightBytes)
    if (inFlightBytes === 0 && this.#gathering.isInFlight) {
      this.#gathering.allSettled(this.#ring.usedBytes, this.#parts.clock.nowMs())
      if (this.#isGathering) this.#ring.wake()
    }
    this.#ahead.add(anchor)
    if (leaseUntilMs !== this.#leaseUntilMs) {
      this.#leaseUntilMs = leaseUntilMs
      this.#shared.publishLease(leaseUntilMs)
    }
    if (this.#roomCame !== null && (this.#hasRoom() || this.#session.node.role !== 'leading')) this.#letOffer()
  }

  #tick(): void {
    const nowMs = this.#parts.clock.nowMs()
    if ((this.#ahead.isAwaited || nowMs >= this.#anchorDueMs) && this.#writeAnchor())
      this.#anchorDueMs = nowMs + ANCHOR_MS
    if (nowMs >= this.#statusDueMs) {
      this.#statusDueMs = nowMs + STATUS_MS
      const own = this.#status()
      this.#parts.stream.sendToNodes(JSON.stringify(own))
      this.#parts.tell({ kind: 'nodes', own, ...this.#nodes.all })
      this.#handOverIfFull(nowMs)
    }
    this.#handOverIfAsked()
  }

  /** M5 */
  #handOverIfFull(nowMs: number): void {
    const isFull = this.#shared.producerState === PRODUCER_OK && this.#shared.roomFor('admit') < FULL_BELOW_BYTES
    if (!isFull || !this.#session.node.takesFrames) return
    const able = this.#nodes.all.others.filter(
      ({ role, hasRoom, atMs }) => role === 'follower' && hasRoom && nowMs - atMs <= SILENT_MS,
    )
    const [newest] = able.toSorted((one, other) => other.sequence - one.sequence)
    if (newest !== undefined) this.#handOver = { successor: newest.node }
  }

  /** Hands over once all frames in the ring were offered. */
  #handOverIfAsked(): void {
    if (this.#handOver === null || this.#generation === null || this.#ring.usedBytes > 0) return
    const { successor } = this.#handOver
    this.#handOver = null
    this.#session.handOver(successor)
  }

  /** M3. False: there is none to write now. */
  #writeAnchor(): boolean {
    const next = this.#ahead.newest(this.#shared.syncedHere())
    if (next === null) return false
    try {
      writeAnchor(this.#parts.files, this.#parts.data.directory, next)
    } catch (error) {
      if (!isFullDisk(error)) throw error
      return false // M4 bounds what comes meanwhile
    }
    this.#ahead.reached(next)
    this.#anchor = next
    this.#shared.publishAnchored(next.end.position)
    if (this.#shared.claimWake()) this.#parts.tell({ kind: 'progress' })
    return true
  }

  #status(): NodeStatus {
    const { node } = this.#session
    const { data } = this.#parts
    const isFollower = node.role === 'following' || node.role === 'standing'
    const role = node.role === 'leading' ? 'leader' : isFollower && !this.#isRecovering ? 'follower' : 'recovering'
    const { epoch, sequence, confirmed } = node
    return {
      node: data.node,
      writer: this.#nodes.writer,
      role,
      epoch,
      sequence,
      // A follower keeps reading the stream while main waits for room on its disk.
      position: Math.min(confirmed.position, this.#shared.syncedHere()),
      url: data.url,
      peerUrl: data.peerUrl,
      hasRoom: this.#shared.roomFor('admit') >= ROOM_AGAIN_BYTES,
    }
  }
}
