/**
 * Messages of one client: they are handled in the order they come, and in slices, so that none holds the main thread for long.
 *
 * I1  a message is handled when those before it are done. Until then it waits, in memory of its own
 * I2  one turn of the event loop handles operations that cost SLICE_COST in all. The rest follows in a later turn; answers are sent in between
 * I3  the messages that wait are bounded: a client that sends more is disconnected
 * I4  a closed inbox handles nothing: messages that wait are dropped
 */
import { Queue } from '../../queue.ts'
import { SLICE_COST, WAITING_MESSAGE_BYTES } from './limits.ts'

/** What a message costs besides its operations. */
const MESSAGE_COST = 2
const TEXT_BYTES_PER_COST = 64

/** The operations of one message. */
export interface MessageWork {
  /** Begins the next operation. @returns its cost, about in microseconds; 0: there is none */
  next(): number
  /** Copies the rest of the message, because its memory is about to be reused. */
  keep(): void
}

export interface InboxParts {
  /**
   * Null: nothing of the message is left to be done. A promise, which never rejects, for a long text.
   *
   * @param isOwn whether the bytes stay valid after this call
   */
  readonly read: (bytes: Buffer, isBinary: boolean, isOwn: boolean) => MessageWork | null | Promise<MessageWork | null>
  readonly waitingBytesMax: number
  /** I3 */
  readonly tooMuch: () => void
  /** Called after a slice, so that answers can be sent. */
  readonly sliceDone: () => void
  /** Resolves when other work had its turn of the event loop. */
  readonly turn: () => Promise<void>
  /** Calls `run` once, after this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

interface Waiting {
  readonly bytes: Buffer
  readonly isBinary: boolean
}

export class Inbox {
  readonly #parts: InboxParts
  #waiting = new Queue<Waiting>()
  #waitingBytes = 0
  /** What is left of the message that is being handled. */
  #rest: MessageWork | null = null
  /** A long text is being read, or another turn is coming. */
  #isPaused = false
  /** Cost of the operations of this turn. */
  #spent = 0
  #isResetDeferred = false
  #isClosed = false

  constructor(parts: InboxParts) {
    this.#parts = parts
  }

  /** @param bytes valid during this call only */
  message(bytes: Buffer, isBinary: boolean): void {
    if (this.#isClosed) return
    if (this.#isPaused) return this.#wait(bytes, isBinary)
    if (this.#spent < SLICE_COST) this.#begin(bytes, isBinary, false)
    else this.#wait(bytes, isBinary)
    this.#rest?.keep()
    this.#continueLater()
    this.#resetLater()
  }

  /** I4 */
  close(): void {
    this.#isClosed = true
    this.#rest = null
    this.#waiting = new Queue()
  }

  /** I1, I3 */
  #wait(bytes: Buffer, isBinary: boolean): void {
    this.#waitingBytes += bytes.byteLength + WAITING_MESSAGE_BYTES
    if (this.#waitingBytes > this.#parts.waitingBytesMax) return this.#parts.tooMuch()
    this.#waiting.push({ bytes: Buffer.from(bytes), isBinary })
  }

  #begin(bytes: Buffer, isBinary: boolean, isOwn: boolean): void {
    this.#spent += MESSAGE_COST + (isBinary ? 0 : bytes.byteLength / TEXT_BYTES_PER_COST)
    const work = this.#parts.read(bytes, isBinary, isOwn)
    if (!(work instanceof Promise)) return this.#handle(work)
    this.#isPaused = true
    void work.then((work) => this.#slice(work))
  }

  /** I2 */
  #handle(work: MessageWork | null): void {
    this.#rest = work
    while (this.#rest !== null && this.#spent < SLICE_COST) {
      const cost = this.#rest.next()
      this.#spent += cost
      if (cost === 0) this.#rest = null
    }
  }

  /** Handles the rest of a message and those that wait, in a turn of its own. */
  #slice(work: MessageWork | null): void {
    if (this.#isClosed) return
    this.#isPaused = false
    this.#spent = 0
    this.#handle(work)
    while (this.#rest === null && !this.#isPaused && this.#spent < SLICE_COST) {
      const next = this.#waiting.shift()
      if (next === undefined) break
      const { bytes, isBinary } = next
      this.#waitingBytes -= bytes.byteLength + WAITING_MESSAGE_BYTES
      this.#begin(bytes, isBinary, true)
    }
    this.#spent = 0
    this.#parts.sliceDone()
    this.#continueLater()
  }

  #continueLater(): void {
    if (this.#isClosed || this.#isPaused || (this.#rest === null && this.#waiting.length === 0)) return
    this.#isPaused = true
    void this.#parts.turn().then(() => this.#slice(this.#rest))
  }

  /** Resets the cost at the end of the turn. While it is low, it is left to add up. */
  #resetLater(): void {
    if (this.#spent < SLICE_COST / 8 || this.#isResetDeferred) return
    this.#isResetDeferred = true
    this.#parts.defer(() => {
      this.#isResetDeferred = false
      this.#spent = 0
    })
  }
}
