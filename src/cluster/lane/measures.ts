/**
 * What the lane of a cluster measures, in one SharedArrayBuffer: the lane writes, main reads. Counts go on when another lane takes the place of one
 * that died.
 *
 *   f64 words   messages in flight, their bytes, time of the last confirmation, acknowledgements that did not come, publishes that were
 *               refused, look-ups
 *   histogram   time from a publish to its acknowledgement, in seconds
 */
import { Histogram, LATENCY_BOUNDS, histogramBytes } from '../../pipeline/histogram.ts'
import type { PublishMeasures } from '../publisher.ts'

const IN_FLIGHT = 0
const IN_FLIGHT_BYTES = 1
const CONFIRMED_AT = 2
const LOST = 3
const REFUSED = 4
const LOOK_UPS = 5
const WORDS = 6
const WORDS_BYTES = WORDS * Float64Array.BYTES_PER_ELEMENT

export class LaneMeasures implements PublishMeasures {
  readonly shared: SharedArrayBuffer
  readonly publishSeconds: Histogram
  readonly #words: Float64Array

  static create(): LaneMeasures {
    return new LaneMeasures(new SharedArrayBuffer(WORDS_BYTES + histogramBytes(LATENCY_BOUNDS)))
  }

  static attach(shared: SharedArrayBuffer): LaneMeasures {
    return new LaneMeasures(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    this.shared = shared
    this.#words = new Float64Array(shared, 0, WORDS)
    this.publishSeconds = Histogram.inSharedMemory(shared, WORDS_BYTES, LATENCY_BOUNDS)
  }

  get inFlight(): number {
    return this.#words[IN_FLIGHT]!
  }

  get inFlightBytes(): number {
    return this.#words[IN_FLIGHT_BYTES]!
  }

  /** By the clock that threads share; 0: nothing was confirmed yet. */
  get confirmedAtMs(): number {
    return this.#words[CONFIRMED_AT]!
  }

  get lostAcknowledgements(): number {
    return this.#words[LOST]!
  }

  get refusedPublishes(): number {
    return this.#words[REFUSED]!
  }

  get lookUps(): number {
    return this.#words[LOOK_UPS]!
  }

  /** Sets what is in flight now. */
  setInFlight(messages: number, bytes: number): void {
    this.#words[IN_FLIGHT] = messages
    this.#words[IN_FLIGHT_BYTES] = bytes
  }

  confirmed(tookMs: number, nowMs: number): void {
    this.publishSeconds.observe(tookMs / 1000)
    this.#words[CONFIRMED_AT] = nowMs
  }

  lost(): void {
    this.#words[LOST]!++
  }

  refused(): void {
    this.#words[REFUSED]!++
  }

  lookedUp(): void {
    this.#words[LOOK_UPS]!++
  }
}
