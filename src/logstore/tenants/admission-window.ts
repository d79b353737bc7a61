/**
 * Sliding window over what a tenant was admitted: records and bytes of the last `windowMs`.
 *
 * Time is cut into slices of windowMs / 256; what was admitted in a slice leaves the window together, when the latest of it is
 * windowMs old. So the window never admits more than its limit in any windowMs, at most a 256th later than exact, and no batch waits
 * longer than windowMs.
 *
 * What is `windowMs` old is held only while its slice has something younger.
 *
 * W1  usedRecords and usedBytes are the sums over the slices held
 * W3  the 257 slices held are the present one and those before it, and only the oldest can be due to leave
 */
import assert from 'node:assert/strict'
import type { TenantLimits } from './tenant-policy.ts'

const SLICES = 256
const SLICES_HELD = SLICES + 1

export type WindowVerdict =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'exceeded'; readonly of: 'records' | 'bytes'; readonly waitMs: number }
  | { readonly kind: 'never'; readonly of: 'records' | 'bytes' }

export interface Used {
  readonly records: number
  readonly bytes: number
}

/** What a tenant was admitted lately. */
export interface QuotaWindow {
  /** New limits after a policy reload; what was used stays used. */
  applyLimits(limits: TenantLimits): void
  /** Books the batch when it fits; books nothing otherwise. `nowMs` is monotonic. */
  admit(nowMs: number, records: number, bytes: number): WindowVerdict
  /** Takes back what the latest `admit` booked: the batch was refused after all. */
  undoAdmit(records: number, bytes: number): void
  /** What the window holds now. */
  used(nowMs: number): Used
  /** Books what another window held, as if it was admitted now. */
  takeOver(nowMs: number, used: Used): void
}

const ADMITTED: WindowVerdict = { kind: 'admitted' }

export class AdmissionWindow implements QuotaWindow {
  #limits: TenantLimits
  #windowMs: number
  #sliceMs: number
  readonly #records = new Float64Array(SLICES_HELD)
  readonly #bytes = new Float64Array(SLICES_HELD)
  /** When the latest of a slice was admitted. */
  readonly #latestMs = new Float64Array(SLICES_HELD)
  #slice = 0
  #usedRecords = 0
  #usedBytes = 0

  constructor(limits: TenantLimits) {
    this.#limits = limits
    this.#windowMs = limits.windowSeconds * 1000
    this.#sliceMs = this.#windowMs / SLICES
  }

  /** New limits after a policy reload. What was used stays used; if the window's length changes, as if all of it had been admitted last. */
  applyLimits(limits: TenantLimits): void {
    const windowMs = limits.windowSeconds * 1000
    if (windowMs !== this.#windowMs) {
      const latestMs = Math.max(...this.#latestMs)
      this.#windowMs = windowMs
      this.#sliceMs = windowMs / SLICES
      this.#slice = Math.floor(latestMs / this.#sliceMs)
      for (const [booked, used] of [
        [this.#records, this.#usedRecords],
        [this.#bytes, this.#usedBytes],
        [this.#latestMs, latestMs],
      ] as const) {
        booked.fill(0)
        booked[this.#slice % SLICES_HELD] = used
      }
    }
    this.#limits = limits
  }

  /** Books the batch when it fits; books nothing otherwise. `nowMs` is monotonic. */
  admit(nowMs: number, records: number, bytes: number): WindowVerdict {
    const { records: recordLimit, bytes: byteLimit } = this.#limits
    if (records > recordLimit) return { kind: 'never', of: 'records' }
    if (bytes > byteLimit) return { kind: 'never', of: 'bytes' }
    this.#slideTo(nowMs)
    const excessRecords = this.#usedRecords + records - recordLimit
    const excessBytes = this.#usedBytes + bytes - byteLimit
    if (excessRecords > 0 || excessBytes > 0) {
      const of = excessRecords > 0 ? 'records' : 'bytes'
      return { kind: 'exceeded', of, waitMs: this.#waitMs(nowMs, excessRecords, excessBytes) }
    }
    this.takeOver(nowMs, { records, bytes })
    return ADMITTED
  }

  /** Takes back what the latest `admit` booked: the batch was refused after all. */
  undoAdmit(records: number, bytes: number): void {
    this.#book(-records, -bytes)
  }

  used(nowMs: number): Used {
    this.#slideTo(nowMs)
    return { records: this.#usedRecords, bytes: this.#usedBytes }
  }

  takeOver(nowMs: number, { records, bytes }: Used): void {
    this.#slideTo(nowMs)
    this.#book(records, bytes)
    this.#latestMs[this.#slice % SLICES_HELD] = nowMs
  }

  #book(records: number, bytes: number): void {
    const index = this.#slice % SLICES_HELD
    this.#records[index] = this.#records[index]! + records
    this.#bytes[index] = this.#bytes[index]! + bytes
    this.#usedRecords += records
    this.#usedBytes += bytes
    assert(this.#usedRecords >= 0 && this.#usedBytes >= 0)
  }

  #slideTo(nowMs: number): void {
    const slice = Math.floor(nowMs / this.#sliceMs)
    const steps = Math.min(slice - this.#slice, SLICES_HELD)
    for (let step = 0; step < steps; step++) this.#empty((slice - step) % SLICES_HELD)
    this.#slice = slice
    const oldest = (slice + 1) % SLICES_HELD // W3
    if (nowMs - this.#latestMs[oldest]! >= this.#windowMs) this.#empty(oldest)
  }

  #empty(index: number): void {
    this.#usedRecords -= this.#records[index]!
    this.#usedBytes -= this.#bytes[index]!
    this.#records[index] = 0
    this.#bytes[index] = 0
    this.#latestMs[index] = 0
  }

  /** Milliseconds until both excesses have left the window, at most the window's length. */
  #waitMs(nowMs: number, excessRecords: number, excessBytes: number): number {
    let freedRecords = 0
    let freedBytes = 0
    for (let slice = Math.max(0, this.#slice - SLICES); slice <= this.#slice; slice++) {
      const index = slice % SLICES_HELD
      freedRecords += this.#records[index]!
      freedBytes += this.#bytes[index]!
      const isEnough = freedRecords >= excessRecords && freedBytes >= excessBytes
      if (isEnough) return this.#windowMs - (nowMs - this.#latestMs[index]!)
    }
    assert.fail('what is booked in the slices is what is used (W1)')
  }
}
