/**
 * Sliding window over what a tenant was admitted: records and bytes of the last `windowMs`.
 *
 * Time is cut into slices of windowMs / 256; what was admitted in a slice leaves the window together when the slice's end is
 * windowMs old. So the window never admits more than its limit in any windowMs, and at most a 256th later than exact.
 *
 * W1  usedRecords and usedBytes are the sums over the slices held
 * W2  slices older than the window hold nothing
 */
import assert from 'node:assert/strict'
import type { TenantLimits } from './tenant-policy.ts'

const SLICES = 256

export type WindowVerdict =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'exceeded'; readonly of: 'records' | 'bytes'; readonly waitMs: number }
  | { readonly kind: 'never'; readonly of: 'records' | 'bytes' }

const ADMITTED: WindowVerdict = { kind: 'admitted' }

export class AdmissionWindow {
  #limits: TenantLimits
  #sliceMs: number
  readonly #records = new Float64Array(SLICES + 1)
  readonly #bytes = new Float64Array(SLICES + 1)
  #slice = 0
  #usedRecords = 0
  #usedBytes = 0

  constructor(limits: TenantLimits) {
    this.#limits = limits
    this.#sliceMs = (limits.windowSeconds * 1000) / SLICES
  }

  /** New limits after a policy reload. What was used stays used; in a window of another length, as if it had all been admitted last. */
  applyLimits(limits: TenantLimits): void {
    if (limits.windowSeconds !== this.#limits.windowSeconds) {
      const sliceMs = (limits.windowSeconds * 1000) / SLICES
      this.#slice = Math.floor(((this.#slice + 1) * this.#sliceMs) / sliceMs)
      this.#sliceMs = sliceMs
      for (const [booked, used] of [
        [this.#records, this.#usedRecords],
        [this.#bytes, this.#usedBytes],
      ] as const) {
        booked.fill(0)
        booked[this.#slice % (SLICES + 1)] = used
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
    if (this.#usedRecords + records > recordLimit) {
      return {
        kind: 'exceeded',
        of: 'records',
        waitMs: this.#waitMs(nowMs, this.#records, this.#usedRecords + records - recordLimit),
      }
    }
    if (this.#usedBytes + bytes > byteLimit) {
      return {
        kind: 'exceeded',
        of: 'bytes',
        waitMs: this.#waitMs(nowMs, this.#bytes, this.#usedBytes + bytes - byteLimit),
      }
    }
    this.#book(records, bytes)
    return ADMITTED
  }

  /** Takes back what the latest `admit` booked: the batch was refused after all. */
  takeBack(records: number, bytes: number): void {
    this.#book(-records, -bytes)
  }

  #book(records: number, bytes: number): void {
    const index = this.#slice % (SLICES + 1)
    this.#records[index] = this.#records[index]! + records
    this.#bytes[index] = this.#bytes[index]! + bytes
    this.#usedRecords += records
    this.#usedBytes += bytes
    assert(this.#usedRecords >= 0 && this.#usedBytes >= 0)
  }

  #slideTo(nowMs: number): void {
    const slice = Math.max(this.#slice, Math.floor(nowMs / this.#sliceMs))
    const steps = Math.min(slice - this.#slice, SLICES + 1)
    for (let step = 0; step < steps; step++) {
      const index = (slice - step) % (SLICES + 1)
      this.#usedRecords -= this.#records[index]!
      this.#usedBytes -= this.#bytes[index]!
      this.#records[index] = 0
      this.#bytes[index] = 0
    }
    this.#slice = slice
  }

  /** Time until at least `excess` of what is booked has left the window. */
  #waitMs(nowMs: number, booked: Float64Array, excess: number): number {
    let freed = 0
    for (let age = SLICES; age >= 0; age--) {
      const slice = this.#slice - age
      if (slice < 0) continue
      freed += booked[slice % (SLICES + 1)]!
      if (freed >= excess) return Math.max(0, (slice + SLICES + 1) * this.#sliceMs - nowMs)
    }
    assert.fail('what is booked in the slices is what is used (W1)')
  }
}
