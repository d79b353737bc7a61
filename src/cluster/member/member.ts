/**
 * A node's membership in the cluster of one log, on main: starts the lane, makes frames of the leader the log's own, begins and ends the lead.
 *
 *   opening ──► recovering ──► follower ◄──► leader
 *                    ▲             │           │
 *                    └─────────────┴───────────┘   the lane died, or the log restarted in place
 *
 * B1  what the lane tells is done in its order, one after the other
 * B2  this node's log ends where the lane says when it begins to lead, and after it stepped down
 * B3  a log that loses its end behind the lane's back is cut to the anchor on the disk, and a new lane goes on from there: whatever was confirmed
 *     comes back from the stream
 */
import { StoreError, messageOf } from '../../errors.ts'
import type { ClusterOptions } from '../../log/cluster-part.ts'
import type { Files } from '../../log/files.ts'
import { readFormat } from '../../log/format.ts'
import type { Log } from '../../log/log.ts'
import type { Anchor } from '../history.ts'
import { isSamePlace } from '../message.ts'
import type { LogPlace } from '../message.ts'
import { readAnchor } from '../lane/anchor-file.ts'
import type { FromLane, HeardNodes, LaneTaskData, NodeStatus, StreamSettings, ToLane } from '../lane/protocol.ts'
import { Asides } from './asides.ts'

type ClusterRole = 'recovering' | 'follower' | 'leader'

/** What a service does with its log. */
export interface MemberService {
  /**
   * Whole frames of the leader, back to back, have their effect here, too. Resolves when all have, or when this is wanted no more. Rejects with what
   * keeps them from having it.
   */
  follow(frames: Buffer, isOver: () => boolean): Promise<void>
  /** The log was cut where the service had taken frames: it reads its state again. */
  readAgain(): void
  /** Resolves when requests may come. Rejects when this node leads no more. */
  beganToLead(): Promise<void>
  /** Nothing is answered any more, and what waits is to be let go. */
  steppedDown(): void
}

export interface MemberView {
  readonly name: string
  readonly node: string
  /** Requests may be answered here. */
  readonly leads: boolean
  readonly nodes: readonly (NodeStatus & { readonly heardMsAgo: number })[]
}

export interface RunningLane {
  post(message: ToLane): void
  stop(): Promise<void>
}

/** A log that lacks more than the stream has is copied from another node. Nobody has the log open meanwhile. */
export interface LogCopy {
  /** Ends what a start before began. @throws what files throw */
  finish(): void
  /**
   * Resolves when the directory has the log of another node, and its anchor.
   *
   * @param from where the other nodes are, the leader first; empty as long as none is known
   */
  run(from: () => readonly string[]): Promise<void>
}

export interface MemberParts {
  readonly settings: StreamSettings & {
    readonly node: string
    readonly leaseMs: number
    readonly ack: ClusterOptions['ack']
    readonly url: string | null
    readonly peerUrl: string | null
  }
  readonly copy: LogCopy
  readonly directory: string
  readonly segmentsName: string
  readonly arena: SharedArrayBuffer | null
  readonly files: Files
  readonly logger: Readonly<Record<'info' | 'warn' | 'error', (details: object, message: string) => void>>
  /** Monotonic, the same in all threads of the process. */
  readonly nowMs: () => number
  /** Calls once. */
  readonly after: (delayMs: number, run: () => void) => void
  readonly startLane: (
    data: LaneTaskData,
    events: { onMessage(message: FromLane): void; onDeath(error: Error): void },
  ) => RunningLane
}

type LaneEvent = Extract<FromLane, { readonly kind: 'frames' | 'lead' | 'step down' | 'catch up' | 'stop' }>
type Stream = Extract<FromLane, { readonly kind: 'stream' }>

const LOOK_MS = 20
/** Before another lane is started for one that died as it joined. */
const AGAIN_MS = 200
/** Until a node that closes no longer waits for its last message. */
const RESIGN_MS_MAX = 1500
/** A node that says nothing for so long does not lead. */
const AWAY_MS = 5000

export class ClusterMember {
  readonly #parts: MemberParts
  readonly #asides: Asides
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
  #isClosed = false
  #role: ClusterRole = 'recovering'
  /** Number of the term that this node leads; 0: it leads none. */
  #term = 0
  #problem: string | null = null
  #awayReason: string | null = null
  #nodes: HeardNodes & { readonly own: NodeStatus | null } = { own: null, others: [], twinAtMs: null }

  constructor(parts: MemberParts) {
    this.#parts = parts
    this.#asides = new Asides(parts.logger)
  }

  /** What keeps this node from taking part. */
  get problem(): string | null {
    return this.#problem ?? this.#awayReason
  }

  /** Another process says that it is this node. Nothing is lost, as each process writes under a name of its own, but a hand-over may go to the other. */
  get hasTwin(): boolean {
    const { twinAtMs } = this.#nodes
    return twinAtMs !== null && this.#parts.nowMs() - twinAtMs <= AWAY_MS
  }

  /** What this node knows of the cluster at the moment. */
  get view(): MemberView {
    const { settings, nowMs } = this.#parts
    const { own, others } = this.#nodes
    const atMs = nowMs()
    const nodes = others.map(({ atMs: heardMs, ...status }) => ({ ...status, heardMsAgo: atMs - heardMs }))
    const role = this.#role
    if (own !== null) nodes.push({ ...own, role, heardMsAgo: 0 })
    return { name: settings.cluster, node: settings.node, leads: role === 'leader', nodes }
  }

  /** The one of the highest epoch that says it leads, and was heard in time; null: none is known. */
  get #leader(): NodeStatus | null {
    if (this.#role === 'leader') return this.#nodes.own
    const sinceMs = this.#parts.nowMs() - AWAY_MS
    const leaders = this.#nodes.others.filter(({ role, atMs }) => role === 'leader' && atMs >= sinceMs)
    return leaders.toSorted((one, other) => other.epoch - one.epoch)[0] ?? null
  }

  /**
   * Opens the log as the cluster needs it. Where the directory is empty, that takes the stream.
   *
   * @param open with these options
   * @throws StoreError when a setting cannot work, or the log is none of this cluster
   */
  async openLog(open: (options: ClusterOptions) => Promise<Log>): Promise<Log> {
    const { settings, nowMs, copy } = this.#parts
    copy.finish()
    let { own, anchor } = this.#found
    const isConverted = own !== null && anchor === null
    if (!isConverted) {
      this.#startLane(own, anchor)
      if (isBehind(await this.#stream.promise, anchor)) await copy.run(() => this.#peers)
      ;({ own, anchor } = this.#found)
    }
    const logId = own ?? (await this.#stream.promise).logId
    const log = await open({
      ack: settings.ack,
      logId,
      keepUpTo: anchor?.end.position ?? null,
      nowMs,
      onSetAside: (aside) => this.#asides.add(aside),
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

  /** The service is there: follows from here on. */
  join(service: MemberService): void {
    this.#service = service
    this.#role = 'follower'
    this.#post({ kind: 'join', log: this.#log!.cluster!.handle, anchor: this.#joinAt! })
  }

  /** The lead goes to that node, or to the first that stands. */
  handOver(successor: string | null): void {
    this.#post({ kind: 'hand over', successor })
  }

  /** A node that leads resigns first, so that another one need not wait for the end of its lease. */
  async close(): Promise<void> {
    if (this.#term !== 0 && !this.#isClosed) await this.#resign()
    this.#isClosed = true
    this.#life += 1
    this.#events = []
    this.#role = 'recovering'
    const lane = this.#lane
    this.#lane = null
    await lane?.stop().catch(() => {})
  }

  async #resign(): Promise<void> {
    const untilMs = this.#parts.nowMs() + RESIGN_MS_MAX
    this.handOver(null)
    while (this.#term !== 0 && this.#parts.nowMs() < untilMs) await this.#turn(LOOK_MS)
  }

  /** What the directory has. */
  get #found(): { readonly own: number | null; readonly anchor: Anchor | null } {
    const { files, directory, segmentsName } = this.#parts
    return { own: readFormat(files, directory, segmentsName), anchor: readAnchor(files, directory) }
  }

  /** Where the other nodes are, the leader first. */
  get #peers(): readonly string[] {
    const known = this.#nodes.others.filter(({ role }) => role !== 'recovering')
    const leadersFirst = known.toSorted((one, other) => Number(other.role === 'leader') - Number(one.role === 'leader'))
    return leadersFirst.flatMap(({ peerUrl }) => (peerUrl === null ? [] : [peerUrl]))
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
      { settings: stream, node, leaseMs, url, peerUrl, log, directory, arena },
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

  /** Where to join: what the anchor says, or else where the stream begins. Cuts the log there. @throws StoreError */
  async #settle(log: Log, anchor: Anchor | null): Promise<Anchor> {
    const { begin } = await this.#stream.promise
    const from = anchor ?? begin
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
        this.#nodes = message
        return this.#nameLeader()
      case 'stream':
        this.#awayReason = null
        return this.#stream.resolve(message)
      case 'refused':
        return this.#stream.reject(new StoreError('invalid', message.code, message.message))
      case 'away':
        if (this.#awayReason === null) this.#parts.logger.warn({ reason: message.reason }, 'the cluster is away')
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
          'the stream has no longer what this node needs next: restart it, and it copies the log of another node',
        )
      case 'stop':
        throw new StoreError('corrupt', 'cluster_stopped', event.reason)
    }
  }

  async #apply(frames: Buffer): Promise<void> {
    const life = this.#life
    await this.#service!.follow(frames, () => life !== this.#life)
    if (life !== this.#life) return
    this.#asides.meetAll(frames)
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
    if (this.#events.some(({ kind }) => kind === 'step down')) return // it is over already
    cluster.lead(epoch)
    this.#term = epoch
    this.#post({ kind: 'begun', epoch, generation: log.generation })
    this.#service!.beganToLead().then(
      () => this.#isLeading(epoch),
      (error: unknown) => this.#couldNotLead(epoch, error),
    )
  }

  #isLeading(epoch: number): void {
    if (this.#term !== epoch) return
    this.#role = 'leader'
    this.#parts.logger.info({ epoch }, 'this node leads the cluster')
  }

  #couldNotLead(epoch: number, error: unknown): void {
    if (this.#term !== epoch) return
    this.#post({ kind: 'give up the lead', reason: messageOf(error) })
  }

  #endLead(): void {
    this.#term = 0
    this.#log!.cluster!.follow()
    this.#role = 'follower'
    this.#nameLeader()
  }

  async #stepDown(end: LogPlace, reason: string): Promise<void> {
    const life = this.#life
    const log = this.#log!
    this.#parts.logger.warn({ reason }, 'this node leads the cluster no more')
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

  /** B3. What asks for it meanwhile is met by another turn: the lane may die while it joins, and the log restart. */
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
    this.#role = 'recovering'
    service.steppedDown()
    const lane = this.#lane
    this.#lane = null
    log.cluster!.ring.wake()
    await lane?.stop().catch(() => {})
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

  /** The log takes nothing any more: another node is to lead as soon as the lease is over. */
  #leave(): void {
    if (this.#service === null || this.#isClosed) return
    this.#endLead()
    this.#role = 'recovering'
    this.#service.steppedDown()
    void this.close()
  }

  #fail(error: unknown): void {
    const reason = messageOf(error)
    this.#problem = reason
    this.#parts.logger.error({ reason }, 'this node takes no part in the cluster any more')
    this.#leave()
  }

  #nameLeader(): void {
    const cluster = this.#log?.cluster
    if (!cluster) return
    const leader = this.#leader
    cluster.leader = leader?.url ?? null
  }

  #turn(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.#parts.after(delayMs, resolve))
  }
}

/** What the node needs next is in the stream no more. */
const isBehind = ({ begin, first }: Stream, anchor: Anchor | null): boolean =>
  anchor === null ? begin.end.position > 0 || first > 1 : first > anchor.sequence + 1

const differs = (log: Log, { position }: LogPlace): StoreError =>
  new StoreError(
    'corrupt',
    'cluster_log_differs',
    `${log.directory}: the log ends at position ${log.cluster!.end.position}, where the cluster's is not the same or ends at ${position}: move the directory away and start with an empty one`,
  )
