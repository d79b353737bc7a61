/** What the operations of the object store share: the engine that they run on, memory for bodies on their way, the clock. */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import type { Answer, Decision, NewFrame } from '../../engine/decision.ts'
import { NotLeading } from '../../engine/engine.ts'
import type { Engine } from '../../engine/engine.ts'
import { FrameLost, FrameNotTaken } from '../../engine/appender.ts'
import type { Appender } from '../../engine/appender.ts'
import type { Log } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { Arena } from '../../pipeline/arena.ts'
import { notLeading, outcomeUnknown, refuse } from '../refusals.ts'
import type { StoreCounters } from '../counters.ts'
import type { DigestLanes } from '../bodies/digest-lanes.ts'
import { FRAME_CHANGE, encodeChange } from './frames.ts'
import type { Change } from './frames.ts'
import type { StoreState } from './state.ts'

export interface StoreClock {
  /** Monotonic. */
  nowMs(): number
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number
  /** Calls `task` again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

export interface CoreParts {
  readonly engine: Engine<StoreState, Change>
  /** Bodies on their way into the log. */
  readonly arena: Arena
  readonly digests: DigestLanes
  readonly clock: StoreClock
  readonly logger: Logger
  readonly counters: StoreCounters
  readonly random: (bytes: Uint8Array) => void
  /** Calls `run` once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

export class Core {
  readonly engine: Engine<StoreState, Change>
  readonly log: Log
  readonly appender: Appender
  readonly arena: Arena
  readonly digests: DigestLanes
  readonly clock: StoreClock
  readonly logger: Logger
  readonly counters: StoreCounters
  readonly random: (bytes: Uint8Array) => void
  readonly defer: (run: () => void) => void

  constructor(parts: CoreParts) {
    this.engine = parts.engine
    this.log = parts.engine.log
    this.appender = parts.engine.appender
    this.arena = parts.arena
    this.digests = parts.digests
    this.clock = parts.clock
    this.logger = parts.logger
    this.counters = parts.counters
    this.random = parts.random
    this.defer = parts.defer
  }

  get state(): StoreState {
    return this.engine.state
  }

  /** Runs an operation, and gives `answer` its result as soon as that may be told. Failures are S3Errors. */
  run<Reply>(decide: () => Decision<Reply, Change>, answer: Answer<Reply>): void {
    this.engine.run(decide, answer, notStored)
  }

  /** `run` as a promise. */
  ask<Reply>(decide: () => Decision<Reply, Change>): Promise<Reply> {
    return this.engine.ask(decide, notStored)
  }

  /** Appends a frame by itself, when there is room for it. Resolves with its position when it is stored. Rejects with an S3Error. */
  store(frame: NewFrame<Change>): Promise<number> {
    let position = 0
    const onTaken = (at: number): void => void (position = at)
    return this.ask(() => ({ kind: 'change', frame: { ...frame, onTaken }, reply: () => position }))
  }

  changeFrame(change: Change, purpose: NewFrame<Change>['purpose']): NewFrame<Change> {
    const payload = encodeChange(change)
    return {
      type: FRAME_CHANGE,
      payloadBytes: payload.byteLength,
      encode: (target, at) => void copyBytes(payload, target, at),
      purpose,
      durability: 'sync',
      change,
    }
  }

  /** Resolves when everything appended so far is stored. @throws S3Error when some of it was lost */
  async settled(): Promise<void> {
    await this.appender.settled().catch(() => {
      throw notStored(new FrameLost())
    })
  }

  /** Milliseconds since the Unix epoch. */
  wallMs(): number {
    return Math.max(0, Math.floor(this.clock.wallMs()))
  }

  /** An id that cannot be guessed. */
  newUploadId(): string {
    const bytes = Buffer.alloc(UPLOAD_ID_BYTES)
    this.random(bytes)
    return bytes.toString('hex')
  }
}

const UPLOAD_ID_BYTES = 16

/** The S3Error for a failure of the engine or the log; any other error as it is. */
export function notStored(cause: Error): Error {
  if (cause instanceof NotLeading) return cause.hasChanged ? outcomeUnknown() : notLeading(cause.leader)
  if (cause instanceof FrameNotTaken) {
    if (cause.reason === 'full') return refuse('SlowDown', undefined, { cause })
    const message =
      cause.reason === 'no-space'
        ? 'The disk of the object store is full: delete objects, or give it more space.'
        : 'The object store accepts no changes at present.'
    return refuse('ServiceUnavailable', message, { cause })
  }
  if (cause instanceof FrameLost)
    return refuse('InternalError', 'The change could not be stored. Please try again.', { cause })
  return cause
}
