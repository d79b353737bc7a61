/** A log without threads: simulated files and time, journals that are stepped by hand. */
import { crc32 } from 'node:zlib'
import type {
  JournalEvents,
  JournalLane,
  JournalRequest,
  JournalTask,
  LogEnvironment,
} from '../../src/log/environment.ts'
import { catchUp } from '../../src/log/catch-up.ts'
import { journalOf } from '../../src/log/journal.ts'
import type { JournalMessage } from '../../src/log/environment.ts'
import type { Journal } from '../../src/log/journal.ts'
import { Log } from '../../src/log/log.ts'
import type { LogOptions } from '../../src/log/log.ts'
import { LogWriter } from '../../src/log/log-writer.ts'
import type { BeginResult, Durability } from '../../src/log/log-writer.ts'
import { replaySegment } from '../../src/log/read.ts'
import type { DamagedRange } from '../../src/log/read.ts'
import { StoreError } from '../../src/errors.ts'
import { SimFiles, mulberry32 } from './sim-files.ts'

class SteppedLane implements JournalLane {
  readonly journal: Journal
  readonly task: JournalTask
  readonly #events: JournalEvents
  #messages: JournalMessage[] = []
  #ended = false
  /** A stalled disk: while this is set, the lane does nothing. */
  stalled = false

  constructor(task: JournalTask, events: JournalEvents, world: World) {
    this.task = task
    this.#events = events
    const notify = (message: JournalMessage) => void this.#messages.push(message)
    this.journal = journalOf(task, { files: world.files, nowMs: () => world.nowMs, notify }).journal
  }

  /** Writes all that waits as one group, then delivers the lane's messages to main. */
  step(): void {
    this.stepWithoutNotice()
    if (!this.#ended && !this.stalled) this.#deliver()
  }

  /** Writes a group. Its messages to main wait for the next step. */
  stepWithoutNotice(): void {
    if (!this.#ended && !this.stalled) this.journal.runGroup()
  }

  idle(): void {
    if (this.#ended || this.stalled) return
    this.journal.idle()
    this.#deliver()
  }

  die(): void {
    this.#ended = true
    this.#deliver()
    this.#events.onDeath(new Error('killed by the test'))
  }

  /** Main gets this message of the lane, whether the lane is alive or not. */
  say(message: JournalMessage): void {
    this.#events.onMessage(message)
  }

  /** The process is gone: no message arrives any more. */
  vanish(): void {
    this.#ended = true
    this.#messages = []
  }

  post(message: JournalRequest): void {
    if (this.#ended) return
    this.journal.drop(message)
    while (this.journal.dropStep());
  }

  async stop(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    while (this.journal.runGroup());
    this.journal.close()
    this.#deliver()
  }

  #deliver(): void {
    const messages = this.#messages
    this.#messages = []
    for (const message of messages) this.#events.onMessage(message)
  }
}

export class World {
  files: SimFiles
  nowMs = 0
  lanes: SteppedLane[] = []
  readonly timers: (() => void)[] = []
  readonly #random: () => number
  readonly #locked = new Set<string>()

  constructor(options: { seed: number; capacityBytes?: number }) {
    this.files = new SimFiles(options)
    this.#random = mulberry32(options.seed)
  }

  get environment(): LogEnvironment {
    return {
      files: this.files,
      nowMs: () => this.nowMs,
      randomUint32: () => Math.floor(this.#random() * 2 ** 32),
      lock: async (directory) => {
        if (this.#locked.has(directory)) throw new StoreError('unavailable', 'data_directory_locked', directory)
        this.#locked.add(directory)
        return { release: async () => void this.#locked.delete(directory) }
      },
      prepareFile: async (path, bytes) => {
        const file = this.files.create(path)
        file.writev([Buffer.alloc(bytes)], 0)
        file.fdatasync()
      },
      catchUp: async (task) => catchUp(this.files, task, () => {}),
      startJournal: (task, events) => {
        const lane = new SteppedLane(task, events, this)
        this.lanes[task.replica] = lane
        return lane
      },
      every: (_intervalMs, run) => {
        this.timers.push(run)
        return () => void this.timers.splice(this.timers.indexOf(run), 1)
      },
    }
  }

  async open(options: Partial<LogOptions> = {}): Promise<Log> {
    return Log.open({
      directory: '/data',
      ringBytes: 1 << 16,
      segmentBytes: 8192,
      reserveBytes: 1 << 20,
      environment: this.environment,
      ...options,
    })
  }

  step(): void {
    for (const lane of this.lanes) lane.step()
  }

  /** Ends the process; 'crash' is a power failure. */
  end(how: 'kill' | 'crash'): void {
    for (const lane of this.lanes) lane.vanish()
    this.lanes = []
    this.timers.length = 0
    this.#locked.clear()
    if (how === 'crash') this.files.crash()
    else this.files.kill()
  }
}

export interface Written {
  readonly position: number
  readonly end: number
  readonly type: number
  readonly payload: Buffer
  readonly generation: number
}

/** Payload n: different for every n, reproducible. */
export function payloadOf(n: number, bytes: number): Buffer {
  const payload = Buffer.alloc(bytes)
  const random = mulberry32(n)
  for (let i = 0; i < bytes; i += 1) payload[i] = random() * 256
  return payload
}

export function append(
  writer: LogWriter,
  payload: Buffer,
  options: { durability?: Durability; purpose?: 'admit' | 'finish'; type?: number } = {},
): Written | Exclude<BeginResult, 'ok'> {
  const { durability = 'sync', purpose = 'admit', type = 1 } = options
  const begun = writer.tryBegin(type, payload.byteLength, -1, 0, durability, purpose)
  if (begun !== 'ok') return begun
  payload.copy(writer.bytes, writer.inlineOffset)
  writer.publish(crc32(payload))
  return { position: writer.position, end: writer.end, type, payload, generation: writer.generation }
}

/** `append` that must succeed. */
export function appended(...args: Parameters<typeof append>): Written {
  const result = append(...args)
  if (typeof result === 'string') throw new Error(`append: ${result}`)
  return result
}

export interface Replayed {
  readonly frames: Written[]
  readonly damage: DamagedRange[]
}

/** The frames and the damage of everything that the log serves now. */
export function replay(log: Log, files: SimFiles | LogEnvironment['files']): Replayed {
  const frames: Written[] = []
  const damage: DamagedRange[] = []
  for (const segment of log.segments) {
    if (!files.exists(segment.recordsPath)) continue
    replaySegment(files, segment, {
      logId: log.id,
      to: segment.end,
      onFrame: ({ position, type, payload, payloadBytes }) =>
        frames.push({
          position,
          end: position + 48 + Math.ceil(payloadBytes / 8) * 8,
          type,
          payload: Buffer.from(payload),
          generation: 0,
        }),
      onDamage: (range) => damage.push(range),
    })
  }
  return { frames, damage }
}

export const openWriter = (log: Log): LogWriter => LogWriter.attach(log.writer)
