/**
 * Which tenants are sending records now, in shared memory. The main thread writes it; a thread that reads for one tenant asks whether another one sends.
 *
 * Only the last two tenants that sent are kept: at least one of them is not the tenant that a thread reads for. A thread that looks while the main thread
 * updates them may get a wrong answer once.
 */
import { crc32 } from 'node:zlib'

/** A tenant counts as sending for this long after its last request. */
const SENDS_FOR_MS = 1000
/** Fields of each of the two: the tenant's number, and when it last sent. */
const NUMBER = 0
const AT_MS = 1
const FIELDS = 2
const LAST = 0
const BEFORE = FIELDS

export type SendersHandle = SharedArrayBuffer

/** Tenants with the same number are taken for one. */
const numberOf = (tenant: string): number => crc32(tenant)

/** For the main thread. */
export class Senders {
  readonly shared: SendersHandle
  readonly #state: Float64Array
  readonly #nowMs: () => number
  #last = ''

  /** @param nowMs  a clock that all threads share */
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

  /** @param tenant its id; '': the thread reads for no tenant, so every sender is another one */
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
