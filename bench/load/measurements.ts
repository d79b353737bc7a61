/**
 * Everything counted during a run: totals, and one row per second.
 *
 * M1  only tasks that completed something count towards throughput and latency; those that found nothing to do are in `empty`, every
 *     other one is in `errors`, by kind
 * M2  the rows add up to the totals, once the last second was closed
 * M3  but for latencies and start delays of rows that begin in the warm-up: those are in no total
 */
import { Histogram } from './histogram.ts'
import type { TaskResult } from './workload.ts'

export interface SecondRow {
  /** End of the row, since the start of the run. */
  readonly atSeconds: number
  /** Rows are about one second long; the last one is shorter. */
  readonly spanSeconds: number
  readonly tasks: number
  readonly units: number
  readonly payloadBytes: number
  readonly errors: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export class Measurements {
  readonly latency = new Histogram()
  /** Open loop: how late we were ourselves, from the intended start until the first byte was handed to the kernel. */
  readonly startDelay = new Histogram()
  readonly errors = new Map<string, number>()
  readonly seconds: SecondRow[] = []
  tasks = 0
  units = 0
  payloadBytes = 0
  bodyBytes = 0
  errorCount = 0
  /** Tasks that found nothing to do. */
  empty = 0
  /** Tasks in flight when the run was cut off. */
  aborted = 0
  /** How long the oldest of them had waited. */
  abortedWaitMaxMs = 0
  inFlight = 0
  retryAfterMaxSeconds = 0

  readonly #startMs: number
  readonly #warmAtMs: number
  readonly #secondLatency = new Histogram()
  readonly #secondStartDelay = new Histogram()
  #closedAtMs: number
  #closed = { tasks: 0, units: 0, payloadBytes: 0, errors: 0 }

  /** @param warmUpMs M3 */
  constructor(startMs: number, warmUpMs: number) {
    this.#startMs = startMs
    this.#warmAtMs = startMs + warmUpMs
    this.#closedAtMs = startMs
  }

  started(delayMs: number): void {
    this.#secondStartDelay.add(delayMs)
  }

  completed({ units, payloadBytes, bodyBytes, refused }: TaskResult, latencyMs: number): void {
    for (const kind of refused) this.failed(`${kind}, in a batch`)
    if (units === 0) {
      if (refused.length === 0) this.empty++ // M1
      return
    }
    this.tasks++
    this.units += units
    this.payloadBytes += payloadBytes
    this.bodyBytes += bodyBytes
    this.#secondLatency.add(latencyMs)
  }

  failed(kind: string): void {
    this.errorCount++
    this.errors.set(kind, (this.errors.get(kind) ?? 0) + 1)
  }

  cutOff(waitedMs: number): void {
    this.aborted++
    this.abortedWaitMaxMs = Math.max(this.abortedWaitMaxMs, waitedMs)
  }

  /** Nothing was counted after `nowMs`; a row without length is not kept. */
  closeSecond(nowMs: number): SecondRow {
    const row: SecondRow = {
      atSeconds: (nowMs - this.#startMs) / 1000,
      spanSeconds: (nowMs - this.#closedAtMs) / 1000,
      tasks: this.tasks - this.#closed.tasks,
      units: this.units - this.#closed.units,
      payloadBytes: this.payloadBytes - this.#closed.payloadBytes,
      errors: this.errorCount - this.#closed.errors,
      p50Ms: this.#secondLatency.percentile(50),
      p99Ms: this.#secondLatency.percentile(99),
      maxMs: this.#secondLatency.maxMs,
    }
    if (row.spanSeconds > 0) this.seconds.push(row)
    if (this.#closedAtMs >= this.#warmAtMs) {
      this.latency.merge(this.#secondLatency)
      this.startDelay.merge(this.#secondStartDelay)
    }
    this.#secondLatency.reset()
    this.#secondStartDelay.reset()
    this.#closedAtMs = Math.max(nowMs, this.#closedAtMs)
    this.#closed = {
      tasks: this.tasks,
      units: this.units,
      payloadBytes: this.payloadBytes,
      errors: this.errorCount,
    }
    return row
  }
}
