/**
 * What all operations share: the state, the way into the log, memory for what is on its way, time.
 *
 * An operation judges the state as it is after everything appended so far, appends a frame, applies it at once, and answers when it is
 * stored. So the next one builds on it without waiting, and if the frame is lost, so is everything built on it.
 *
 * C1  a change is applied exactly when its frame was taken, by what applies it at a start: `applyFrame`
 * C2  after frames were lost the state is what the log holds, in a new object
 * C3  what is on its way into the log stays below what its ring holds: `room` makes who comes with more wait, in the order they came
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import { FrameLost, FrameNotTaken } from '../../log/appender.ts'
import type { Appender, ExternalPart } from '../../log/appender.ts'
import type { Log } from '../../log/log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { Arena } from '../../pipeline/arena.ts'
import { refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import type { StoreCounters } from '../counters.ts'
import { applyFrame } from './apply-frame.ts'
import type { DigestLanes } from './digest-lanes.ts'
import { FRAME_CHANGE, encodeChange } from './frames.ts'
import type { Change } from './frames.ts'
import type { StoreState } from './state.ts'

export interface StoreClock {
  /** Monotonic. */
  nowMs(): number
  /** Milliseconds since the Unix epoch; may jump. */
  wallMs(): number
  /** Calls again and again until the returned function is called. */
  every(intervalMs: number, task: () => void): () => void
}

export interface CoreParts {
  readonly log: Log
  readonly appender: Appender
  /** Bodies on their way into the log. */
  readonly arena: Arena
  readonly digests: DigestLanes
  readonly clock: StoreClock
  readonly logger: Logger
  readonly counters: StoreCounters
  readonly random: (bytes: Uint8Array) => void
  /** Calls once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

/** A frame to append. */
export interface NewFrame {
  readonly type: number
  readonly inlineBytes: number
  readonly encode: (target: Buffer, at: number) => void
  readonly external?: ExternalPart
  readonly purpose: 'admit' | 'finish'
  /** What the payload says, where it takes long to decode. */
  readonly change?: Change
}

interface Waiting {
  readonly bytes: number
  readonly go: () => void
}

export class Core {
  readonly log: Log
  readonly appender: Appender
  readonly arena: Arena
  readonly digests: DigestLanes
  readonly clock: StoreClock
  readonly logger: Logger
  readonly counters: StoreCounters
  readonly random: (bytes: Uint8Array) => void
  readonly defer: (run: () => void) => void
  #state: StoreState
  readonly #inlineBytesInFlightMax: number
  #inlineBytesInFlight = 0
  /** Of those who were let in and did not go on yet. */
  #framesGranted = 0
  #inlineBytesGranted = 0
  #waiting: Waiting[] = []

  constructor(parts: CoreParts, state: StoreState) {
    this.log = parts.log
    this.appender = parts.appender
    this.arena = parts.arena
    this.digests = parts.digests
    this.clock = parts.clock
    this.logger = parts.logger
    this.counters = parts.counters
    this.random = parts.random
    this.defer = parts.defer
    this.#state = state
    this.#inlineBytesInFlightMax = parts.appender.payloadBytesMax
  }

  get state(): StoreState {
    return this.#state
  }

  /** C2 */
  replaceState(state: StoreState): void {
    this.#state = state
  }

  /** C3: resolves when a frame of so many inline bytes may be appended, at once. What was judged before has to be judged again. */
  room(inlineBytes: number): Promise<void> | null {
    if (this.#waiting.length === 0 && this.#fits(inlineBytes)) return null
    return new Promise((go) => this.#waiting.push({ bytes: inlineBytes, go }))
  }

  /**
   * C1. The promise resolves when the frame is stored.
   *
   * @throws S3Error when the frame is not taken: at once, and nothing has changed
   */
  append(frame: NewFrame): Promise<void> {
    const { appender } = this
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const settled = (stored: boolean): void => {
      this.#inlineBytesInFlight -= frame.inlineBytes
      this.#letIn()
      if (stored) resolve()
      else reject(notStored(new FrameLost()))
    }
    const options = { durability: 'sync', purpose: frame.purpose } as const
    try {
      appender.append(frame.type, frame.inlineBytes, options, frame.encode, { settled }, frame.external ?? null)
    } catch (error) {
      throw notStored(error)
    }
    this.#inlineBytesInFlight += frame.inlineBytes
    const { position, payload } = appender
    if (frame.change) this.#state.applyChange(frame.change)
    else applyFrame(this.#state, { type: frame.type, position, payload })
    return promise
  }

  change(change: Change, purpose: 'admit' | 'finish'): Promise<void> {
    const payload = encodeChange(change)
    return this.append({
      type: FRAME_CHANGE,
      inlineBytes: payload.byteLength,
      encode: (target, at) => void copyBytes(payload, target, at),
      purpose,
      change,
    })
  }

  /** What is found in the state, given out when everything it was found in is stored. */
  async judged<T>(judge: () => T): Promise<T> {
    for (;;) {
      const found = judge()
      if (this.appender.inFlight === 0) return found
      const state = this.#state
      await this.appender.settled().catch(() => {})
      if (this.#state === state) return found
    }
  }

  /** A refusal is given out when everything it was judged on is stored. */
  async confirmed<T>(operation: () => Promise<T>): Promise<T> {
    try {
      return await operation()
    } catch (error) {
      await this.settled()
      throw error
    }
  }

  /** Resolves when everything appended so far is stored. @throws S3Error when some of it was lost */
  async settled(): Promise<void> {
    await this.appender.settled().catch((lost: unknown) => {
      throw notStored(lost)
    })
  }

  /** Milliseconds since the Unix epoch. */
  wallMs(): number {
    return Math.max(0, Math.floor(this.clock.wallMs()))
  }

  /** One that nobody guesses. */
  newUploadId(): string {
    const bytes = Buffer.alloc(UPLOAD_ID_BYTES)
    this.random(bytes)
    return bytes.toString('hex')
  }

  #fits(inlineBytes: number): boolean {
    const frames = this.appender.inFlight + this.#framesGranted
    const bytes = this.#inlineBytesInFlight + this.#inlineBytesGranted + inlineBytes + (frames + 1) * FRAME_ROOM_BYTES
    return frames === 0 || bytes <= this.#inlineBytesInFlightMax
  }

  #letIn(): void {
    while (this.#waiting.length > 0 && this.#fits(this.#waiting[0]!.bytes)) {
      const { bytes, go } = this.#waiting.shift()!
      this.#framesGranted += 1
      this.#inlineBytesGranted += bytes
      go()
      queueMicrotask(() => {
        // Whoever was let in has appended, or has refused and leaves the room to the next one.
        this.#framesGranted -= 1
        this.#inlineBytesGranted -= bytes
        this.#letIn()
      })
    }
  }
}

const UPLOAD_ID_BYTES = 16
/** Of the ring, besides the inline part. */
const FRAME_ROOM_BYTES = FRAME_HEADER_BYTES + 64

function notStored(cause: unknown): S3Error {
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
  throw cause
}
