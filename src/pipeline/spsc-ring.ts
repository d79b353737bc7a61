/**
 * Bounded ring of messages between one producer thread and one consumer thread, in one SharedArrayBuffer.
 * A message is written and read in place: `tryReserve` and `next` hand out offsets into `bytes`, nothing is copied.
 *
 *   Int32 words, each on a cache line of its own
 *     [0]   tail      bytes ever published, mod 2^32; stored only by the producer
 *     [16]  head      bytes ever released, mod 2^32; stored only by the consumer; a waiting producer sleeps on it
 *     [32]  signal    +1 for every wake of the consumer, which sleeps on it
 *     [48]  consumer is waiting (0 or 1)
 *     [49]  bytes in use that it waits for; 0: any message
 *     [64]  producer is waiting (0 or 1)
 *   data, capacityBytes, a power of two:  |....head######tail....|   # published, not yet released
 *
 * A message in the data area, always contiguous and 8-byte aligned:
 *
 *   offset  bytes  field
 *        0      4  messageBytes  u32, or SKIP: nothing more before the end of the data area, continue at its start
 *        4      4  unused
 *        8      …  the message, padded with undefined bytes to a multiple of 8
 *
 * R1  0 <= tail - head <= capacityBytes (unsigned 32-bit subtraction); both are multiples of 8
 * R2  a message is complete before tail passes it: the consumer never sees half of one
 * R3  the consumer is done with a message before head passes it: the producer never overwrites one in use
 * R4  a thread that goes to sleep first raises its flag, then looks once more. A thread that publishes or releases first stores, then looks at
 *     the flag. One of the two sees the other, so no wake-up is lost, and a thread that is awake is not notified
 * R5  messages that were published and not released survive their consumer: a thread that attaches begins at head
 */
import assert from 'node:assert/strict'
import { isMainThread } from 'node:worker_threads'

const TAIL = 0
const HEAD = 16
const SIGNAL = 32
export const CONSUMER_WAITS = 48
const AWAITED_BYTES = 49
const PRODUCER_WAITS = 64
const CONTROL_BYTES = 80 * 4
const HEADER_BYTES = 8
const SKIP = -1
/**
 * From this offset on the producer wraps to the start while little is in use, so that a large ring takes only the memory of what was in it at once, and not
 * all of its own in the end. The price: until the consumer releases what is in use, the ring has room for only this many bytes more.
 */
const EARLY_WRAP_BYTES = 8 * 1024 * 1024
const EARLY_WRAP_USED_SHARE = 1 / 8
/** Looks between two readings of the clock: one reading costs as much as some looks. */
const LOOKS_PER_CLOCK = 32
const CAPACITY_BYTES_MAX = 2 ** 30 // tail - head stays unambiguous in 32 bits, offsets stay small integers

export class SpscRing {
  readonly shared: SharedArrayBuffer
  /** The data area; offsets of `tryReserve` and `next` point into it. */
  readonly bytes: Buffer
  readonly capacityBytes: number
  /** Half the capacity without the header: such a message fits, contiguous, into an empty ring wherever tail stands. */
  readonly messageBytesMax: number
  /** Length of the message that `next` returned last. */
  messageBytes = 0

  readonly #control: Int32Array
  readonly #data: Int32Array
  readonly #mask: number

  // Producer's side: tail as published, tail as it will be, and the last head it has seen.
  #tail: number
  #reservedTail: number
  #seenHead: number

  // Consumer's side: how far it has taken messages, the last tail and signal it has seen.
  #taken: number
  #seenTail: number
  #seenSignal = 0

  /** @param capacityBytes a power of two, 64 to 2^30 */
  static create(capacityBytes: number): SpscRing {
    assert(capacityBytes >= 64 && capacityBytes <= CAPACITY_BYTES_MAX, 'ring capacity out of range')
    assert((capacityBytes & (capacityBytes - 1)) === 0, 'ring capacity must be a power of two')
    return new SpscRing(new SharedArrayBuffer(CONTROL_BYTES + capacityBytes))
  }

  /** The same ring in another thread, or in the successor of a thread that died (R5). */
  static attach(shared: SharedArrayBuffer): SpscRing {
    return new SpscRing(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    this.shared = shared
    this.capacityBytes = shared.byteLength - CONTROL_BYTES
    this.messageBytesMax = this.capacityBytes / 2 - HEADER_BYTES
    this.bytes = Buffer.from(shared, CONTROL_BYTES, this.capacityBytes)
    this.#control = new Int32Array(shared, 0, CONTROL_BYTES / 4)
    this.#data = new Int32Array(shared, CONTROL_BYTES, this.capacityBytes / 4)
    this.#mask = this.capacityBytes - 1
    this.#tail = this.#reservedTail = this.#seenTail = Atomics.load(this.#control, TAIL)
    this.#taken = this.#seenHead = Atomics.load(this.#control, HEAD)
  }

  /** Bytes of the data area in use, headers, padding and skipped ends included. Any thread. */
  get usedBytes(): number {
    // Head first: tail may run ahead meanwhile, never behind. Capped, as between the loads more may have been published.
    const head = Atomics.load(this.#control, HEAD)
    return Math.min((Atomics.load(this.#control, TAIL) - head) >>> 0, this.capacityBytes)
  }

  // Producer thread

  /**
   * Space for one message, contiguous and 8-byte aligned; invisible to the consumer until `publish`. Reserving again before
   * that gives the first space back.
   *
   * @param messageBytes 0 to messageBytesMax
   * @returns offset into `bytes`, or -1 when it does not fit now; the producer then sheds or waits
   */
  tryReserve(messageBytes: number): number {
    assert(messageBytes >= 0 && messageBytes <= this.messageBytesMax, 'message longer than messageBytesMax')
    const needBytes = needOf(messageBytes)
    const at = this.#tail & this.#mask
    const isPastEnd = at + needBytes > this.capacityBytes
    const skipBytes = isPastEnd || this.#wrapsEarly(at, needBytes) ? this.capacityBytes - at : 0
    if (!this.#fits(skipBytes + needBytes)) return -1 // R1
    if (skipBytes > 0) this.#data[at >>> 2] = SKIP
    const start = skipBytes > 0 ? 0 : at
    this.#data[start >>> 2] = messageBytes
    this.#reservedTail = (this.#tail + skipBytes + needBytes) | 0
    return start + HEADER_BYTES
  }

  /**
   * Makes the reserved message visible (R2) and wakes the consumer when it sleeps.
   *
   * @param wakes false: the producer calls `wakeSleeping` soon, after some more messages
   */
  publish(wakes = true): void {
    assert(this.#reservedTail !== this.#tail, 'publish without a reserved message')
    this.#tail = this.#reservedTail
    Atomics.store(this.#control, TAIL, this.#tail)
    if (wakes) this.wakeSleeping()
  }

  /** Wakes the consumer when it sleeps, so that it sees everything that was published. A consumer that waits for more bytes is not woken. */
  wakeSleeping(): void {
    if (Atomics.load(this.#control, CONSUMER_WAITS) === 1) {
      if (this.usedBytes < Atomics.load(this.#control, AWAITED_BYTES)) return
      Atomics.store(this.#control, CONSUMER_WAITS, 0) // one notification per sleep, however many messages until it is awake
      this.wake() // R4
    }
  }

  /**
   * Sleeps until the consumer released something, unless the message fits already. Worker threads only.
   *
   * @returns whether the message fits now; false after the time-out, or when too little was released: callers loop
   */
  waitForSpace(messageBytes: number, timeoutMs = Infinity): boolean {
    assert(!isMainThread, 'the main thread never waits')
    const needBytes = needOf(messageBytes)
    const at = this.#tail & this.#mask
    const totalBytes = at + needBytes > this.capacityBytes ? this.capacityBytes - at + needBytes : needBytes
    if (this.#fits(totalBytes)) return true
    Atomics.store(this.#control, PRODUCER_WAITS, 1) // R4
    if (!this.#fits(totalBytes)) Atomics.wait(this.#control, HEAD, this.#seenHead, timeoutMs)
    Atomics.store(this.#control, PRODUCER_WAITS, 0)
    return this.#fits(totalBytes)
  }

  // Consumer thread

  /** Offset into `bytes` of the next message, its length in `messageBytes`; -1 when there is none. Call again for more of the group. */
  next(): number {
    if (this.#taken === this.#seenTail) {
      this.#seenTail = Atomics.load(this.#control, TAIL)
      if (this.#taken === this.#seenTail) return -1
    }
    let at = this.#taken & this.#mask
    if (this.#data[at >>> 2] === SKIP) {
      this.#taken = (this.#taken + this.capacityBytes - at) | 0
      at = 0
    }
    this.messageBytes = this.#data[at >>> 2]!
    this.#taken = (this.#taken + needOf(this.messageBytes)) | 0
    return at + HEADER_BYTES
  }

  /** What `release` would give back, as `usedBytes` counts it. */
  get takenBytes(): number {
    return (this.#taken - Atomics.load(this.#control, HEAD)) >>> 0
  }

  /** Gives back everything `next` has returned so far (R3); wakes the producer when it waits for space. */
  release(): void {
    Atomics.store(this.#control, HEAD, this.#taken)
    if (Atomics.load(this.#control, PRODUCER_WAITS) === 1) Atomics.notify(this.#control, HEAD) // R4
  }

  /**
   * Looks again and again whether there is a message, without sleeping: a thread that sleeps is awake tens of microseconds after it is woken.
   * Takes a core for as long.
   *
   * @returns whether there is one now; false after `spinMs`
   */
  spinForMessage(spinMs: number, nowMs: () => number): boolean {
    const untilMs = nowMs() + spinMs
    do {
      for (let look = 0; look < LOOKS_PER_CLOCK; look += 1) if (this.#hasMessage()) return true
    } while (nowMs() < untilMs)
    return false
  }

  /**
   * Sleeps until there is a message, `wake` was called, or the time is over. A `wake` from before the call ends it at once, so
   * none is lost. Worker threads only.
   *
   * @returns whether there is a message now
   */
  waitForMessage(timeoutMs = Infinity): boolean {
    assert(!isMainThread, 'the main thread never waits')
    if (this.#hasMessage()) return true
    if (Atomics.load(this.#control, SIGNAL) === this.#seenSignal) {
      Atomics.store(this.#control, CONSUMER_WAITS, 1) // R4
      if (!this.#hasMessage()) Atomics.wait(this.#control, SIGNAL, this.#seenSignal, timeoutMs)
      Atomics.store(this.#control, CONSUMER_WAITS, 0)
    }
    this.#seenSignal = Atomics.load(this.#control, SIGNAL)
    return this.#hasMessage()
  }

  /** `waitForMessage` for a thread with an event loop. */
  async messageCame(timeoutMs = Infinity): Promise<boolean> {
    if (this.#hasMessage()) return true
    if (Atomics.load(this.#control, SIGNAL) === this.#seenSignal) {
      Atomics.store(this.#control, CONSUMER_WAITS, 1) // R4
      if (!this.#hasMessage()) {
        const waiting = Atomics.waitAsync(this.#control, SIGNAL, this.#seenSignal, timeoutMs)
        if (waiting.async) await waiting.value
      }
      Atomics.store(this.#control, CONSUMER_WAITS, 0)
    }
    this.#seenSignal = Atomics.load(this.#control, SIGNAL)
    return this.#hasMessage()
  }

  /** Sleeps until this many bytes are in use, `wake` was called, or the time is over. For a thread with an event loop. */
  async bytesCame(bytes: number, timeoutMs: number): Promise<void> {
    if (Atomics.load(this.#control, SIGNAL) === this.#seenSignal) {
      Atomics.store(this.#control, AWAITED_BYTES, bytes)
      Atomics.store(this.#control, CONSUMER_WAITS, 1) // R4
      if (this.usedBytes < bytes) {
        const waiting = Atomics.waitAsync(this.#control, SIGNAL, this.#seenSignal, timeoutMs)
        if (waiting.async) await waiting.value
      }
      Atomics.store(this.#control, CONSUMER_WAITS, 0)
      Atomics.store(this.#control, AWAITED_BYTES, 0)
    }
    this.#seenSignal = Atomics.load(this.#control, SIGNAL)
  }

  // Any thread

  /** Ends the consumer's wait, present or next, without a message: it is to look at its control port. */
  wake(): void {
    Atomics.add(this.#control, SIGNAL, 1)
    Atomics.notify(this.#control, SIGNAL)
  }

  #hasMessage(): boolean {
    return Atomics.load(this.#control, TAIL) !== this.#taken
  }

  /** Only if the message fits at the start; nearly all of what lies before `at` is free then. */
  #wrapsEarly(at: number, needBytes: number): boolean {
    if (at < EARLY_WRAP_BYTES) return false
    this.#seenHead = Atomics.load(this.#control, HEAD)
    const usedBytes = (this.#tail - this.#seenHead) >>> 0
    return usedBytes <= at * EARLY_WRAP_USED_SHARE && needBytes <= at - usedBytes
  }

  #fits(totalBytes: number): boolean {
    if (((this.#tail - this.#seenHead) >>> 0) + totalBytes <= this.capacityBytes) return true
    this.#seenHead = Atomics.load(this.#control, HEAD)
    return ((this.#tail - this.#seenHead) >>> 0) + totalBytes <= this.capacityBytes
  }
}

function needOf(messageBytes: number): number {
  return HEADER_BYTES + ((messageBytes + 7) & ~7)
}
