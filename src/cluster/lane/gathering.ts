/**
 * Decides when the next message goes to the stream. A message costs the NATS servers and this node about the same whatever its length, so frames wait a
 * others that are about to come.
 *
 * H1  frames go at once when nothing is on its way, unless many were confirmed just now
 * H2  while a message is on its way, the next one waits for its confirmation, APART_MS at most
 * H3  clients that were answered soon ask again. So after many frames were confirmed, the next message waits until most of these clients are back,
 *     RETURN_MS at most
 * H4  so many bytes that the message itself matters little go at once
 *
 * Bytes are those in the ring, which are few for a frame with an external part in the arena. H3 compares only such bytes with each other.
 */
export interface Pause {
  /** The pause ends when so many bytes wait. */
  readonly bytes: number
  /** The pause ends after this time at the latest. */
  readonly ms: number
}

/** H2 */
const APART_MS = 2
/** H3 */
const RETURN_MS = 2
const MANY_FRAMES = 4
const MOST = 3 / 4
/** H4 */
const ENOUGH_BYTES = 128 << 10

export class Gathering {
  /** Whether an offered message is in flight. */
  isInFlight = false
  /** Frames and bytes that were offered since nothing was in flight. */
  #frames = 0
  #bytes = 0
  #offeredMs = -Infinity
  /** H3. Bytes that wait when most clients are back; 0: they are not awaited. */
  #awaitedBytes = 0
  #confirmedMs = -Infinity

  /** @param bytes that the frames took in the ring */
  offered(frames: number, bytes: number, nowMs: number): void {
    this.isInFlight = true
    this.#frames += frames
    this.#bytes += bytes
    this.#offeredMs = nowMs
  }

  /** All that was offered is confirmed, or given up. @param waitingBytes bytes that came meanwhile */
  allSettled(waitingBytes: number, nowMs: number): void {
    this.#awaitedBytes = this.#frames < MANY_FRAMES ? 0 : Math.floor(MOST * (this.#bytes + waitingBytes))
    this.#confirmedMs = nowMs
    this.isInFlight = false
    this.#frames = 0
    this.#bytes = 0
  }

  /** @returns null: what waits goes now */
  pause(waitingBytes: number, nowMs: number): Pause | null {
    const bytes = this.isInFlight ? ENOUGH_BYTES : Math.min(ENOUGH_BYTES, this.#awaitedBytes)
    if (waitingBytes >= bytes) return null
    const ms = this.isInFlight ? this.#offeredMs + APART_MS - nowMs : this.#confirmedMs + RETURN_MS - nowMs
    return ms > 0 ? { bytes, ms } : null
  }
}
