/**
 * The workers of a node: one for each stream and policy, woken when there is something to ship.
 *
 * S1  at most REPLICATION_BATCHES_MAX batches are read or under way at once; workers take turns, a batch each
 * S2  a worker that failed, or whose tenant has sent enough, goes on when its time has come, or when it is polled
 * S3  policies may be replaced while workers ship: a worker whose link stays continues where it was, one whose policy is gone retires
 */
import type { ReplicationPolicy } from '../../config/replication-binding.ts'
import type { ReplicationGauges } from '../counters.ts'
import type { Core } from '../engine/core.ts'
import { isSameLink, linkOf } from '../engine/replication-policies.ts'
import { REPLICA_APPLY_RECORDS_MAX, REPLICATION_BATCHES_MAX } from '../limits.ts'
import type { StreamState } from '../state/state.ts'
import { ReplicationWorker } from './replication-worker.ts'
import type { ReplicationTransport, WorkerParts } from './replication-worker.ts'

const TICK_MS = 50

export interface ReplicationOptions {
  readonly transport: ReplicationTransport
  /** From 0 to below 1. */
  readonly random: () => number
  /** Records of a batch; default: as many as a target takes. */
  readonly batchRecordsMax?: number
}

interface Poll {
  readonly isDone: () => boolean
  readonly untilMs: number
  readonly done: () => void
}

export class ReplicationWorkers {
  readonly #core: Core
  readonly #parts: WorkerParts
  readonly #closing = new AbortController()
  readonly #stopTimer: () => void
  /** By number of the stream. */
  readonly #workers = new Map<number, readonly ReplicationWorker[]>()
  readonly #queued = new Set<ReplicationWorker>()
  readonly #polls = new Set<Poll>()
  #underWay = 0
  #gauges: ReplicationGauges | null = null

  constructor(core: Core, takeEgress: WorkerParts['takeEgress'], options: ReplicationOptions) {
    const { transport, random, batchRecordsMax = REPLICA_APPLY_RECORDS_MAX } = options
    this.#core = core
    this.#parts = {
      core,
      transport,
      takeEgress,
      random,
      batchRecordsMax,
      closing: this.#closing.signal,
      onBatchEnded: (worker) => this.#batchEnded(worker),
    }
    core.onVisible((stream) => this.#wake(stream))
    this.#stopTimer = core.timers.every(TICK_MS, () => this.#tick())
    this.policiesReplaced()
  }

  get underWay(): number {
    return this.#underWay
  }

  /** All workers of one stream; creates those that are missing. */
  of(stream: StreamState): readonly ReplicationWorker[] {
    const policies = this.#core.policies.of(stream)
    const known = this.#workers.get(stream.number) ?? NONE
    if (policies.length === 0 && known.length === 0) return NONE
    const there = known[0]?.stream
    const isSame =
      there?.tenant === stream.tenant && there.createdAtMs === stream.createdAtMs && there.name === stream.name
    if (isSame && known.length === policies.length && known.every(({ policy }, index) => policy === policies[index])) {
      for (const worker of known) worker.adopt(stream)
      return known
    }
    const workers = policies.map((policy) => {
      const link = linkOf(policy)
      const kept = isSame ? known.find((worker) => isSameLink(worker.link, link)) : undefined
      kept?.adopt(stream)
      kept?.follow(policy)
      return kept ?? new ReplicationWorker(stream, policy, this.#parts)
    })
    const reason = isSame ? 'its policy is no longer in the binding' : 'the stream is gone'
    for (const worker of known) if (!workers.includes(worker)) worker.retire(reason)
    if (workers.length === 0) this.#workers.delete(stream.number)
    else this.#workers.set(stream.number, workers)
    return workers
  }

  /** S3. Called when the policies of the core were replaced. */
  policiesReplaced(): void {
    for (const stream of this.#core.state.streams) if (stream) this.#wake(stream)
  }

  worker(stream: StreamState, policy: ReplicationPolicy): ReplicationWorker {
    return this.of(stream).find((each) => each.policy === policy)! // the policy is one of the stream's
  }

  /** Summed once for all metrics of a scrape, which reads them in one turn. */
  get gauges(): ReplicationGauges {
    if (this.#gauges === null) {
      this.#gauges = this.#summed()
      queueMicrotask(() => (this.#gauges = null))
    }
    return this.#gauges
  }

  #summed(): ReplicationGauges {
    const sums = { workers: 0, paused: 0, failing: 0, lagging: 0, lagRecords: 0, lagMs: 0 }
    for (const worker of this.#each()) {
      sums.workers += 1
      sums.paused += worker.isPaused ? 1 : 0
      if (!worker.isActive) continue
      sums.failing += worker.failure === null ? 0 : 1
      sums.lagging += worker.isLagging ? 1 : 0
      sums.lagRecords += worker.lagRecords
      sums.lagMs = Math.max(sums.lagMs, worker.lagMs)
    }
    return sums
  }

  /** S2. Makes the worker continue now. */
  resume(worker: ReplicationWorker): void {
    worker.resume()
    this.#queue(worker)
  }

  /** Resolves when each worker has shipped what was visible, or cannot; or when the time is over. */
  settled(workers: readonly ReplicationWorker[], withinMs: number): Promise<void> {
    const ends = new Map(workers.map((worker) => [worker, worker.stream.visibleNext]))
    for (const worker of workers) this.resume(worker)
    const isDone = (): boolean =>
      workers.every((worker) => {
        if (worker.next >= ends.get(worker)!) return true
        return !this.#queued.has(worker) && !worker.isReading && worker.batchesInFlight === 0
      })
    return new Promise((done) => {
      this.#polls.add({ isDone, untilMs: this.#core.time.nowMs() + withinMs, done })
      this.#tellPolls()
    })
  }

  close(): void {
    this.#stopTimer()
    this.#closing.abort()
    this.#queued.clear()
    for (const worker of this.#each()) worker.giveUpWaiting(null, 'the node stops')
    for (const poll of this.#polls) poll.done()
    this.#polls.clear()
  }

  *#each(): Generator<ReplicationWorker> {
    for (const workers of this.#workers.values()) yield* workers
  }

  #wake(stream: StreamState): void {
    for (const worker of this.of(stream)) {
      worker.noteVisible()
      if (worker.resumeAtMs === null) this.#queue(worker)
    }
  }

  #queue(worker: ReplicationWorker): void {
    if (this.#closing.signal.aborted || worker.isRetired || worker.isPaused || !worker.isBehind) return
    this.#queued.add(worker)
    this.#begin()
  }

  /** S1 */
  #begin(): void {
    for (const worker of this.#queued) {
      if (this.#underWay >= REPLICATION_BATCHES_MAX) return
      if (worker.isReading) continue // the worker stays queued until its read is done
      this.#queued.delete(worker)
      void this.#ship(worker)
    }
  }

  async #ship(worker: ReplicationWorker): Promise<void> {
    worker.isReading = true
    this.#underWay += 1
    const step = await worker.ship()
    worker.isReading = false
    if (step !== 'sent') this.#underWay -= 1
    if (step !== 'done') this.#queue(worker)
    this.#begin()
    this.#tellPolls()
  }

  #batchEnded(worker: ReplicationWorker): void {
    this.#underWay -= 1
    if (worker.resumeAtMs === null) this.#queue(worker)
    this.#begin()
    this.#tellPolls()
  }

  #tick(): void {
    const { log, state, time } = this.#core
    if (!log.mayAnswer) return // another node of the cluster ships
    const nowMs = time.nowMs()
    for (const [number, workers] of this.#workers) {
      const stream = state.streams[number]
      if (stream === undefined) {
        for (const worker of workers) worker.retire('the stream is gone')
        this.#workers.delete(number)
        continue
      }
      for (const worker of workers) {
        if (!worker.isActive) continue
        worker.noteSkipped()
        worker.giveUpWaiting(nowMs, 'it did not answer in time')
        if (worker.isPaused) worker.giveUpWaiting(null, 'its worker is paused')
        if ((worker.resumeAtMs ?? nowMs) <= nowMs) this.resume(worker)
      }
    }
    this.#tellPolls()
  }

  #tellPolls(): void {
    if (this.#polls.size === 0) return
    const nowMs = this.#core.time.nowMs()
    for (const poll of this.#polls) {
      if (poll.untilMs > nowMs && !poll.isDone()) continue
      this.#polls.delete(poll)
      poll.done()
    }
  }
}

const NONE: readonly never[] = []
