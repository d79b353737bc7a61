/**
 * A node's membership in the cluster of one log, on main: starts the lane, applies the leader's frames to the log, begins and ends the lead.
 *
 *   opening ──► recovering ──► follower ◄──► leader
 *                    ▲             │           │
 *                    └─────────────┴───────────┘   the lane died, or the log restarted in place
 *
 * B1  messages of the lane are handled in their order, one after the other
 * B2  when this node begins to lead, and after it stepped down, its log ends where the lane says
 * B3  a log that loses its end without the lane's knowledge is cut to the anchor on the disk, and a new lane goes on from there: the stream delivers
 *     all confirmed frames behind it again
 */
import { StoreError, messageOf } from '../../errors.ts'
import type { ClusterOptions } from '../../log/cluster-part.ts'
import { readFormat } from '../../log/format.ts'
import type { Log } from '../../log/log.ts'
import { forgetLeftCluster, hasLeftCluster } from '../../log/outside-cluster.ts'
import type { Histogram } from '../../pipeline/histogram.ts'
import type { Anchor } from '../history.ts'
import { isSamePlace } from '../message.ts'
import type { LogPlace } from '../message.ts'
import { readAnchor } from '../lane/anchor-file.ts'
import { LaneMeasures } from '../lane/measures.ts'
import type { FromLane, ToLane } from '../lane/protocol.ts'
import { KnownNodes } from './known-nodes.ts'
import type { ClusterRole, MemberView } from './known-nodes.ts'
import type { MemberParts, MemberService, RunningLane } from './parts.ts'
import { PendingAsides } from './pending-asides.ts'

type LaneEvent = Extract<FromLane, { readonly kind: 'frames' | 'lead' | 'step down' | 'catch up' | 'stop' }>
type Stream = Extract<FromLane, { readonly kind: 'stream' }>

/** What metrics show besides the view. */
export interface MemberMeasures {
  /** How long this node may still answer without another acknowledgement. */
  readonly leaseLeftMs: number
  /** Null: the stream acknowledged no message of this node yet. */
  readonly acknowledgedMsAgo: number | null
  readonly inFlight: number
  readonly inFlightBytes: number
  readonly publishSeconds: Histogram
  readonly lostAcknowledgements: number
  readonly refusedPublishes: number
  readonly lookUps: number
  /** How often this node took each role. */
  readonly roleChanges: Readonly<Record<ClusterRole, number>>
  /** Bytes of the log that this node copied from other nodes. */
  readonly copiedBytes: number
}

const LOOK_MS = 20
/** Until a lane that died while it joined is replaced. */
const AGAIN_MS = 200
/** Least time between two joins: what ends each new lane at once, such as a failing disk, may go on for long. */
const JOINS_APART_MS = 1000
/** How long a node that closes waits for its resign message. */
const RESIGN_MS_MAX = 1500

export class ClusterMember {
  readonly #parts: MemberParts
  readonly #pendingAsides: PendingAsides
  readonly #nodes: KnownNodes
  #log: Log | null = null
  #service: MemberService | null = null
  #lane: RunningLane | null = null
  #joinAt: Anchor | null = null
  #stream: PromiseWithResolvers<Stream> = Promise.withResolvers<Stream>()
  /** Number of the lane in use: messages of earlier lanes are ignored. */
  #life = 0
  #events: LaneEvent[] = []
  #isWorking = false
  #isCutting = false
  #isResetting = false
  #isResetDue = false
  #joinedAtMs = -Infinity
  #isClosed = false
  #role: ClusterRole = 'recovering'
  readonly #measured = LaneMeasures.create()
  readonly #roleChanges: Record<ClusterRole, number> = { recovering: 0, follower: 0, leader: 0 }
  #copiedBytes = 0
  /** Number of the term that this node leads; 0: it leads none. */
  #term = 0
  #problem: string | null = null
  #awayReason: string | null = null

  constructor(parts: MemberParts) {
    this.#parts = parts
    this.#pendingAsides = new PendingAsides(parts.logger)
    const { cluster, node } = parts.settings
    this.#nodes = new KnownNodes({ cluster, node, nowMs: parts.nowMs })
  }

  /** What keeps this node from taking part. */
  get problem(): string | null {
    return this.#problem ?? this.#awayReason
  }

  get hasTwin(): boolean {
    return this.#nodes.hasTwin
  }

  /** What this node knows of the cluster at the moment. */
  get view(): MemberView {
    return this.#nodes.viewAs(this.#role)
  }

  get measures(): MemberMeasures {
    const { confirmedAtMs, inFlight, inFlightBytes, publishSeconds } = this.#measured
    const { lostAcknowledgements, refusedPublishes, lookUps } = this.#measured
    return {
      leaseLeftMs: this.#log?.cluster?.leaseLeftMs ?? 0,
      acknowledgedMsAgo: confirmedAtMs === 0 ? null : this.#parts.nowMs() - confirmedAtMs,
      inFlight,
      inFlightBytes,
      publishSeconds,
      lostAcknowledgements,
      refusedPublishes,
      lookUps,
      roleChanges: this.#roleChanges,
      copiedBytes: this.#copiedBytes,
    }
  }

  /**
   * Opens the log with the options that the cluster needs. For an empty directory, the id of the log comes from the stream.
   *
   * @param open opens the log with these options
   * @throws StoreError when a setting cannot work, or the log belongs to another cluster
   */
  async openLog(open: (options: ClusterOptions) => Promise<Log>): Promise<Log> {
    const { settings, nowMs, copy } = this.#parts
    copy.completeEarlier()
    let { own, anchor } = this.#found
    const isConverted = own !== null && anchor === null
    if (!isConverted) {
      this.#startLane(own, anchor)
      if (isBehind(await this.#stream.promise, anchor)) this.#copiedBytes += await copy.run(() => this.#nodes.peers)
      ;({ own, anchor } = this.#found)
    }
    const logId = own ?? (await this.#stream.promise).logId
    const log = await open({
      ack: settings.ack,
      logId,
      keepUpTo: anchor?.end.position ?? null,
      nowMs,
      onSetAside: (aside) => this.#pendingAsides.add(aside),
    })
    this.#log = log
    log.onStateChange(({ kind }) => {
      if (kind === 'restarting' && !this.#isCutting) void this.#reset('the log restarts in place')
      if (kind === 'read-only') this.#leave()
    })
    try {
      if (isConverted) this.#startLane(log.id, { end: log.cluster!.end, epoch: log.cluster!.epoch })
      this.#joinAt = await this.#settle(log, anchor)
    } catch (error) {
      await this.close()
      throw error
    }
    return log
  }

  /** The service is ready: the node follows the stream from here on. */
  join(service: MemberService): void {
    this.#service = service
    this.#become('follower')
    this.#joinedAtMs = this.#parts.nowMs()
    this.#post({ kind: 'join', log: this.#log!.cluster!.handle, anchor: this.#joinAt! })
  }

  /** Gives the lead to that node; null: to the first one that stands. */
  handOver(successor: string | null): void {
    this.#post({ kind: 'hand over', successor })
  }

  /** A node that leads resigns first, so that another one need not wait for the end of its lease. */
  async close(): Promise<void> {
    if (this.#term !== 0 && !this.#isClosed) await this.#resign()
    this.#isClosed = true
    this.#life += 1
    this.#events = []
    this.#become('recovering')
    const lane = this.#lane
    this.#lane = null
    await lane?.stop().catch(() => {})
  }

  async #resign(): Promise<void> {
    const untilMs = this.#parts.nowMs() + RESIGN_MS_MAX
    this.handOver(null)
    while (this.#term !== 0 && this.#parts.nowMs() < untilMs) await this.#turn(LOOK_MS)
  }

  /** Log id and anchor in the directory. */
  get #found(): { readonly own: number | null; readonly anchor: Anchor | null } {
    const { files, directory, segmentsName } = this.#parts
    return { own: readFormat(files, directory, segmentsName), anchor: readAnchor(files, directory) }
  }

  /** @param id of the log that is there; null: there is none yet */
  #startLane(id: number | null, ends: Pick<Anchor, 'end' | 'epoch'> | null): void {
    const { settings, directory, arena, startLane } = this.#parts
    this.#life += 1
    const life = this.#life
    this.#stream = Promise.withResolvers<Stream>()
    this.#stream.promise.catch(() => {})
    const { node, leaseMs, url, peerUrl, ack: _ack, ...stream } = settings
    const log = id === null || ends === null ? null : { id, end: ends.end, epoch: ends.epoch }
    this.#lane = startLane(
      { settings: stream, node, leaseMs, url, peerUrl, log, directory, arena, measures: this.#measured.shared },
      {
        onMessage: (message) => {
          if (life === this.#life) this.#heard(message)
        },
        onDeath: (error) => {
          if (life !== this.#life || this.#isClosed) return
          this.#parts.logger.error({ reason: messageOf(error) }, 'the lane of the cluster died')
          this.#lane = null
          this.#stream.reject(new StoreError('unavailable', 'cluster_lane_died', 'the lane of the cluster died'))
          void this.#reset('the lane of the cluster died')
        },
      },
    )
  }

  #post(message: ToLane): void {
    this.#lane?.post(message)
    this.#log?.cluster?.ring.wake()
  }

  /** Cuts the log to where the node joins: the anchor, or else the place where the stream begins. @returns that place. @throws StoreError */
  async #settle(log: Log, anchor: Anchor | null): Promise<Anchor> {
    const { begin } = await this.#stream.promise
    const { files, directory } = this.#parts
    const from = anchor ?? begin
    if (hasLeftCluster(files, directory) && !isSamePlace(log.cluster!.end, from.end)) throw outside(log)
    forgetLeftCluster(files, directory)
    if (log.cluster!.end.position > from.end.position) await this.#cutTo(log, from.end.position)
    if (!isSamePlace(log.cluster!.end, from.end)) throw differs(log, from.end)
    return from
  }

  async #cutTo(log: Log, position: number): Promise<void> {
    this.#isCutting = true
    try {
      await log.cutTo(position)
    } finally {
      this.#isCutting = false
    }
  }

  #heard(message: FromLane): void {
    switch (message.kind) {
      case 'progress':
        return this.#log?.noteProgress()
      case 'nodes':
        this.#nodes.update(message)
        return this.#nameLeader()
      case 'stream':
        this.#awayReason = null
        return this.#stream.resolve(message)
      case 'refused':
        return this.#stream.reject(new StoreError('invalid', message.code, message.message))
      case 'away':
        if (this.#awayReason === null)
          this.#parts.logger.warn({ reason: message.reason }, 'the cluster cannot be reached')
        this.#awayReason = message.reason
        return
      case 'step down':
        this.#endLead() // at once: the lease is over
        break
      default:
    }
    this.#events.push(message)
    if (!this.#isWorking) void this.#work()
  }

  /** B1 */
  async #work(): Promise<void> {
    this.#isWorking = true
    for (let event = this.#events.shift(); event; event = this.#events.shift()) {
      const life = this.#life
      try {
        await this.#do(event)
      } catch (error) {
        if (life === this.#life) this.#fail(error)
      }
    }
    this.#isWorking = false
  }

  async #do(event: LaneEvent): Promise<void> {
    switch (event.kind) {
      case 'frames':
        return this.#apply(Buffer.from(event.bytes.buffer))
      case 'lead':
        return this.#lead(event.epoch, event.end)
      case 'step down':
        return this.#stepDown(event.end, event.reason)
      case 'catch up':
        throw new StoreError(
          'unavailable',
          'cluster_behind',
          'the stream no longer has the next message that this node needs: restart this node, and it copies the log of another node',
        )
      case 'stop':
        throw new StoreError('corrupt', 'cluster_stopped', event.reason)
    }
  }

  async #apply(frames: Buffer): Promise<void> {
    const life = this.#life
    await this.#service!.follow(frames, () => life !== this.#life)
    if (life !== this.#life) return
    this.#pendingAsides.compareAll(frames)
    this.#post({ kind: 'applied', bytes: frames.byteLength })
  }

  /** B2 */
  async #lead(epoch: number, end: LogPlace): Promise<void> {
    const life = this.#life
    const log = this.#log!
    const cluster = log.cluster!
    if (!isSamePlace(cluster.end, end)) throw differs(log, end)
    while (log.written < end.position) {
      await this.#turn(1)
      if (life !== this.#life) return
    }
    if (this.#events.some(({ kind }) => kind === 'step down')) return // the lead is over already
    cluster.lead(epoch)
    this.#term = epoch
    this.#post({ kind: 'begun', epoch, generation: log.generation })
    log.noteProgress() // all that the log has counts as stored from here on
    this.#service!.beganToLead().then(
      () => this.#isLeading(epoch),
      (error: unknown) => this.#couldNotLead(epoch, error),
    )
  }

  #isLeading(epoch: number): void {
    if (this.#term !== epoch) return
    this.#become('leader')
    this.#parts.logger.info({ epoch }, 'this node leads the cluster')
  }

  #couldNotLead(epoch: number, error: unknown): void {
    if (this.#term !== epoch) return
    this.#post({ kind: 'give up the lead', reason: messageOf(error) })
  }

  #become(role: ClusterRole): void {
    if (role !== this.#role) this.#roleChanges[role] += 1
    this.#role = role
  }

  #endLead(): void {
    this.#term = 0
    this.#log!.cluster!.follow()
    this.#become('follower')
    this.#nameLeader()
  }

  async #stepDown(end: LogPlace, reason: string): Promise<void> {
    const life = this.#life
    const log = this.#log!
    this.#parts.logger.warn({ reason }, 'this node no longer leads the cluster')
    this.#service!.steppedDown()
    await this.#cutTo(log, end.position)
    if (life !== this.#life) return
    if (!isSamePlace(log.cluster!.end, end)) throw differs(log, end)
    while (log.cluster!.anchored < end.position) {
      await this.#turn(LOOK_MS)
      if (life !== this.#life) return
    }
    log.noteProgress()
  }

  /** B3. A request that comes meanwhile gets a turn of its own: the lane may die while it joins, and the log restart. */
  async #reset(reason: string): Promise<void> {
    if (this.#isClosed || this.#service === null) return
    this.#isResetDue = true
    if (this.#isResetting) return
    this.#isResetting = true
    this.#parts.logger.warn({ reason }, 'the node joins the cluster anew')
    while (this.#isResetDue && !this.#isClosed) {
      this.#isResetDue = false
      try {
        await this.#joinAnew(this.#log!, this.#service)
      } catch (error) {
        if (!this.#isResetDue) this.#fail(error)
        else await this.#turn(AGAIN_MS)
      }
    }
    this.#isResetting = false
  }

  async #joinAnew(log: Log, service: MemberService): Promise<void> {
    this.#life += 1
    this.#events = []
    this.#endLead()
    this.#become('recovering')
    service.steppedDown()
    const lane = this.#lane
    this.#lane = null
    log.cluster!.ring.wake()
    await lane?.stop().catch(() => {})
    const soonMs = this.#joinedAtMs + JOINS_APART_MS - this.#parts.nowMs()
    if (soonMs > 0) await this.#turn(soonMs)
    const { anchor } = this.#found
    if (anchor === null)
      throw new StoreError('corrupt', 'cluster_anchor_missing', `${log.directory} has no anchor of the cluster`)
    await this.#cutTo(log, anchor.end.position)
    if (log.state.kind === 'read-only' || this.#isClosed) return
    if (!isSamePlace(log.cluster!.end, anchor.end)) throw differs(log, anchor.end)
    service.readAgain()
    this.#startLane(log.id, anchor)
    await this.#stream.promise
    this.#joinAt = anchor
    this.join(service)
  }

  /** Ends this node's part in the cluster, so that another node leads as soon as the lease is over. */
  #leave(): void {
    if (this.#service === null || this.#isClosed) return
    this.#endLead()
    this.#become('recovering')
    this.#service.steppedDown()
    void this.close()
  }

  #fail(error: unknown): void {
    const reason = messageOf(error)
    this.#problem = reason
    this.#parts.logger.error({ reason }, 'this node left the cluster: restart it when the reason is removed')
    this.#leave()
  }

  #nameLeader(): void {
    const cluster = this.#log?.cluster
    if (!cluster) return
    cluster.leader = this.#nodes.leaderAs(this.#role)?.url ?? null
  }

  #turn(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.#parts.after(delayMs, resolve))
  }
}

/** Whether the stream no longer has what the node needs next. */
const isBehind = ({ begin, first }: Stream, anchor: Anchor | null): boolean =>
  anchor === null ? begin.end.position > 0 || first > 1 : first > anchor.sequence + 1

const outside = (log: Log): StoreError =>
  new StoreError(
    'invalid',
    'cluster_left',
    `TRILOG_CLUSTER_NAME: ${log.directory} was in a cluster and was then started outside of it, so this cluster may lack what it has: choose a name that no cluster has yet, or an empty data directory`,
  )

const differs = (log: Log, { position }: LogPlace): StoreError =>
  new StoreError(
    'corrupt',
    'cluster_log_differs',
    `${log.directory}: the log ends at position ${log.cluster!.end.position} and differs from the log of the cluster, which is known up to ${position}: move the directory away and start with an empty one`,
  )
