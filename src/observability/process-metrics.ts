/** Metrics of the process: what it takes of the machine, and how busy main is. One set for all services, in the metrics of each. */
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { Histogram } from '../pipeline/histogram.ts'
import type { Metrics } from './metrics.ts'

/** Interval of a timer: when it comes late, everything else on main had to wait for as long. */
const TICK_MS = 20
const DELAY_BOUNDS: readonly number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

export interface ProcessMetricsOptions {
  readonly version: string
  readonly clock: {
    nowMs(): number
    wallMs(): number
    every(intervalMs: number, task: () => void): () => void
  }
}

export class ProcessMetrics {
  readonly #version: string
  readonly #startedSeconds: number
  readonly #openFilesMax = openFilesMax()
  readonly #delays = Histogram.create(DELAY_BOUNDS)

  constructor({ version, clock }: ProcessMetricsOptions) {
    this.#version = version
    this.#startedSeconds = clock.wallMs() / 1000 - process.uptime()
    let dueMs = clock.nowMs() + TICK_MS
    clock.every(TICK_MS, () => {
      const nowMs = clock.nowMs()
      this.#delays.observe(Math.max(0, nowMs - dueMs) / 1000)
      dueMs = nowMs + TICK_MS
    })
  }

  register<Scope>(metrics: Metrics<Scope>): void {
    metrics.gauges({ name: 'trilog.build_info', help: 'Always 1: version of trilog and of Node' }, () => [
      [{ version: this.#version, node: process.versions.node }, 1],
    ])
    metrics.histogram(
      { name: 'trilog.event_loop_delay_seconds', help: 'Delay of a 20 ms timer on the main thread' },
      this.#delays,
    )
    metrics.counter({ name: 'process.cpu_seconds', help: 'Processor time of all threads' }, () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1e6
    })
    metrics.gauge({ name: 'process.resident_memory_bytes', help: 'Resident memory' }, () => process.memoryUsage.rss())
    metrics.gauge({ name: 'process.open_fds', help: 'Open files and sockets' }, openFiles)
    metrics.gauge({ name: 'process.max_fds', help: 'Limit of open files and sockets' }, () => this.#openFilesMax)
    metrics.gauge(
      { name: 'process.start_time_seconds', help: 'When the process started, since the Unix epoch' },
      () => this.#startedSeconds,
    )
  }
}

const OPEN_FILES = '/proc/self/fd'

/** From 6.2 on, Linux tells their number as the size of the directory: listing 10 000 of them takes milliseconds. */
const openFiles = (): number => statSync(OPEN_FILES).size || readdirSync(OPEN_FILES).length

function openFilesMax(): number {
  const [, max] = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return max === undefined || max === 'unlimited' ? Infinity : Number(max)
}
