/**
 * An object store without threads, disk or clock: the engine on simulated files. The test steps its journals, readers, digest lanes and the
 * threads of checkpoints and cleaning.
 *
 *   journal  `step` writes the waiting frames as one group and tells main; `stepWithoutNotice` writes them, and main hears of it later or never
 *   digests  answer earlier requests in `step`, or when `serveDigests` is called; lanes can die
 *   main     reads what the simulated page cache has, if there is one
 *   readers  answer in `step`, or when `serveReads` is called; they give out copies, like threads
 *   writer   of checkpoints, and scanner of segments: they answer in `step`, or in `serveWrites` and `serveScans`; the writer can be made to fail
 *   time     a monotonic clock that begins anew with each start, and a wall clock that jumps
 *
 * Everything is small, extents of 1 KiB and segments of 3 KiB, so that segments are filled, sealed and cleaned all the time.
 */
import assert from 'node:assert/strict'
import { StoreCounters } from '../../../src/objectstore/counters.ts'
import { DigestLanes } from '../../../src/objectstore/bodies/digest-lanes.ts'
import { digestsOf } from '../../../src/objectstore/bodies/digest-loop.ts'
import type { DigestAnswer, DigestLaneData } from '../../../src/objectstore/bodies/digest-messages.ts'
import { RUN_BYTES } from '../../../src/objectstore/engine/run-memory.ts'
import { openEngine } from '../../../src/objectstore/engine/engine.ts'
import type { StoreEngine } from '../../../src/objectstore/engine/engine.ts'
import { FrameReader } from '../../../src/objectstore/engine/frame-reader.ts'
import { FrameReads } from '../../../src/objectstore/engine/frame-reads.ts'
import type { ReadResult } from '../../../src/objectstore/engine/read-protocol.ts'
import { scanPart } from '../../../src/objectstore/engine/scan-segment.ts'
import type { ScannedPart } from '../../../src/objectstore/engine/scan-segment.ts'
import { CheckpointThread } from '../../../src/engine/checkpoint-thread.ts'
import { ReadMemory } from '../../../src/libc.ts'
import { CachedFrames } from '../../../src/log/cached-frames.ts'
import type { CachedFile } from '../../../src/log/files.ts'
import type { Log, LogOptions } from '../../../src/log/log.ts'
import { Arena } from '../../../src/pipeline/arena.ts'
import { SpscRing } from '../../../src/pipeline/spsc-ring.ts'
import { EngineWorld, HeldWork, RESERVE_BYTES } from '../../support/engine-world.ts'
import { unloggedReadErrors } from '../../support/health.ts'
import { nextTurn } from '../../support/next-turn.ts'

export const EXTENT_BYTES = 1024
export const SEGMENT_BYTES = 3 * 1024
export const UPLOAD_TTL_MS = 100_000
/** Steps without a visible change after which nothing is under way. One is not enough, as a body goes from lane to lane. */
const QUIET_STEPS = 8
/** Bytes of the ring, of which a frame takes at most half. */
const RING_BYTES = 1 << 15
const LANES = 2

export interface StoreWorldOptions {
  readonly seed?: number
  /** Number of extents that fit into the arena. */
  readonly extents?: number
  readonly segmentBytes?: number
  readonly ringBytes?: number
  readonly readThreads?: number
  /** Share of reads that main finds in the page cache, 0 to 1. Null, the default: threads read everything. */
  readonly inPageCache?: number | null
}

/** A digest lane that runs in the test's thread. */
class HandDigests {
  readonly #answerAll: ReturnType<typeof digestsOf>
  readonly #heard: { onMessage(message: unknown): void; onDeath(error: Error): void }
  #isDead = false

  constructor(data: DigestLaneData, heard: { onMessage(message: unknown): void; onDeath(error: Error): void }) {
    this.#answerAll = digestsOf(SpscRing.attach(data.ring), data.arena)
    this.#heard = heard
  }

  /** Answers all requests so far. Main gets the answers as messages, one after the other. */
  serve(): void {
    if (this.#isDead) return
    const answers: DigestAnswer[] = []
    assert.equal(
      this.#answerAll((answer) => answers.push(answer)),
      null,
      'no checksum has to be loaded',
    )
    for (const answer of answers) this.#heard.onMessage(structuredClone(answer))
  }

  die(): void {
    this.#isDead = true
    this.#heard.onDeath(new Error('killed by the test'))
  }

  async stop(): Promise<void> {
    this.#isDead = true
  }
}

export class StoreWorld extends EngineWorld {
  readonly options: StoreWorldOptions
  engine!: StoreEngine
  arena!: Arena
  counters!: StoreCounters
  digests!: DigestLanes
  holdsReads = false
  holdsWrites = false
  holdsScans = false
  holdsDigests = false
  readonly readErrors = unloggedReadErrors()
  failsWrites = false
  #lanes: HandDigests[] = []
  readonly #reads = new HeldWork()
  readonly #writes = new HeldWork()
  readonly #scans = new HeldWork()

  static async open(options: StoreWorldOptions = {}): Promise<StoreWorld> {
    const opened = new StoreWorld(options)
    await opened.open()
    return opened
  }

  constructor(options: StoreWorldOptions = {}) {
    super(options.seed ?? 1)
    this.options = options
  }

  get store() {
    return this.engine.store
  }

  get core() {
    return this.engine.core
  }

  /** Bytes of all segments in the log. */
  get logBytes(): number {
    const { segments } = this.log
    return (segments.at(-1)?.end ?? 0) - (segments[0]?.base ?? 0)
  }

  async open(logOptions: Partial<LogOptions> = {}): Promise<void> {
    const { world, options } = this
    const { extents = 12, segmentBytes = SEGMENT_BYTES, ringBytes = RING_BYTES } = options
    this.boot()
    this.arena = Arena.create(extents * EXTENT_BYTES, EXTENT_BYTES)
    const arena = this.arena.shared
    this.log = await world.open({ ringBytes, segmentBytes, reserveBytes: RESERVE_BYTES, arena, ...logOptions })
    this.counters = new StoreCounters()
    this.digests = new DigestLanes({ count: LANES, arena, onDeath: () => {} }, (data, heard) => {
      const lane = new HandDigests(data, heard)
      this.#lanes.push(lane)
      return lane
    })
    this.engine = this.#openEngine(segmentBytes)
  }

  #openEngine(segmentBytes: number): StoreEngine {
    const { log, world, counters, digests, arena } = this
    const { files } = world
    const reader = new FrameReader(files, { segmentsDirectory: '/data/segments', logId: log.id }, null)
    const writer = new CheckpointThread(files)
    const warn = (details: object, message: string): void =>
      void this.warnings.push(`${message} ${JSON.stringify(details)}`)
    return openEngine({
      log,
      directory: '/data',
      files,
      reads: new FrameReads({
        log,
        cached: this.#cachedFrames(log),
        jobs: {
          run: (task) => this.#reads.hold<ReadResult>(() => structuredClone(reader.run(structuredClone(task)))),
        },
        threads: this.options.readThreads ?? 1,
        defer: (run) => queueMicrotask(run),
        counters,
        readErrors: this.readErrors,
      }),
      write: (task) => {
        const received = task.kind === 'part' ? structuredClone(task, { transfer: [task.bytes.buffer] }) : task
        return this.#writes.hold(() => {
          if (this.failsWrites) throw new Error('the test lets no checkpoint be written')
          writer.run(received)
        })
      },
      scan: (task) => this.#scans.hold<ScannedPart>(() => structuredClone(scanPart(files, task))),
      digests,
      arena,
      clock: { nowMs: () => world.nowMs, wallMs: () => this.wallMs, every: () => () => {} },
      logger: { debug: () => {}, info: () => {}, warn, error: warn },
      counters,
      random: this.fillRandom,
      defer: setImmediate,
      segmentBytes,
      readCacheBytes: 24 * RUN_BYTES,
      objectCacheBytes: 64 << 20,
      uploadTtlMs: UPLOAD_TTL_MS,
    })
  }

  /** A page cache that has all or a part of each read. Errors show only in threads. */
  #cachedFrames(log: Log): CachedFrames | null {
    const { inPageCache = null } = this.options
    if (inPageCache === null) return null
    const open = async (path: string): Promise<CachedFile> => {
      const file = this.files.open(path, 'read')
      return {
        read: ({ bytes, from, byteLength }, at) => {
          const length = this.random() < inPageCache ? byteLength : Math.floor(this.random() * byteLength)
          try {
            return file.read(bytes.subarray(from, from + length), at)
          } catch {
            return 0
          }
        },
        close: () => file.close(),
      }
    }
    const memory = (byteLength: number): ReadMemory => new ReadMemory(byteLength)
    return new CachedFrames({ log, open, memory, frameBytesMax: 4 * EXTENT_BYTES, spareMax: 2 })
  }

  // Threads

  /** Every thread does its work, except those that are held. */
  async step(): Promise<void> {
    this.world.step()
    if (!this.holdsDigests) this.serveDigests()
    if (!this.holdsReads) this.serveReads()
    if (!this.holdsWrites) this.serveWrites()
    if (!this.holdsScans) this.serveScans()
    await nextTurn()
  }

  /** Steps until no thread has anything to do. */
  async flush(): Promise<void> {
    this.holdsReads = this.holdsWrites = this.holdsScans = this.holdsDigests = false
    for (let quiet = 0; quiet < QUIET_STEPS; quiet += 1) {
      const before = this.#work()
      await this.step()
      if (before !== this.#work()) quiet = 0
    }
  }

  /** Text of what is under way: it is the same again if nothing moved. */
  #work(): string {
    const { log, core, arena } = this
    const served = this.#reads.served + this.#writes.served + this.#scans.served
    const { tail, inFlight } = core.appender
    return `${log.written} ${log.segments.length} ${tail} ${inFlight} ${arena.usedBytes} ${served}`
  }

  /** One of the running digest lanes dies. */
  digestLaneDies(number: number): void {
    const [lane] = this.#lanes.splice(number % Math.max(1, this.#lanes.length), 1)
    lane?.die()
  }

  serveDigests(): void {
    for (const lane of Array.from(this.#lanes)) lane.serve()
  }

  serveReads(): void {
    this.#reads.serve()
  }

  serveWrites(): void {
    this.#writes.serve()
  }

  serveScans(): void {
    this.#scans.serve()
  }

  // Time

  advance(ms: number): void {
    this.passTime(ms)
  }

  /** Leaves this much free space on the disk besides the log's reserve, and lets the log notice. Infinity: no limit. */
  limitDisk(bytes: number): void {
    this.setRoom(bytes)
    this.lookAtSpace()
  }

  /** Lets the log notice free space. */
  lookAtSpace(): void {
    this.advance(250)
    this.letLogLook()
  }

  // The end

  async close(): Promise<void> {
    await this.flush()
    await this.digests.close()
    await this.log.close()
    await nextTurn()
    this.serveWrites()
    await nextTurn()
    this.end('kill')
  }

  protected dropAll(): void {
    this.#reads.drop()
    this.#writes.drop()
    this.#scans.drop()
    this.#lanes = []
    this.holdsReads = this.holdsWrites = this.holdsScans = this.holdsDigests = this.failsWrites = false
  }
}
