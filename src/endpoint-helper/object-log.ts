/**
 * The objects of all activations in a log of their own; main is its producer.
 *
 * O1  an append is answered once: stored, after its frame is durable, or not known to be stored
 * O2  an object can be read from the moment its append is answered, in the order of the log
 * O3  while a compaction runs, appends are held back, no longer than it takes to write the live state
 */
import { StoreError } from '../errors.ts'
import { Log } from '../log/log.ts'
import { LogWriter } from '../log/log-writer.ts'
import type { Position } from '../log/log-writer.ts'
import type { LogEnvironment } from '../log/environment.ts'
import type { QuarantineIncident } from '../log/quarantine.ts'
import { replaySegment } from '../log/read.ts'
import type { Degradation } from '../observability/health.ts'
import { logDegradations, logProblem, reportLogState, rereadAcknowledged } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import { Compaction } from './compaction.ts'
import { checkFrame, recordFrame, writeFrame } from './frames.ts'
import type { StoredObject } from './frames.ts'
import { APPENDS_IN_FLIGHT_MAX, COMPACT_LOG_TO_LIVE, RESERVE_BYTES, SIZES } from './limits.ts'
import type { ObjectLogSizes } from './limits.ts'
import { RECENT_LIMITS } from './recent-objects.ts'
import type { RecentLimits, RecentObjects } from './recent-objects.ts'
import { Replay } from './replay.ts'

export interface ObjectLogOptions {
  readonly directory: string
  readonly environment: LogEnvironment
  readonly limits?: RecentLimits
  readonly sizes?: ObjectLogSizes
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
  onIncident(incident: QuarantineIncident): void
}

interface Append {
  readonly stored: StoredObject
  done(problem: StoreError | null): void
}

interface InFlight extends Append {
  readonly end: Position
  readonly generation: number
}

export class ObjectLog {
  readonly recent: RecentObjects
  readonly #log: Log
  readonly #writer: LogWriter
  readonly #sizes: ObjectLogSizes
  /** In the order of the log. */
  readonly #inFlight: InFlight[] = []
  /** O3 */
  #held: Append[] = []
  #compactionDue = false
  #compaction: Compaction | null = null
  /** No compaction before the log is that long, so that one which fails or frees little is not repeated at once. */
  #compactFrom: Position = 0

  /** @throws StoreError of Log.open, and endpoint_format_newer */
  static async open(options: ObjectLogOptions): Promise<ObjectLog> {
    const { directory, environment, sizes = SIZES } = options
    const log = await Log.open({
      directory,
      environment,
      segmentBytes: sizes.segmentBytes,
      ringBytes: sizes.ringBytes,
      reserveBytes: RESERVE_BYTES,
      onIncident: (incident) => options.onIncident(incident),
    })
    try {
      const objects = new ObjectLog(log, sizes, replayed(log, options))
      reportLogState(log, options.logger, 'the endpoint log')
      return objects
    } catch (error) {
      await log.close()
      throw error
    }
  }

  private constructor(log: Log, sizes: ObjectLogSizes, replay: Replay) {
    this.#log = log
    this.#writer = LogWriter.attach(log.writer)
    this.#sizes = sizes
    this.recent = replay.recent
    log.dropBefore(replay.copyFrom)
    log.onProgress(() => this.#progress())
    log.onStateChange(() => this.#progress())
  }

  /** Null while appends are taken. */
  get problem(): string | null {
    return logProblem(this.#log)
  }

  degradations(): readonly Degradation[] {
    return logDegradations(this.#log)
  }

  /** An operator may have acknowledged incidents. */
  rereadAcknowledged(logger: Pick<Logger, 'info' | 'error'>): void {
    rereadAcknowledged(this.#log, logger)
  }

  /** Resolves when the object is durable. Rejects with a StoreError: then it is not known to be stored. */
  append(stored: StoredObject): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (problem: StoreError | null): void => (problem ? reject(problem) : resolve())
      if (this.#inFlight.length + this.#held.length >= APPENDS_IN_FLIGHT_MAX) return done(busy())
      if (this.#compactionDue) this.#held.push({ stored, done })
      else this.#write({ stored, done })
    })
  }

  /** Objects that were written are synced and answered first. */
  async close(): Promise<void> {
    await this.#log.close()
    const left = [...this.#inFlight.splice(0), ...this.#held.splice(0)]
    for (const append of left) append.done(unavailable('the service is stopping'))
  }

  #write(append: Append): void {
    const written = writeFrame(this.#writer, recordFrame(append.stored), 'admit')
    switch (written) {
      case 'ok':
        this.#inFlight.push({ ...append, end: this.#writer.end, generation: this.#writer.generation })
        break
      case 'full':
        append.done(busy())
        break
      case 'no-space':
        append.done(unavailable('the disk is full'))
        break
      case 'read-only':
        append.done(unavailable('the log takes no writes'))
    }
  }

  #progress(): void {
    this.#settle()
    this.#compact()
  }

  /** O1, O2 */
  #settle(): void {
    for (let next = this.#inFlight[0]; next; next = this.#inFlight[0]) {
      const outcome = this.#log.outcome(next.end, next.generation)
      if (outcome === 'waiting') return
      this.#inFlight.shift()
      if (outcome === 'stored') this.recent.add(next.stored)
      next.done(outcome === 'stored' ? null : unavailable('the log failed'))
    }
  }

  #compact(): void {
    this.#compactionDue ||= this.#isTooLong()
    if (!this.#compactionDue || this.#inFlight.length > 0) return
    this.#compaction ??= new Compaction(this.#log, this.#writer, this.recent)
    if (this.#compaction.proceed() === 'going on') return
    this.#compaction = null
    this.#compactionDue = false
    this.#compactFrom = this.#writer.tail + this.#sizes.segmentBytes
    for (const append of this.#held.splice(0)) this.#write(append)
  }

  #isTooLong(): boolean {
    const { tail } = this.#writer
    const logBytes = tail - (this.#log.segments[0]?.base ?? tail)
    const allowed = Math.max(this.#sizes.compactLogBytesMin, COMPACT_LOG_TO_LIVE * this.recent.bytes)
    return logBytes > allowed && tail >= this.#compactFrom
  }
}

function replayed(log: Log, { directory, environment, limits = RECENT_LIMITS }: ObjectLogOptions): Replay {
  const replay = new Replay(limits)
  for (const segment of log.segments) {
    replaySegment(environment.files, segment, {
      logId: log.id,
      to: segment.end,
      onFrame: (frame) => {
        checkFrame(frame.type, frame.payload, directory)
        replay.visit(frame)
      },
      onDamage: (range) => log.reportDamage(segment, range),
    })
  }
  return replay
}

/** The code is the specification's one for a log that cannot take a write. */
const unavailable = (why: string): StoreError =>
  new StoreError(
    'unavailable',
    'wal_unavailable',
    `it is not known whether the object is stored: ${why}; send it again later`,
  )

const busy = (): StoreError =>
  new StoreError('overloaded', 'concurrency_exceeded', 'too many objects are waiting to be stored: send it again later')
