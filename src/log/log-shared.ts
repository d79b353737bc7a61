/**
 * The state that the threads of one log share, in one SharedArrayBuffer.
 *
 *   Int32 words    generation, producer state, seal requests, main is being woken, progress count, epoch, log id,
 *                  replica count, write quorum, what an answer in a cluster waits for, this node leads, epoch of frames; status of each replica
 *   BigInt64 words per replica: written, synced, admit limit, finish limit, groups, syncs, bytes, sync nanoseconds, base of the segment being
 *                  written; then bytes kept free for what the service writes beside the log, and of a cluster: confirmed, led from, anchored,
 *                  end of the lease, end of what its lane took
 *   producer words two blocks of { generation, chain, must open, frame count, publishing; tail, base, next base }: `live` is the producer's
 *                  own, `reset` is what recovery found, and does not use `publishing`
 *   histograms     of each replica, how long its syncs took, in seconds
 *
 * Only the journal lane of replica r stores `written[r]` and `synced[r]`, or main in `beginGeneration`, while no lane runs. Neither falls within a
 * generation, and `synced[r] <= written[r]`.
 *
 * W2  committed = min(written[0], the writeQuorum-th highest synced of the live replicas): durable in enough directories,
 *     and readable in the primary one
 * W3  the live block is stored only by the producer, except `publishing`, which main ends for a producer that died. `generation` tells the producer
 *     to take over the reset block, after the log was recovered in place
 * W4  producer state goes from ok to anything else, and back only with a new generation
 * W5  in a cluster nothing is committed that the cluster has not confirmed. What it had confirmed when this node began to lead is committed as soon
 *     as it can be read here: the previous leader may have answered with it
 */
import assert from 'node:assert/strict'
import { Histogram, LATENCY_BOUNDS, histogramBytes } from '../pipeline/histogram.ts'

export const PRODUCER_OK = 0
/** A directory failed or is full, or `Log.giveUp` was called. After a full disk a restart in place ends this state, otherwise only opening the log anew. */
export const PRODUCER_READ_ONLY = 1
/** The log is being recovered in place (`RestartCause`). */
export const PRODUCER_RESTARTING = 2
export const PRODUCER_CLOSED = 3

const REPLICA_LIVE = 0
const REPLICA_FAILED = 1

export const REPLICAS_MAX = 8

const GENERATION = 0
const PRODUCER_STATE = 1
const SEAL_REQUESTS = 2
const MAIN_WOKEN = 3
const PROGRESS = 4
const EPOCH = 5
const LOG_ID = 6
const REPLICA_COUNT = 7
const WRITE_QUORUM = 8
const CLUSTER_ACK = 9
const LEADS = 10
const FRAME_EPOCH = 11
const STATUS = 16
const INT32_WORDS = STATUS + REPLICAS_MAX

const WRITTEN = 0
const SYNCED = 1
const ADMIT_LIMIT = 2
const FINISH_LIMIT = 3
const GROUPS = 4
const SYNCS = 5
const BYTES = 6
const SYNC_NANOSECONDS = 7
const SEGMENT_BASE = 8
const WORDS_PER_REPLICA = 9

const KEPT_FREE = REPLICAS_MAX * WORDS_PER_REPLICA
const CONFIRMED = KEPT_FREE + 1
const LED_FROM = KEPT_FREE + 2
const ANCHORED = KEPT_FREE + 3
const LEASE_UNTIL = KEPT_FREE + 4
const LANE_TAKEN = KEPT_FREE + 5
const BIG_WORDS = KEPT_FREE + 6

/** What an answer waits for: the cluster's confirmation and the local syncs, or the confirmation alone. */
export type ClusterAck = 'cluster' | 'cluster-only'
/** As CLUSTER_ACK has them; 0: the log is in no cluster. */
const ACKS: readonly (ClusterAck | null)[] = [null, 'cluster', 'cluster-only']

const US_PER_MS = 1000
const BLOCK_BYTES = 48
const LIVE_BLOCK = 0
const RESET_BLOCK = 1
const BIG_AT = INT32_WORDS * 4
const BLOCKS_AT = BIG_AT + BIG_WORDS * 8
const HISTOGRAMS_AT = BLOCKS_AT + 2 * BLOCK_BYTES
const HISTOGRAM_BYTES = histogramBytes(LATENCY_BOUNDS)
const SHARED_BYTES = HISTOGRAMS_AT + REPLICAS_MAX * HISTOGRAM_BYTES

/** Where the next frame goes. Positions are multiples of 8. */
export interface ProducerState {
  /** Position behind the last frame. */
  tail: number
  /** Segment that holds `tail`; meaningless when mustOpen. */
  base: number
  /** Base of the segment the next frame opens; meaningful when mustOpen. */
  nextBase: number
  mustOpen: boolean
  /** headerCrc of the last frame. */
  chain: number
  /** Frames in the segment that holds `tail`. */
  frameCount: number
}

export interface JournalCounters {
  readonly groups: number
  readonly syncs: number
  readonly bytes: number
  readonly syncNanoseconds: number
}

export class LogShared {
  readonly shared: SharedArrayBuffer
  readonly replicaCount: number
  readonly writeQuorum: number
  /** How long syncs took, by replica; observed by its journal lane. */
  readonly syncSeconds: readonly Histogram[]
  readonly #words: Int32Array
  readonly #big: BigInt64Array
  readonly #liveWords: Int32Array
  readonly #livePositions: Float64Array
  readonly #resetWords: Int32Array
  readonly #resetPositions: Float64Array

  /** Null: the log is in no cluster. */
  readonly clusterAck: ClusterAck | null

  static create(options: {
    replicaCount: number
    writeQuorum: number
    logId: number
    clusterAck?: ClusterAck | null
  }): LogShared {
    assert(options.replicaCount >= 1 && options.replicaCount <= REPLICAS_MAX)
    assert(options.writeQuorum >= 1 && options.writeQuorum <= options.replicaCount)
    const shared = new SharedArrayBuffer(SHARED_BYTES)
    const words = new Int32Array(shared, 0, INT32_WORDS)
    words[REPLICA_COUNT] = options.replicaCount
    words[WRITE_QUORUM] = options.writeQuorum
    words[LOG_ID] = options.logId
    words[CLUSTER_ACK] = ACKS.indexOf(options.clusterAck ?? null)
    return new LogShared(shared)
  }

  static attach(shared: SharedArrayBuffer): LogShared {
    return new LogShared(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    this.shared = shared
    this.#words = new Int32Array(shared, 0, INT32_WORDS)
    this.#big = new BigInt64Array(shared, BIG_AT, BIG_WORDS)
    this.#liveWords = blockWords(shared, LIVE_BLOCK)
    this.#livePositions = blockPositions(shared, LIVE_BLOCK)
    this.#resetWords = blockWords(shared, RESET_BLOCK)
    this.#resetPositions = blockPositions(shared, RESET_BLOCK)
    this.replicaCount = this.#words[REPLICA_COUNT]!
    this.writeQuorum = this.#words[WRITE_QUORUM]!
    this.clusterAck = ACKS[this.#words[CLUSTER_ACK]!]!
    this.syncSeconds = Array.from({ length: this.replicaCount }, (_, replica) =>
      Histogram.inSharedMemory(shared, HISTOGRAMS_AT + replica * HISTOGRAM_BYTES, LATENCY_BOUNDS),
    )
  }

  get logId(): number {
    return this.#words[LOG_ID]! >>> 0
  }

  get epoch(): number {
    return Atomics.load(this.#words, EPOCH) >>> 0
  }

  get generation(): number {
    return Atomics.load(this.#words, GENERATION)
  }

  get producerState(): number {
    return Atomics.load(this.#words, PRODUCER_STATE)
  }

  /** Stops a producer that is still ok, so that the first reason stays (W4). */
  stopProducer(state: number): void {
    Atomics.compareExchange(this.#words, PRODUCER_STATE, PRODUCER_OK, state)
  }

  /** After a restart failed, and at close. */
  forceProducerState(state: number): void {
    Atomics.store(this.#words, PRODUCER_STATE, state)
  }

  // Progress

  /** A number that changes with every position, limit and status. While it stays the same, a reader may use what it has computed. */
  get progress(): number {
    return Atomics.load(this.#words, PROGRESS)
  }

  written(replica: number): number {
    return this.#load(replica, WRITTEN)
  }

  synced(replica: number): number {
    return this.#load(replica, SYNCED)
  }

  /** Segment that `replica` writes to; stored before `written` moves into it. -1: none is open. */
  segmentBase(replica: number): number {
    return this.#load(replica, SEGMENT_BASE)
  }

  publishSegmentBase(replica: number, base: number): void {
    this.#store(replica, SEGMENT_BASE, base)
  }

  publishWritten(replica: number, position: number): void {
    this.#store(replica, WRITTEN, position)
    Atomics.add(this.#words, PROGRESS, 1)
  }

  publishSynced(replica: number, position: number): void {
    this.#store(replica, SYNCED, position)
    Atomics.add(this.#words, PROGRESS, 1)
  }

  /** W2, W5. When too few replicas are live this falls, so the caller has to remember the highest value. */
  committed(): number {
    if (this.clusterAck === null) return this.#reached(SYNCED)
    const written = this.written(0)
    const stored = this.clusterAck === 'cluster' ? this.#reached(SYNCED) : written
    return Math.min(written, Math.max(this.#loadBig(LED_FROM), Math.min(this.confirmed, stored)))
  }

  /** The position that the primary and a write quorum have synced, whether or not a cluster has confirmed it. */
  syncedHere(): number {
    return this.#reached(SYNCED)
  }

  /** Every live replica has taken the frames before it: their external parts may be freed. */
  released(): number {
    let released = Infinity
    for (let replica = 0; replica < this.replicaCount; replica += 1) {
      if (this.isLive(replica)) released = Math.min(released, this.written(replica))
    }
    if (released === Infinity) released = this.written(0)
    return this.leads ? Math.min(released, this.#loadBig(LANE_TAKEN)) : released
  }

  isLive(replica: number): boolean {
    return Atomics.load(this.#words, STATUS + replica) === REPLICA_LIVE
  }

  /** @returns whether the log can go on without it; otherwise the producer is stopped */
  dropReplica(replica: number): boolean {
    Atomics.store(this.#words, STATUS + replica, REPLICA_FAILED)
    Atomics.add(this.#words, PROGRESS, 1)
    let live = 0
    for (let other = 0; other < this.replicaCount; other += 1) if (this.isLive(other)) live += 1
    const goesOn = replica !== 0 && live >= this.writeQuorum
    if (!goesOn) this.stopProducer(PRODUCER_READ_ONLY)
    return goesOn
  }

  // Space: positions up to which frames may be written: by the primary and a write quorum. A replica that has less room fails, and is left out.

  publishLimits(replica: number, admit: number, finish: number): void {
    this.#store(replica, ADMIT_LIMIT, admit)
    this.#store(replica, FINISH_LIMIT, finish)
    Atomics.add(this.#words, PROGRESS, 1)
  }

  admitLimit(): number {
    return Math.max(0, this.#reached(ADMIT_LIMIT) - Number(Atomics.load(this.#big, KEPT_FREE)))
  }

  /** Main keeps these bytes free besides the reserve, for what the service writes beside the log. */
  keepFree(bytes: number): void {
    Atomics.store(this.#big, KEPT_FREE, BigInt(bytes))
    Atomics.add(this.#words, PROGRESS, 1)
  }

  finishLimit(): number {
    return this.#reached(FINISH_LIMIT)
  }

  /** Bytes that frames may still take, see `LogWriter.tryBegin`. */
  roomFor(purpose: 'admit' | 'finish'): number {
    return Math.max(0, (purpose === 'admit' ? this.admitLimit() : this.finishLimit()) - this.written(0))
  }

  // Words for a cluster. Main stores whether this node leads, and the lane stores everything else.

  /** Frames are given to the lane, and are of the leader's epoch. */
  get leads(): boolean {
    return Atomics.load(this.#words, LEADS) === 1
  }

  /** The epoch that this node writes into the frames it builds. */
  get frameEpoch(): number {
    return Atomics.load(this.#words, FRAME_EPOCH) >>> 0
  }

  /** @param from where the log ends: all of it is confirmed (W5) */
  lead(epoch: number, from: number): void {
    Atomics.store(this.#words, FRAME_EPOCH, epoch)
    this.#storeBig(LED_FROM, from)
    this.#storeBig(LANE_TAKEN, from)
    Atomics.store(this.#words, LEADS, 1)
    Atomics.add(this.#words, PROGRESS, 1)
  }

  follow(): void {
    Atomics.store(this.#words, LEADS, 0)
    this.#storeBig(LED_FROM, 0)
    Atomics.add(this.#words, PROGRESS, 1)
  }

  /** The cluster has everything before it. */
  get confirmed(): number {
    return this.#loadBig(CONFIRMED)
  }

  publishConfirmed(position: number): void {
    this.#storeBig(CONFIRMED, position)
    Atomics.add(this.#words, PROGRESS, 1)
  }

  /** No cut ever reaches below it: the anchor on the disk ends there. */
  get anchored(): number {
    return this.#loadBig(ANCHORED)
  }

  publishAnchored(position: number): void {
    this.#storeBig(ANCHORED, position)
  }

  /** When the lease ends within which the leader may answer, on the clock that all threads share. */
  get leaseUntilMs(): number {
    return this.#loadBig(LEASE_UNTIL) / US_PER_MS
  }

  publishLease(untilMs: number): void {
    this.#storeBig(LEASE_UNTIL, Math.max(0, Math.floor(untilMs * US_PER_MS)))
  }

  /** External parts of frames that end at or below it were copied by the lane. */
  publishLaneTaken(position: number): void {
    this.#storeBig(LANE_TAKEN, position)
  }

  // Waking main, and main asking

  /** True when the caller is to send main a message: none is on its way. */
  claimWake(): boolean {
    return Atomics.exchange(this.#words, MAIN_WOKEN, 1) === 0
  }

  /** A message to main is on its way. */
  get isWakePending(): boolean {
    return Atomics.load(this.#words, MAIN_WOKEN) !== 0
  }

  /** Called by main before it looks at the positions. */
  acceptWake(): void {
    Atomics.store(this.#words, MAIN_WOKEN, 0)
  }

  get sealRequests(): number {
    return Atomics.load(this.#words, SEAL_REQUESTS)
  }

  requestSeal(): void {
    Atomics.add(this.#words, SEAL_REQUESTS, 1)
  }

  // Counters, each stored by the journal lane of its replica

  addGroup(replica: number, bytes: number): void {
    this.#add(replica, GROUPS, 1)
    this.#add(replica, BYTES, bytes)
  }

  addSync(replica: number, nanoseconds: number): void {
    this.#add(replica, SYNCS, 1)
    this.#add(replica, SYNC_NANOSECONDS, nanoseconds)
    this.syncSeconds[replica]!.observe(nanoseconds / 1e9)
  }

  counters(replica: number): JournalCounters {
    return {
      groups: this.#load(replica, GROUPS),
      syncs: this.#load(replica, SYNCS),
      bytes: this.#load(replica, BYTES),
      syncNanoseconds: this.#load(replica, SYNC_NANOSECONDS),
    }
  }

  // Producer state (W3)

  /** Main calls it while no journal lane runs. It hands what recovery found to the producer and to the next lanes. */
  beginGeneration(state: ProducerState, epoch: number): void {
    const generation = this.generation + 1
    storeBlock(this.#resetWords, this.#resetPositions, state, generation)
    for (let replica = 0; replica < this.replicaCount; replica += 1) {
      Atomics.store(this.#words, STATUS + replica, REPLICA_LIVE)
      this.#store(replica, WRITTEN, state.tail)
      this.#store(replica, SYNCED, state.tail)
      this.#store(replica, SEGMENT_BASE, state.mustOpen ? -1 : state.base)
    }
    Atomics.store(this.#words, MAIN_WOKEN, 0)
    Atomics.store(this.#words, EPOCH, epoch)
    Atomics.store(this.#words, FRAME_EPOCH, epoch)
    this.#storeBig(CONFIRMED, this.generation === 0 ? state.tail : Math.min(this.confirmed, state.tail))
    this.#storeBig(ANCHORED, this.generation === 0 ? state.tail : Math.min(this.anchored, state.tail))
    Atomics.store(this.#words, GENERATION, generation)
    Atomics.add(this.#words, PROGRESS, 1)
    Atomics.store(this.#words, PRODUCER_STATE, PRODUCER_OK)
  }

  /** Fills `into` and returns the generation it is of. */
  loadProducer(into: ProducerState): number {
    const generation = this.generation
    if (this.#liveWords[0] === generation) loadBlock(this.#liveWords, this.#livePositions, into)
    else loadBlock(this.#resetWords, this.#resetPositions, into)
    return generation
  }

  storeProducer(state: ProducerState, generation: number): void {
    storeBlock(this.#liveWords, this.#livePositions, state, generation)
  }

  /** The producer is between storing its state and having published to every ring. */
  get publishing(): boolean {
    return Atomics.load(this.#liveWords, 4) !== 0
  }

  set publishing(on: boolean) {
    Atomics.store(this.#liveWords, 4, on ? 1 : 0)
  }

  #loadBig(word: number): number {
    return Number(Atomics.load(this.#big, word))
  }

  #storeBig(word: number, value: number): void {
    Atomics.store(this.#big, word, BigInt(value))
  }

  #load(replica: number, word: number): number {
    return Number(Atomics.load(this.#big, replica * WORDS_PER_REPLICA + word))
  }

  #store(replica: number, word: number, value: number): void {
    Atomics.store(this.#big, replica * WORDS_PER_REPLICA + word, BigInt(value))
  }

  #add(replica: number, word: number, value: number): void {
    Atomics.add(this.#big, replica * WORDS_PER_REPLICA + word, BigInt(value))
  }

  /** The lowest value of this word that the primary and a write quorum have reached. */
  #reached(word: number): number {
    return Math.min(this.#load(0, word), this.#ofQuorum(word))
  }

  /** What a write quorum of the live replicas has at least; 0 when there is none. */
  #ofQuorum(word: number): number {
    if (this.replicaCount === 1) return this.#load(0, word)
    const values: number[] = []
    for (let replica = 0; replica < this.replicaCount; replica += 1) {
      if (this.isLive(replica)) values.push(this.#load(replica, word))
    }
    values.sort((a, b) => b - a)
    return values[this.writeQuorum - 1] ?? 0
  }
}

function blockWords(shared: SharedArrayBuffer, block: number): Int32Array {
  return new Int32Array(shared, BLOCKS_AT + block * BLOCK_BYTES, 6)
}

function blockPositions(shared: SharedArrayBuffer, block: number): Float64Array {
  return new Float64Array(shared, BLOCKS_AT + block * BLOCK_BYTES + 24, 3)
}

function storeBlock(words: Int32Array, positions: Float64Array, state: ProducerState, generation: number): void {
  words[1] = state.chain
  words[2] = state.mustOpen ? 1 : 0
  words[3] = state.frameCount
  positions[0] = state.tail
  positions[1] = state.base
  positions[2] = state.nextBase
  Atomics.store(words, 0, generation)
}

function loadBlock(words: Int32Array, positions: Float64Array, into: ProducerState): void {
  into.chain = words[1]! >>> 0
  into.mustOpen = words[2] === 1
  into.frameCount = words[3]!
  into.tail = positions[0]!
  into.base = positions[1]!
  into.nextBase = positions[2]!
}
