/**
 * A tenant's window that refills steadily: what may be admitted grows at limit / window a second, up to the limit.
 *
 * A batch that does not fit waits only until what it lacks has grown; in the sliding window it would wait for a whole burst to leave. The
 * price is that up to twice the limit is admitted in a window that begins after a pause.
 *
 * 0 <= used <= limit: if the limit is lowered below what was used, the window counts as full, so no batch waits longer than the window.
 */
import type { TenantLimits } from './tenant-policy.ts'
import type { QuotaWindow, Used, WindowVerdict } from './admission-window.ts'

export class SmoothWindow implements QuotaWindow {
  #limits: TenantLimits
  #usedRecords = 0
  #usedBytes = 0
  #atMs = 0

  constructor(limits: TenantLimits) {
    this.#limits = limits
  }

  applyLimits(limits: TenantLimits): void {
    this.#limits = limits
    this.#use(this.#usedRecords, this.#usedBytes)
  }

  admit(nowMs: number, records: number, bytes: number): WindowVerdict {
    const { records: recordLimit, bytes: byteLimit, windowSeconds } = this.#limits
    if (records > recordLimit) return { kind: 'never', of: 'records' }
    if (bytes > byteLimit) return { kind: 'never', of: 'bytes' }
    const windowMs = windowSeconds * 1000
    this.#refill(nowMs)
    const recordsWaitMs = waitMs(this.#usedRecords + records, recordLimit, windowMs)
    const bytesWaitMs = waitMs(this.#usedBytes + bytes, byteLimit, windowMs)
    if (recordsWaitMs > 0 || bytesWaitMs > 0) {
      const of = recordsWaitMs >= bytesWaitMs ? 'records' : 'bytes'
      return { kind: 'exceeded', of, waitMs: Math.max(recordsWaitMs, bytesWaitMs) }
    }
    this.#usedRecords += records
    this.#usedBytes += bytes
    return { kind: 'admitted' }
  }

  used(nowMs: number): Used {
    this.#refill(nowMs)
    return { records: this.#usedRecords, bytes: this.#usedBytes }
  }

  takeOver(nowMs: number, { records, bytes }: Used): void {
    this.#refill(nowMs)
    this.#use(this.#usedRecords + records, this.#usedBytes + bytes)
  }

  undoAdmit(records: number, bytes: number): void {
    this.#usedRecords = Math.max(0, this.#usedRecords - records)
    this.#usedBytes = Math.max(0, this.#usedBytes - bytes)
  }

  #use(records: number, bytes: number): void {
    this.#usedRecords = Math.min(records, this.#limits.records)
    this.#usedBytes = Math.min(bytes, this.#limits.bytes)
  }

  #refill(nowMs: number): void {
    const { records, bytes, windowSeconds } = this.#limits
    const passed = (nowMs - this.#atMs) / (windowSeconds * 1000)
    this.#atMs = nowMs
    this.#usedRecords = refilled(this.#usedRecords, records, passed)
    this.#usedBytes = refilled(this.#usedBytes, bytes, passed)
  }
}

const refilled = (used: number, limit: number, passed: number): number =>
  limit === Infinity ? 0 : Math.max(0, used - limit * passed)

const waitMs = (wanted: number, limit: number, windowMs: number): number =>
  wanted <= limit ? 0 : ((wanted - limit) / limit) * windowMs
