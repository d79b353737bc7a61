/**
 * A broker without threads, disk or clock: the engine runs on simulated files, and the test moves its journal, readers and writers by hand.
 *
 *   journal   `step` writes what waits as one group and tells main; `stepWithoutNotice` writes it, and main hears of it later or never
 *   readers   answer at once, or when `serveReads` is called; their tasks are cloned and buffers transferred, as between threads
 *   writers   write sidecars and checkpoints, and are served likewise; `failsWrites` makes them fail
 *   time      a monotonic clock that begins anew with each start, and a wall clock that jumps
 */
import { createBroker } from '../../src/broker/broker.ts'
import type { Broker } from '../../src/broker/broker.ts'
import type { Core } from '../../src/broker/engine/core.ts'
import { openEngine } from '../../src/broker/engine/engine.ts'
import type { BrokerEngine } from '../../src/broker/engine/engine.ts'
import { Retainer } from '../../src/broker/engine/retainer.ts'
import { asPromises } from '../../src/engine/as-promises.ts'
import type { AskedBroker, Caller, Operations, AbandonedSignal } from '../../src/broker/operations.ts'
import { TenantQuotas } from '../../src/broker/quotas.ts'
import type { ReadResult, ReadTask } from '../../src/broker/records/read-protocol.ts'
import { RecordReader } from '../../src/broker/records/reader.ts'
import { RecordReads } from '../../src/broker/records/record-reads.ts'
import { publishSegmentIndex } from '../../src/broker/records/segment-index.ts'
import type { SidecarTask } from '../../src/broker/records/segment-index.ts'
import { CheckpointThread } from '../../src/engine/checkpoint-thread.ts'
import type { CheckpointTask } from '../../src/engine/checkpoint-thread.ts'
import type { ReplicationOptions } from '../../src/broker/operations/replication-workers.ts'
import type { ReplicationPolicy } from '../../src/config/replication-binding.ts'
import { NO_QUOTAS } from '../../src/config/quotas.ts'
import type { Quotas } from '../../src/config/quotas.ts'
import { unloggedReadErrors } from './health.ts'
import { EngineWorld, HeldWork, RESERVE_BYTES } from './engine-world.ts'
import { World } from './log-harness.ts'
import { nextTurn } from './next-turn.ts'

export const CALLER: Caller = { tenant: 'local', principal: 'tester' }
/** A client that stays connected. */
export const NEVER_ABANDONED: AbandonedSignal = { onAbandoned: () => {} }

const SEGMENT_BYTES = 4096
const RING_BYTES = 1 << 17

export interface BrokerWorldOptions {
  readonly seed?: number
  readonly segmentBytes?: number
  readonly localDisk?: 'sync' | 'append'
  readonly quotas?: Quotas
  /** Whether main renders the records that the log's ring still has. Default: readers render all. */
  readonly readsRecent?: boolean
  /** Further directories of the log. */
  readonly replicas?: readonly string[]
  /** How many directories must have synced a frame. Default: all. */
  readonly writeQuorum?: number
  /** Default: all events are kept. */
  readonly auditMaxAgeMs?: number
  readonly policies?: readonly ReplicationPolicy[]
  /** How batches get to other sites. Default: there is no binding. */
  readonly shipping?: ReplicationOptions
}

interface Timer {
  readonly intervalMs: number
  readonly task: () => void
  dueMs: number
}

export class BrokerWorld extends EngineWorld {
  readonly options: BrokerWorldOptions
  core!: Core
  engine!: BrokerEngine
  retainer!: Retainer
  broker!: AskedBroker & Omit<Broker, 'operations'>
  /** The same operations, answered without promises. */
  operations!: Operations
  holdsReads = false
  holdsWrites = false
  failsWrites = false
  /** How often long work yielded to other work. */
  turns = 0
  /** Milliseconds that the machine was asleep. */
  sleptMs = 0
  /** Whether the next start sets broker time. */
  setsClock = false
  readonly #reads = new HeldWork()
  readonly #writes = new HeldWork()
  readonly #timers = new Set<Timer>()
  /** Number of processes that ended. */
  #life = 0

  static async open(options: BrokerWorldOptions = {}): Promise<BrokerWorld> {
    const opened = new BrokerWorld(options)
    await opened.open()
    return opened
  }

  constructor(options: BrokerWorldOptions = {}, world?: World) {
    super(options.seed ?? 1, world)
    this.options = options
  }

  /** The time that leases and delays go by. */
  get nowMs(): number {
    return this.core.time.nowMs()
  }

  async open(): Promise<void> {
    const { world, options } = this
    this.boot()
    const segmentBytes = options.segmentBytes ?? SEGMENT_BYTES
    const replicas = options.replicas ?? []
    const writeQuorum = options.writeQuorum ?? 1 + replicas.length
    const writeAheadBytes = Math.floor(segmentBytes / 8)
    this.log = await world.open({
      ringBytes: RING_BYTES,
      segmentBytes,
      reserveBytes: RESERVE_BYTES,
      replicas,
      writeQuorum,
      writeAheadBytes,
    })
    const opening = this.#openEngine()
    const stepping = { done: false }
    const opened = opening.finally(() => (stepping.done = true))
    opened.catch(() => {}) // waited for below
    while (!stepping.done) {
      world.step()
      await nextTurn()
    }
    this.engine = await opened
    const { core, checkpoints } = this.engine
    this.core = core
    this.retainer = new Retainer(core, checkpoints, segmentBytes)
    const broker = createBroker(
      core,
      new TenantQuotas(options.quotas ?? NO_QUOTAS, () => world.nowMs),
      'node-1',
      options.shipping ?? null,
    )
    this.operations = broker.operations
    this.broker = {
      ...asPromises(broker.operations),
      groupAges: broker.groupAges,
      close: () => broker.close(),
      replacePolicies: (policies) => broker.replacePolicies(policies),
      get replicationGauges() {
        return broker.replicationGauges
      },
      get waitingClaims() {
        return broker.waitingClaims
      },
    }
    await nextTurn()
  }

  #openEngine() {
    const { log, world } = this
    const reader = new RecordReader(world.files, { segmentsDirectory: '/data/segments', logId: log.id })
    const writer = new CheckpointThread(world.files)
    const life = this.#life
    const warn = (_details: object, message: string): void => void this.warnings.push(message)
    return openEngine({
      log,
      directories: ['/data', ...(this.options.replicas ?? [])],
      files: world.files,
      reads: new RecordReads({
        jobs: {
          run: (task, { transfer = [] }) => {
            const received = structuredClone<ReadTask>(task, { transfer: [...transfer] as ArrayBuffer[] })
            return this.#ask<ReadResult>(this.#reads, this.holdsReads, () => reader.run(received))
          },
        },
        threads: 1,
        waitingMax: 1000,
        readErrors: unloggedReadErrors(),
        readable: () => ({ from: log.segments[0]?.base ?? 0, end: log.written, generation: log.generation }),
        defer: (run) => queueMicrotask(run),
      }),
      write: (task: SidecarTask | CheckpointTask) => {
        if (life !== this.#life) return new Promise(() => {}) // its process is dead
        const received = structuredClone(task, { transfer: 'bytes' in task ? [task.bytes.buffer] : [] })
        return this.#ask(this.#writes, this.holdsWrites, () => {
          if (this.failsWrites) throw new Error('the test lets no sidecar be written')
          if (received.kind === 'sidecar') publishSegmentIndex(world.files, received.directory, received.bytes)
          else writer.run(received)
        })
      },
      clock: {
        nowMs: () => world.nowMs,
        wallMs: () => this.wallMs,
        uptimeMs: () => world.nowMs + this.sleptMs,
        every: (intervalMs, task) => {
          const timer = { intervalMs, task, dueMs: world.nowMs + intervalMs }
          this.#timers.add(timer)
          return () => void this.#timers.delete(timer)
        },
      },
      logger: { debug: () => {}, info: () => {}, warn, error: warn },
      defer: (run) => queueMicrotask(run),
      turn: () => {
        this.turns += 1
        return nextTurn()
      },
      random: this.fillRandom,
      localDisk: this.options.localDisk ?? 'sync',
      writeQuorum: this.options.writeQuorum ?? 1 + (this.options.replicas?.length ?? 0),
      hasReplicas: this.options.replicas !== undefined,
      auditMaxAgeMs: this.options.auditMaxAgeMs ?? null,
      setsClock: this.setsClock,
      inMemory: this.options.readsRecent ? { cached: null } : null,
      tenants: [CALLER.tenant],
      policies: this.options.policies ?? [],
    })
  }

  // Threads

  /** Lets everything that waits be written, synced and reported, until nothing waits. */
  async flush(): Promise<void> {
    this.holdsReads = false
    for (let quiet = 0; quiet < 2; quiet += 1) {
      const before = `${this.log.written} ${this.core.appender.inFlight} ${this.#reads.waiting}`
      this.serveReads()
      this.world.step()
      await nextTurn()
      if (before !== `${this.log.written} ${this.core.appender.inFlight} ${this.#reads.waiting}`) quiet = 0
    }
  }

  async step(): Promise<void> {
    this.world.step()
    await nextTurn()
  }

  serveReads(): void {
    this.#reads.serve()
  }

  serveWrites(): void {
    this.#writes.serve()
  }

  // Time

  /** Passes time. Timers that are due then run once, as after a stall. */
  async advance(ms: number): Promise<void> {
    this.passTime(ms)
    const due = [...this.#timers].filter(({ dueMs }) => dueMs <= this.world.nowMs)
    for (const timer of due.sort((a, b) => a.dueMs - b.dueMs)) {
      if (!this.#timers.has(timer)) continue
      timer.dueMs = this.world.nowMs + timer.intervalMs
      timer.task()
    }
    await nextTurn()
  }

  /** Runs all timers, due or not. No time passes; each does what is due by the clock. */
  async tick(): Promise<void> {
    for (const { task } of Array.from(this.#timers)) task()
    await nextTurn()
  }

  /** Leaves this many bytes free on the disk, besides the log's reserve; Infinity: more than enough. The log notices. */
  async limitDisk(bytes: number): Promise<void> {
    this.setRoom(bytes)
    await this.advance(250)
    this.letLogLook()
  }

  // The end

  async close(): Promise<void> {
    this.broker.close()
    this.holdsReads = false
    this.holdsWrites = false
    this.serveReads()
    this.serveWrites()
    await this.log.close()
    await this.engine.idle()
    this.end('kill')
  }

  /** A copy of the files and of the time, for another broker. */
  copy(seed: number): BrokerWorld {
    const world = new World({ seed })
    world.files = this.world.files.clone(seed)
    const copy = new BrokerWorld({ ...this.options, seed }, world)
    copy.elapsedMs = this.elapsedMs
    copy.wallSkewMs = this.wallSkewMs
    return copy
  }

  protected dropAll(): void {
    this.#reads.drop()
    this.#writes.drop()
    this.#life += 1
    this.#timers.clear()
    this.holdsReads = false
    this.holdsWrites = false
    this.failsWrites = false
  }

  /** A thread that is not held answers at once. */
  #ask<Result>(thread: HeldWork, isHeld: boolean, run: () => Result): Promise<Result> {
    return isHeld ? thread.hold(run) : new Promise((resolve) => resolve(run()))
  }
}

/** The state of an operation. */
export type Outcome<T> =
  | { readonly kind: 'pending' }
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'refused'; readonly error: unknown }

export class Pending<T> {
  outcome: Outcome<T> = { kind: 'pending' }
  readonly #listeners: (() => void)[] = []

  constructor(operation: Promise<T>) {
    operation.then(
      (value) => this.#settle({ kind: 'answered', value }),
      (error: unknown) => this.#settle({ kind: 'refused', error }),
    )
  }

  /** Calls the listener in the turn in which the operation is answered or refused. */
  onSettled(listener: () => void): void {
    this.#listeners.push(listener)
  }

  get value(): T {
    if (this.outcome.kind !== 'answered') throw new Error(`no answer: ${JSON.stringify(this.outcome)}`)
    return this.outcome.value
  }

  /** Code of the refusal; null when there is none. */
  get code(): unknown {
    const { outcome } = this
    if (outcome.kind !== 'refused') return null
    return outcome.error instanceof Error && 'code' in outcome.error ? outcome.error.code : String(outcome.error)
  }

  #settle(outcome: Outcome<T>): void {
    this.outcome = outcome
    for (const listener of this.#listeners) listener()
  }
}

/** The result of an operation, after everything that it waits for is flushed. */
export async function resultAfterFlush<T>(world: BrokerWorld, operation: Promise<T>): Promise<T> {
  const pending = new Pending(operation)
  await world.flush()
  if (pending.outcome.kind === 'refused') throw pending.outcome.error
  return pending.value
}

// oxlint-disable-next-line no-unnecessary-type-parameters -- the type is the caller's claim, which its assertions check
export const jsonOf = <T>(bytes: Uint8Array): T => JSON.parse(Buffer.from(bytes).toString()) as T
