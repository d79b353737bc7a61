/**
 * Keeps a decode lane at work: starts it on what the log holds, and replaces it when it dies or when the log was recovered in
 * place, since its index may then describe frames that were never stored.
 *
 * V1  a lane starts only when every frame that was published is written: its index is rebuilt from the file
 * V2  between two lanes requests are refused as retryable, and health says so
 * V3  a lane that was ended because the log restarts is no failure: only lanes that die by themselves are counted
 * V4  a lane at work knows every bundle of its window in its present form: it is told first of what changed while it started
 */
import { StoreError, messageOf } from '../../errors.ts'
import type { Log, LogState } from '../../log/log.ts'
import { LogWriter } from '../../log/log-writer.ts'
import type { Position } from '../../log/log-writer.ts'
import type { Logger } from '../../observability/logger.ts'
import type { SegmentRegistry } from '../index/segment-registry.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import { newsOfBundles } from './bundle-news.ts'
import { DecodeLane } from './decode-lane.ts'
import type { DecodeLaneListener, DecodeLaneStart } from './decode-lane.ts'
import type { BundlePlace } from '../index/catalog.ts'

/** After more replacements than this within the window no lane is started any more: the service stays unhealthy until a restart. */
const REPLACEMENTS_MAX = 5
const REPLACEMENT_WINDOW_MS = 60_000
/** Milliseconds between two looks at whether all is written, or whether a lane is at work. */
const LOOK_AGAIN_MS = 2

export interface SupervisorParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly logger: Logger
  readonly policy: () => TenantPolicy
  readonly bundlePlaces: () => readonly BundlePlace[]
  /** What every lane starts with, whatever the log holds. */
  readonly common: Pick<
    DecodeLaneStart,
    'arena' | 'indexes' | 'gateway' | 'datasets' | 'gatewayRecords' | 'gatewayBytes' | 'maxBodyBytes' | 'lanes'
  >
  readonly listener: Omit<DecodeLaneListener, 'onDeath'>
  /** Everything the lane was given and did not answer is lost. */
  onLaneDeath(): void
  /** Called while there is no lane: every frame that was published ends at or before this position. */
  onTail(tail: Position): void
  /** A lane is at work. */
  onStarted(lane: DecodeLane): void
  /** Lanes died too often: none is started any more. */
  onGivenUp(failure: string): void
  readonly nowMs: () => number
  /** Calls once. */
  readonly after: (delayMs: number, run: () => void) => void
}

export class DecodeSupervisor {
  readonly #parts: SupervisorParts
  #lane: DecodeLane | null = null
  #starting: Promise<void> | null = null
  #closed = false
  #hasStarted = false
  /** V3 */
  readonly #ended = new WeakSet<DecodeLane>()
  #replacedAtMs: number[] = []
  #failure: string | null = null

  constructor(parts: SupervisorParts) {
    this.#parts = parts
    parts.log.onStateChange((state) => this.#onLogState(state))
  }

  /** The lane at work; null while there is none. */
  get lane(): DecodeLane | null {
    return this.#lane
  }

  /** Why there is no lane; null when there is one. */
  get problem(): string | null {
    return this.#lane ? null : (this.#failure ?? 'the decode lane is being replaced')
  }

  /** Resolves when a lane is at work. */
  start(): Promise<void> {
    this.#starting ??= this.#startLane().finally(() => {
      this.#starting = null
    })
    return this.#starting
  }

  /** Resolves when a lane is at work. Rejects when there will be none. */
  async atWork(): Promise<void> {
    while (this.#lane === null) {
      if (this.#closed || this.#failure !== null)
        throw new StoreError('unavailable', 'decode_lane_missing', this.#failure ?? 'the service stops')
      await this.#pause()
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#starting?.catch(() => {}) // reported where it failed
    const lane = this.#lane
    this.#lane = null
    await lane?.stop()
  }

  async #startLane(): Promise<void> {
    const { log, registry, common, listener, policy, bundlePlaces } = this.#parts
    await log.recoverProducer()
    const { generation } = log
    const tail = await this.#untilWritten()
    this.#parts.onTail(tail)
    const last = log.segments.at(-1)
    const active = last && !last.sealed ? { base: last.base, end: tail, recordsPath: last.recordsPath } : null
    const start: DecodeLaneStart = {
      ...common,
      writer: log.writer,
      logId: log.id,
      policy: policy(),
      active,
      sealing: registry.sealing(active?.base ?? -1),
      bundles: bundlePlaces(),
    }
    const lane = DecodeLane.start(start, { ...listener, onDeath: (error) => this.#onDeath(lane, error) })
    const recoveredRecords = await lane.ready
    lane.drain() // tells which index the active segment has
    lane.applyPolicy(policy()) // may have been reloaded meanwhile
    // The log restarted meanwhile: this lane is ended like one that is at work then.
    if (log.generation !== generation || log.state.kind === 'restarting') return this.#end(lane)
    this.#lane = lane
    this.#tellNews(lane, start.bundles)
    // The first lane is not worth a line: a start logs one line that it is ready, or why it cannot work.
    this.#parts.logger[this.#hasStarted ? 'info' : 'debug']({ recoveredRecords }, 'decode lane ready')
    this.#hasStarted = true
    this.#parts.onStarted(lane)
  }

  /** V4 */
  #tellNews(lane: DecodeLane, told: DecodeLaneStart['bundles']): void {
    const { published, dropped } = newsOfBundles(told, this.#parts.bundlePlaces())
    for (const base of dropped) lane.dropBundle(base)
    for (const bundle of published) lane.publishBundle(bundle)
  }

  /** V1; resolves with the end of the last frame. */
  async #untilWritten(): Promise<number> {
    const { log } = this.#parts
    const writer = LogWriter.attach(log.writer)
    const isWritten = (): boolean => {
      const { tail } = writer // read each time: frames that were lost in a restart in place are not waited for
      return log.written >= tail && (tail === 0 || (log.segments.at(-1)?.end ?? 0) >= tail)
    }
    while (!isWritten() && !this.#closed && log.state.kind !== 'read-only') await this.#pause()
    return writer.tail
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#parts.after(LOOK_AGAIN_MS, resolve))
  }

  #onLogState(state: LogState): void {
    // The lane's index may describe frames that are gone. `#onDeath` starts the next lane.
    if (state.kind !== 'restarting') return
    if (this.#lane !== null) void this.#end(this.#lane)
    this.#lane = null
  }

  /** V3 */
  #end(lane: DecodeLane): Promise<void> {
    this.#ended.add(lane)
    return lane.terminate()
  }

  #onDeath(lane: DecodeLane, error: Error): void {
    if (this.#lane === lane) this.#lane = null
    const isFailure = !this.#ended.has(lane)
    if (isFailure) this.#parts.logger.error({ reason: error.message }, 'the decode lane died')
    this.#parts.onLaneDeath()
    this.#parts.registry.reclaimIndexes()
    if (this.#closed || (isFailure && this.#giveUpAfter(error))) return
    const settled = this.#starting?.catch(() => {}) ?? Promise.resolve() // the lane that died may never have been ready
    settled
      .then(() => this.start())
      .catch((failure: unknown) => {
        const reason = messageOf(failure)
        this.#parts.logger.error({ reason }, 'the decode lane could not be replaced')
      })
  }

  /** V3. True when lanes died too often. */
  #giveUpAfter(error: Error): boolean {
    const nowMs = this.#parts.nowMs()
    this.#replacedAtMs = [...this.#replacedAtMs.filter((at) => nowMs - at < REPLACEMENT_WINDOW_MS), nowMs]
    const times = this.#replacedAtMs.length
    if (times <= REPLACEMENTS_MAX) return false
    this.#failure = `the decode lane died ${times} times in a minute: ${error.message}`
    this.#parts.onGivenUp(this.#failure)
    return true
  }
}
