/**
 * One log on main: opens it, starts a journal lane per directory, reports how far it is stored, and after a failure goes on or stops for good.
 *
 *   ok ──► degraded    a replica directory failed; enough are left for the write quorum
 *    │        │
 *    ├────────┴──► read-only    the primary directory failed, or too few are left: final until the log is opened anew
 *    └──► restarting ──► ok     a lane died without an I/O error, a write met a full disk, a lost replica is there again: recovered in place
 *
 * L1  `committed` never falls except by `cutTo`, and every frame that ends at or below it is stored in the class of the log
 * L2  after a restart in place exactly the frames that end at or below the position `written` had are stored; the others never were.
 *     `outcome` says which, by the generation in which the writer built the frame: positions above `written` are used again
 * L3  listeners of state are called before listeners of progress see the change
 * L4  reports of a journal from before a restart in place are ignored after it: the restart has found the segments itself
 */
import assert from 'node:assert/strict'
import { StoreError, messageOf } from '../errors.ts'
import { withoutPauses } from '../steps.ts'
import type { Histogram } from '../pipeline/histogram.ts'
import { SpscRing } from '../pipeline/spsc-ring.ts'
import { Caretaker } from './caretaker.ts'
import { ClusterPart } from './cluster-part.ts'
import { DurableMark } from './durable-mark.ts'
import type { DirectoryLock, JournalLane, JournalMessage, LogEnvironment } from './environment.ts'
import { makeDurableDirectory } from './files.ts'
import { Refusals, publishSpace } from './free-space.ts'
import { IncidentList } from './incident-list.ts'
import { JournalLanes } from './journal-lanes.ts'
import { LogEvents } from './log-events.ts'
import { LostDirectories } from './lost-directories.ts'
import { LogShared, PRODUCER_CLOSED, PRODUCER_READ_ONLY, PRODUCER_RESTARTING } from './log-shared.ts'
import type { JournalCounters } from './log-shared.ts'
import { RESERVE_BYTES_DEFAULT, RING_BYTES_DEFAULT, SEGMENT_BYTES_DEFAULT, STALL_MS_DEFAULT } from './log-options.ts'
import type { LogOptions, LogState, LostReplica } from './log-options.ts'
import type { LogWriterHandle, Position } from './log-writer.ts'
import { nodeEnvironment } from './node-environment.ts'
import { leaveCluster } from './outside-cluster.ts'
import { PastGenerations } from './past-generations.ts'
import type { QuarantineIncident } from './quarantine.ts'
import type { DamagedRange } from './read.ts'
import { producerStateOf } from './recovery.ts'
import type { RecoveredLog } from './recovery.ts'
import { Readmission } from './readmission.ts'
import { recoveryOf } from './recovery-of.ts'
import { recoverDirectories } from './replicas.ts'
import type { RecoveredDirectories } from './replicas.ts'
import { Restarts } from './restarts.ts'
import type { Restart, RestartCause } from './restarts.ts'
import { SEGMENT_BYTES_MAX, SEGMENT_FOOTER_BYTES } from './segment-format.ts'
import { SegmentList } from './segment-list.ts'
import type { SegmentInfo } from './segment-list.ts'
import { setAsideBehind } from './set-aside.ts'
import { releaseLocks, takeDirectories } from './take-directories.ts'

export type { LogOptions, LogState, LostReplica } from './log-options.ts'
export type { SegmentInfo } from './segment-list.ts'

export class Log extends LogEvents {
  readonly directory: string
  /** Random number of this log; readers of its files need it. */
  readonly id: number
  readonly writer: LogWriterHandle
  /** How long syncs took, in seconds, by directory (0: the primary). */
  readonly syncSeconds: readonly Histogram[]
  /** What recovery cut off when the log was opened: written, but never reported as durable. */
  readonly tornTail: DamagedRange | null
  /** Null: the log is in no cluster. */
  readonly cluster: ClusterPart | null

  readonly #options: LogOptions
  readonly #environment: LogEnvironment
  readonly #directories: readonly string[]
  readonly #segmentsName: string
  readonly #locks: (DirectoryLock | null)[]
  readonly #shared: LogShared
  readonly #rings: readonly SpscRing[]
  readonly #reserveBytes: number
  readonly #lanes: JournalLanes
  readonly #segments: SegmentList
  readonly #incidents: IncidentList
  #state: LogState = { kind: 'ok' }
  #committed = 0
  readonly #pastGenerations = new PastGenerations()
  readonly #restarts: Restarts
  readonly #refusals = new Refusals()
  #restarting: Promise<void> | null = null
  readonly #lost: LostDirectories
  readonly #caretaker: Caretaker
  readonly #readmission: Readmission

  /**
   * @throws StoreError data_directory_unusable, data_directory_locked, log_format_newer, log_format_unreadable, log_format_missing, log_segments_overlap,
   *         log_replicas_differ, log_quorum_unavailable; and what the file system throws
   */
  static async open(options: LogOptions): Promise<Log> {
    const environment = options.environment ?? nodeEnvironment
    const directories = [options.directory, ...(options.replicas ?? [])]
    const { locks, unusable } = await takeDirectories(environment, directories)
    try {
      const keepUpTo = options.cluster?.keepUpTo ?? undefined
      const recovering = recoverDirectories({
        ...recoveryOf(options, environment, directories),
        ...(keepUpTo !== undefined && { keepUpTo, durableHere: keepUpTo }),
        unusable,
      })
      if (keepUpTo !== undefined) await setAsideBehind(keepUpTo, options, environment)
      const recovered = await (options.pace ?? withoutPauses)(recovering)
      if (options.cluster === undefined) leaveCluster(environment.files, options.directory)
      return new Log(options, environment, directories, locks, unusable, recovered)
    } catch (error) {
      await releaseLocks(locks)
      throw error
    }
  }

  private constructor(
    options: LogOptions,
    environment: LogEnvironment,
    directories: readonly string[],
    locks: readonly (DirectoryLock | null)[],
    unusable: ReadonlyMap<number, string>,
    recovered: RecoveredDirectories,
  ) {
    super()
    const ringBytes = options.ringBytes ?? RING_BYTES_DEFAULT
    const segmentBytes = options.segmentBytes ?? SEGMENT_BYTES_DEFAULT
    assert(segmentBytes <= SEGMENT_BYTES_MAX, 'offsets in a segment stay below 2 GiB')
    this.#options = options
    this.#environment = environment
    this.#directories = directories
    this.#segmentsName = options.segmentsName ?? 'segments'
    this.#locks = [...locks]
    const writeQuorum = options.writeQuorum ?? directories.length
    this.#lost = new LostDirectories(directories, writeQuorum, unusable)
    this.#restarts = new Restarts((intervalMs, run) => environment.every(intervalMs, run))
    this.#reserveBytes = (options.reserveBytes ?? RESERVE_BYTES_DEFAULT) + ringBytes
    this.directory = options.directory
    this.#incidents = new IncidentList(environment.files, options.directory, (incident) =>
      options.onIncident?.(incident),
    )
    this.#segments = new SegmentList(`${options.directory}/${this.#segmentsName}`)
    this.id = recovered.logId
    this.tornTail = recovered.primary.tornTail
    this.#rings = directories.map(() => SpscRing.create(ringBytes))
    this.#lanes = new JournalLanes(this.#rings)
    const replicaCount = directories.length
    const clusterAck = options.cluster?.ack ?? null
    this.#shared = LogShared.create({ replicaCount, writeQuorum, logId: this.id, clusterAck })
    this.syncSeconds = this.#shared.syncSeconds
    this.cluster = options.cluster ? new ClusterPart(options.cluster, this.#shared, ringBytes) : null
    const rings = this.cluster === null ? this.#rings : [...this.#rings, this.cluster.ring]
    this.writer = { shared: this.#shared.shared, rings: rings.map((ring) => ring.shared), segmentBytes }
    this.#begin(recovered)
    this.#caretaker = new Caretaker({
      environment,
      shared: this.#shared,
      rings: this.#rings,
      segmentsDirectories: directories.map((directory) => `${directory}/${this.#segmentsName}`),
      segmentBytes,
      spareSpaceBytes: 4 * Math.max(segmentBytes, this.#reserveBytes),
      replicaStallMs: options.replicaStallMs ?? STALL_MS_DEFAULT,
      active: () => this.segments.at(-1),
      onStalled: (replica) => this.#onStalled(replica),
      onFull: (isFull) => this.emitFull(isFull),
    })
    this.#readmission = new Readmission({
      environment,
      log: this,
      segmentsName: this.#segmentsName,
      directories,
      lost: this.#lost,
      lanes: this.#lanes,
      locks: this.#locks,
      restart: (reason) => this.#restart(reason, 'readmission'),
      reportState: (state) => this.#setState(state),
    })
  }

  /** All segments, oldest first; the last one is active unless it is sealed. A new array when they changed. */
  get segments(): readonly SegmentInfo[] {
    return this.#segments.all
  }

  /** L1 */
  get committed(): Position {
    return (this.#committed = Math.max(this.#committed, this.#shared.committed()))
  }

  /** Whether this node may answer with what the log holds: always, unless a cluster keeps it and this node is not sure to lead. */
  get mayAnswer(): boolean {
    return this.cluster === null || this.cluster.mayAnswer
  }

  /** End of the last frame written (class 'append'). */
  get written(): Position {
    return this.#shared.written(0)
  }

  /** External parts of frames that end at or below it were taken: their space may be freed. */
  get released(): Position {
    return this.#shared.released()
  }

  /** True while journals write what they were given, also in a read-only log: they read external parts until `released` has passed them. */
  get isWriting(): boolean {
    return this.#lanes.running.some((replica) => this.#shared.isLive(replica))
  }

  /** Generation of the log: +1 with each restart in place. */
  get generation(): number {
    return this.#shared.generation
  }

  get state(): LogState {
    return this.#state
  }

  get incidents(): readonly QuarantineIncident[] {
    return this.#incidents.all
  }

  /** Incidents that no operator has acknowledged, see quarantine.ts. */
  get openIncidents(): readonly QuarantineIncident[] {
    return this.#incidents.open
  }

  /** Looks for what an operator has acknowledged since. @throws what the file system throws */
  readAcknowledged(): void {
    this.#incidents.readAcknowledged()
  }

  get lostReplicas(): readonly LostReplica[] {
    return this.#lost.all
  }

  /** Bytes that frames may still take, see `LogWriter.tryBegin`. */
  roomFor(purpose: 'admit' | 'finish'): number {
    return this.#shared.roomFor(purpose)
  }

  /** Keeps these bytes free, besides the reserve, for what the service writes beside the log: no new frame may use them. */
  keepFree(bytes: number): void {
    this.#shared.keepFree(bytes)
  }

  /** @param replica the directory whose journal is asked for; 0: the primary */
  counters(replica = 0): JournalCounters {
    return this.#shared.counters(replica)
  }

  /**
   * What became of a frame (L2).
   *
   * @param end where it ends, `generation` the one the writer built it in
   */
  outcome(end: Position, generation: number): 'stored' | 'waiting' | 'lost' {
    if (generation === this.generation && (end <= this.#committed || end <= this.committed)) return 'stored'
    if (this.#pastGenerations.isLost(end, generation, this.generation)) return 'lost'
    return end <= this.committed ? 'stored' : this.#state.kind === 'read-only' ? 'lost' : 'waiting'
  }

  /** A reader found damage: it is written down beside the segment and reported like what recovery finds. */
  reportDamage(segment: SegmentInfo, range: DamagedRange): void {
    this.#incidents.report(segment, range)
  }

  /**
   * Removes the sealed segments that end at or below a position, in all directories, in the background: after a crash, or from a
   * read-only log, some may be there again.
   */
  dropBefore(position: Position): void {
    const dropped = this.#segments.dropBefore(position)
    const last = dropped.at(-1)
    if (last === undefined) return
    const begin = this.segments[0]?.base ?? last.end + SEGMENT_FOOTER_BYTES
    for (const { base } of dropped) this.#lanes.post({ kind: 'drop', base, begin })
  }

  /** Asks the producer to begin a new segment. It sees this at its next frame or `LogWriter.poll`. */
  seal(): void {
    this.#shared.requestSeal()
  }

  /**
   * After the producer's thread died, before its successor attaches: frames it published are kept; when it died in the middle of
   * publishing, the log is recovered in place first.
   */
  async recoverProducer(): Promise<void> {
    await this.#restarting
    if (!this.#shared.publishing) return
    this.#shared.publishing = false
    await this.#restart('the producer died while it published a frame')
  }

  /** A restart in place that sets aside what ends behind a position: no client was told of it. Resolves when that is done, or the log is read-only or closed. */
  async cutTo(position: Position): Promise<void> {
    while (this.#restarting !== null) await this.#restarting
    await this.#restart('the log is cut to the position that the cluster has confirmed', 'cut', position)
  }

  /** The cluster's lane has moved positions. */
  noteProgress(): void {
    this.#progressed()
  }

  /** The service on this log cannot continue: the log is read-only from here on. */
  giveUp(failure: unknown): void {
    if (this.#state.kind === 'read-only' || this.#state.kind === 'closed') return
    this.#shared.forceProducerState(PRODUCER_READ_ONLY)
    const message = messageOf(failure)
    const code = failure instanceof StoreError ? failure.code : 'log_restart_failed'
    this.#setState({ kind: 'read-only', code, message: `${message}. Nothing more is accepted until a restart` })
    this.#progressed()
  }

  /** The producer has stopped. Writes and syncs what it left in the rings, ends the lanes, gives the locks back. */
  async close(): Promise<void> {
    this.#shared.forceProducerState(PRODUCER_CLOSED)
    this.#restarts.end()
    await this.#restarting
    this.#caretaker.stop()
    this.#readmission.stop()
    await this.#lanes.stopAll()
    this.#progressed()
    if (this.#state.kind !== 'read-only') this.#setState({ kind: 'closed' })
    await releaseLocks(this.#locks.splice(0))
  }

  #begin(recovered: RecoveredDirectories): void {
    const { files } = this.#environment
    const { primary } = recovered
    const epoch = recovered.epoch + 1
    this.#segments.reset(primary.segments)
    this.cluster?.keep(this.segments)
    const first = this.segments[0]?.base ?? primary.nextBase
    for (const incident of primary.incidents) this.#incidents.add(incident)
    this.#incidents.addForgotten(first)
    // The list of incidents names what is lost of the beginning, before the marks forget it.
    const begin = this.#incidents.keep() ? first : primary.begin
    this.#lost.clear()
    for (const { replica, reason } of recovered.problems) this.#lost.add(replica, reason)
    for (const [replica, directory] of this.#directories.entries()) {
      if (!recovered.usable[replica]) continue
      try {
        makeDurableDirectory(files, `${directory}/${this.#segmentsName}`)
        DurableMark.set(files, directory, this.id, { epoch, position: primary.tail.end, begin })
      } catch (error) {
        if (replica === 0) throw error
        this.#lost.add(replica, messageOf(error))
      }
    }
    for (const directory of recovered.remade) this.#options.onRemade?.(directory)
    this.#shared.beginGeneration(producerStateOf(primary), epoch)
    for (const [replica, directory] of this.#directories.entries()) {
      if (this.#lost.has(replica)) this.#shared.dropReplica(replica)
      else if (this.#refusalsOf(replica) > 0) this.#shared.publishLimits(replica, 0, 0) // its journal seeks room
      else publishSpace(files, directory, this.#shared, replica, this.#reserveBytes)
    }
    for (const replica of this.#directories.keys()) {
      if (!this.#lost.has(replica)) this.#lanes.started(replica, this.#startLane(replica, primary))
    }
    if (this.#shared.producerState === PRODUCER_READ_ONLY)
      this.#setState(this.#lost.withoutQuorum('log_quorum_unavailable'))
    else if (this.#lost.all.length === 0) this.#setState({ kind: 'ok' })
    else this.#setState(this.#lost.degraded('log_replica_unusable'))
  }

  #refusalsOf = (replica: number): number => this.#refusals.count(replica, this.#environment.nowMs())

  #startLane(replica: number, { tail }: RecoveredLog): JournalLane {
    const { generation } = this
    return this.#environment.startJournal(
      {
        directory: this.#directories[replica]!,
        segmentsName: this.#segmentsName,
        replica,
        ring: this.#rings[replica]!.shared,
        arena: this.#options.arena ?? null,
        shared: this.#shared.shared,
        tail,
        reserveBytes: this.#reserveBytes,
        pageCache: this.#options.pageCache ?? 'all',
        writeAheadBytes: this.#options.writeAheadBytes ?? 0,
        refusals: this.#refusalsOf(replica),
      },
      {
        onMessage: (message) => {
          if (generation === this.generation) this.#onMessage(replica, message) // L4
        },
        onDeath: (error) => {
          this.#lanes.died(replica)
          void this.#restart(error.message)
        },
      },
    )
  }

  #onMessage(replica: number, message: JournalMessage): void {
    if (message.kind === 'progress') this.#progressed()
    else if (message.kind === 'failed') this.#onFailed(replica, message)
    else if (replica === 0) this.#onSegment(message)
  }

  #progressed(): void {
    this.#shared.acceptWake()
    this.#updateActive()
    if (this.cluster !== null) for (const segment of this.cluster.takeReportable()) this.emitSealed(segment)
    this.emitProgress()
  }

  #onSegment(message: JournalMessage & { kind: 'opened' | 'sealed' }): void {
    if (message.kind === 'opened') {
      this.#segments.opened(message.base)
      // The segment may hold what was known to be stored: listeners look again, unless they are about to.
      return this.#shared.isWakePending ? this.#updateActive() : this.#progressed()
    }
    const sealed = this.#segments.sealed(message.base, message.end)
    if (this.cluster === null) this.emitSealed(sealed)
    else this.cluster.sealed(sealed)
  }

  /** `written` is read first: as long as its segment is the one in the list, it is a position of that one. */
  #updateActive(): void {
    const { written } = this
    this.#segments.written(this.#shared.segmentBase(0), written)
  }

  #onFailed(replica: number, failure: Omit<JournalMessage & { kind: 'failed' }, 'kind'>): void {
    const { code, message, isFull, showsRoom } = failure
    if (isFull) this.#refusals.add(replica, showsRoom, this.#environment.nowMs())
    this.#lost.addFailure(replica, { code, reason: message, isFull, syncedUpTo: this.#shared.synced(replica) })
    if (this.#restarting !== null) return // the restart finds it
    const where = `${this.#directories[replica]!}: ${message}`
    if (this.#shared.producerState !== PRODUCER_READ_ONLY) {
      this.#setState(this.#lost.degraded(code))
    } else if (isFull) {
      void this.#restart(where, 'full') // from then on the limits of free space refuse what would not fit
    } else if (this.#state.kind !== 'read-only' && replica !== 0) {
      this.#setState(this.#lost.withoutQuorum(code))
    } else if (this.#state.kind !== 'read-only') {
      this.#setState({
        kind: 'read-only',
        code,
        message: `${where}. Nothing more is accepted: repair the disk, then restart`,
      })
    }
  }

  #onStalled(replica: number): void {
    this.#shared.dropReplica(replica)
    const message = 'the directory does not keep up'
    this.#onFailed(replica, { code: 'ETIMEDOUT', message, isFull: false, showsRoom: false })
    this.#progressed()
  }

  #restart(reason: string, cause: RestartCause = 'death', cutAt = Infinity): Promise<void> {
    this.#restarting ??= this.#restarts
      .untilRoom({ reason, cause }, (why) => this.#restartNow(why, cutAt))
      .catch((failure: unknown) => this.giveUp(failure))
      .finally(() => void (this.#restarting = null))
    return this.#restarting
  }

  #isOver = (): boolean => this.#state.kind === 'read-only' || this.#shared.producerState === PRODUCER_CLOSED

  /** L2 */
  async #restartNow({ reason, cause }: Restart, cutAt: Position): Promise<void> {
    if (this.#isOver()) return
    this.#shared.stopProducer(PRODUCER_RESTARTING)
    this.#setState({ kind: 'restarting', code: 'log_restarting', message: reason })
    await this.#lanes.stopAll()
    if (this.#isOver()) return
    if (this.#lost.primaryFailure !== null) throw this.#lost.primaryFailure
    if (cause === 'death') this.#restarts.add(this.#environment.nowMs())
    const keepUpTo = Math.min(this.written, cutAt)
    if (keepUpTo < this.written) await setAsideBehind(keepUpTo, this.#options, this.#environment)
    const recovering = recoverDirectories({
      ...recoveryOf(this.#options, this.#environment, this.#directories),
      keepUpTo,
      leftOut: this.#lost.failed,
    })
    const recovered = await (this.#options.pace ?? withoutPauses)(recovering)
    if (this.#isOver()) return
    if (cause === 'death' && this.#restarts.areTooMany) {
      this.#segments.reset(recovered.primary.segments) // with those that the journal could not report any more
      throw new Error(`restarting does not help: ${reason}`)
    }
    this.#pastGenerations.ended(this.generation, keepUpTo)
    this.#committed = Math.min(this.#committed, keepUpTo)
    this.#begin(recovered)
    this.#progressed()
  }

  #setState(state: LogState): void {
    if (state.kind === 'ok' && this.#state.kind === 'ok') return
    this.#updateActive() // a listener that reads the state anew finds everything that is stored
    this.#state = state
    this.emitState(state)
  }
}
