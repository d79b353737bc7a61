/**
 * Which tenants send records just now, in shared memory. The main thread notes it; a thread that reads for one tenant asks whether another sends.
 *
 * The tenant that sent last and the one that did so before it are kept: at least one of the two is not the one that is read for. A thread that looks while
 * they change places may be told wrong once.
 */
import { crc32 } from 'node:zlib'

/** A tenant sends as long as its last request is no older. */
const SENDS_FOR_MS = 1000
/** Of each of the two: its number, and when it sent. */
const NUMBER = 0
const AT_MS = 1
const FIELDS = 2
const LAST = 0
const BEFORE = FIELDS

export type SendersHandle = SharedArrayBuffer

/** Tenants whose names have the same are taken for one. */
const numberOf = (tenant: string): number => crc32(tenant)

/** For the main thread. */
export class Senders {
  readonly shared: SendersHandle
  readonly #state: Float64Array
  readonly #nowMs: () => number
  #last = ''

  /** @param nowMs  on one clock for all threads */
  constructor(nowMs: () => number) {
    this.shared = new SharedArrayBuffer(2 * FIELDS * Float64Array.BYTES_PER_ELEMENT)
    this.#state = new Float64Array(this.shared).fill(-Infinity)
    this.#nowMs = nowMs
  }

  /** @param tenant its id */
  sent(tenant: string): void {
    if (tenant !== this.#last) {
      this.#state.copyWithin(BEFORE, LAST, LAST + FIELDS)
      this.#state[LAST + NUMBER] = numberOf(tenant)
      this.#last = tenant
    }
    this.#state[LAST + AT_MS] = this.#nowMs()
  }
}

/** For a thread that reads for one tenant after the other. */
export class OtherSenders {
  readonly #state: Float64Array
  #own = NaN

  constructor(shared: SendersHandle) {
    this.#state = new Float64Array(shared)
  }

  /** @param tenant its id; '': of no tenant, so all are others */
  readFor(tenant: string): void {
    this.#own = numberOf(tenant)
  }

  /** @param nowMs  on the clock of `Senders` */
  areSending(nowMs: number): boolean {
    return this.#sends(LAST, nowMs) || this.#sends(BEFORE, nowMs)
  }

  #sends(which: typeof LAST | typeof BEFORE, nowMs: number): boolean {
    return this.#state[which + NUMBER] !== this.#own && nowMs - this.#state[which + AT_MS]! < SENDS_FOR_MS
  }
}
