/** The outcome of a run as plain data: printed with --json, summarised for people, drawn in the report. */
import type { DiskRate } from './disk-rate.ts'
import { formatCount, formatMegabytes, formatMs, formatPercent } from './format.ts'
import type { SecondRow } from './measurements.ts'
import type { RunOutcome } from './run.ts'
import type { Verification } from './workload.ts'

export interface LoadResult {
  readonly format: 'trilog-load-2'
  readonly service: string
  readonly unit: string
  /** What was started and timed, in the plural: requests, or cycles of several requests. */
  readonly task: string
  readonly startedAt: string
  readonly elapsedSeconds: number
  readonly loop: 'closed' | 'open'
  readonly acknowledged: {
    readonly tasks: number
    readonly units: number
    /** Before content encoding. */
    readonly payloadBytes: number
    /** As sent. */
    readonly bodyBytes: number
  }
  readonly throughput: { readonly unitsPerSecond: number; readonly payloadBytesPerSecond: number }
  readonly latencyMs: Percentiles
  /** How late the load tool itself started tasks; null in the closed loop, which has no schedule. */
  readonly startDelayMs: Percentiles | null
  readonly errors: Readonly<Record<string, number>>
  /** Tasks that found nothing to do: neither completed nor failed. */
  readonly empty: number
  readonly retryAfterMaxSeconds: number
  /** In flight when the run was cut off. */
  readonly aborted: number
  /** How long the oldest of them had waited: not in the latencies, which know answers only. */
  readonly abortedWaitMaxMs: number
  /** Open loop: due, and never started for want of a free connection. */
  readonly missed: number
  readonly disk: DiskFigures
  /** Payload bytes per second over the disk's own; null when the disk was not measured. */
  readonly diskRatio: number | null
  /** CPU time of this process over the elapsed time: 1 is one whole core. */
  readonly cpuShare: number
  readonly verification: Verification | null
  readonly configuration: readonly (readonly [name: string, value: string])[]
  readonly machine: readonly (readonly [name: string, value: string])[]
  readonly seconds: readonly SecondRow[]
  /** Latency of acknowledged tasks, eight bars to a doubling. */
  readonly latencyBars: readonly { readonly fromMs: number; readonly toMs: number; readonly count: number }[]
}

interface Percentiles {
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly p999: number
  readonly max: number
  readonly mean: number
}

export interface DiskFigures {
  readonly directory: string
  readonly before: DiskRate | null
  readonly after: DiskRate | null
  /** Mean of the two. */
  readonly bytesPerSecond: number | null
  /** Why it could not be measured. */
  readonly problem: string | null
}

export type Surroundings = Pick<
  LoadResult,
  'service' | 'unit' | 'task' | 'startedAt' | 'loop' | 'disk' | 'verification' | 'configuration' | 'machine'
>

export function buildResult(outcome: RunOutcome, surroundings: Surroundings): LoadResult {
  const { measured, elapsedSeconds, cpuShare, missed } = outcome
  const payloadBytesPerSecond = elapsedSeconds > 0 ? measured.payloadBytes / elapsedSeconds : 0
  const diskBytesPerSecond = surroundings.disk.bytesPerSecond
  return {
    format: 'trilog-load-2',
    ...surroundings,
    elapsedSeconds,
    cpuShare,
    acknowledged: {
      tasks: measured.tasks,
      units: measured.units,
      payloadBytes: measured.payloadBytes,
      bodyBytes: measured.bodyBytes,
    },
    throughput: { unitsPerSecond: elapsedSeconds > 0 ? measured.units / elapsedSeconds : 0, payloadBytesPerSecond },
    latencyMs: percentilesOf(measured.latency),
    startDelayMs: surroundings.loop === 'open' ? percentilesOf(measured.startDelay) : null,
    errors: Object.fromEntries([...measured.errors].sort(([, a], [, b]) => b - a)),
    empty: measured.empty,
    retryAfterMaxSeconds: measured.retryAfterMaxSeconds,
    aborted: measured.aborted,
    abortedWaitMaxMs: measured.abortedWaitMaxMs,
    missed,
    diskRatio: diskBytesPerSecond === null ? null : payloadBytesPerSecond / diskBytesPerSecond,
    seconds: measured.seconds,
    latencyBars: measured.latency.bars(8),
  }
}

function percentilesOf(histogram: RunOutcome['measured']['latency']): Percentiles {
  return {
    p50: histogram.percentile(50),
    p90: histogram.percentile(90),
    p99: histogram.percentile(99),
    p999: histogram.percentile(99.9),
    max: histogram.maxMs,
    mean: histogram.meanMs,
  }
}

/** The closing summary, one fact a line. */
export function formatSummary(result: LoadResult): string {
  const { acknowledged, throughput, latencyMs, startDelayMs, disk, unit, task } = result
  const rows: [string, string][] = [
    ['elapsed', `${result.elapsedSeconds.toFixed(2)} s, ${result.loop} loop`],
    [
      'acknowledged',
      `${formatCount(acknowledged.units)} ${unit} in ${formatCount(acknowledged.tasks)} ${task}, ` +
        `${formatMegabytes(acknowledged.payloadBytes)} MB` +
        (acknowledged.bodyBytes === acknowledged.payloadBytes
          ? ''
          : ` (${formatMegabytes(acknowledged.bodyBytes)} MB on the wire)`),
    ],
    [
      'throughput',
      `${formatCount(throughput.unitsPerSecond)} ${unit}/s, ${formatMegabytes(throughput.payloadBytesPerSecond)} MB/s`,
    ],
    ['latency', formatPercentiles(latencyMs)],
  ]
  if (startDelayMs !== null) rows.push(['own start delay', formatPercentiles(startDelayMs)])
  rows.push(['disk', formatDisk(disk)])
  if (result.diskRatio !== null) rows.push(['payload / disk', formatPercent(result.diskRatio)])
  rows.push(['load tool CPU', `${formatPercent(result.cpuShare)} of one core`])
  if (result.empty > 0) rows.push(['found nothing', `${formatCount(result.empty)} ${task}`])
  if (result.missed > 0)
    rows.push(['never started', `${formatCount(result.missed)} ${task} were due, no connection free`])
  if (result.aborted > 0) rows.push(['cut off', formatCutOff(result)])
  const errors = Object.entries(result.errors)
  rows.push(['errors', errors.length === 0 ? 'none' : ''])
  for (const [kind, count] of errors) rows.push([`  ${kind}`, formatCount(count)])
  if (result.retryAfterMaxSeconds > 0) rows.push(['longest Retry-After', `${result.retryAfterMaxSeconds} s`])
  for (const check of result.verification?.checks ?? []) {
    rows.push([check.ok ? 'verified' : 'NOT VERIFIED', `${check.name}: ${check.detail}`])
  }
  const width = Math.max(...rows.map(([name]) => name.length)) + 2
  return rows.map(([name, value]) => `${name.padEnd(width)}${value}`.trimEnd()).join('\n')
}

export function formatCutOff({ aborted, abortedWaitMaxMs, task }: LoadResult): string {
  return `${formatCount(aborted)} ${task} without an answer at the end, the oldest after ${formatMs(abortedWaitMaxMs)}`
}

function formatPercentiles({ p50, p90, p99, p999, max }: Percentiles): string {
  return [
    `p50 ${formatMs(p50)}`,
    `p90 ${formatMs(p90)}`,
    `p99 ${formatMs(p99)}`,
    `p99.9 ${formatMs(p999)}`,
    `max ${formatMs(max)}`,
  ].join('  ')
}

function formatDisk({ directory, before, after, bytesPerSecond, problem }: DiskFigures): string {
  if (problem !== null) return `not measured in ${directory}: ${problem}`
  if (before === null || after === null || bytesPerSecond === null) return 'not measured'
  return (
    `${formatMegabytes(bytesPerSecond)} MB/s write + fdatasync in ${directory} ` +
    `(before ${formatMegabytes(before.bytesPerSecond)}, after ${formatMegabytes(after.bytesPerSecond)})`
  )
}
