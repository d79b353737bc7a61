/** The plots of the report, each from the plain result. */
import { formatCount, formatMs } from '../format.ts'
import type { LoadResult } from '../result.ts'
import { axes, FRAME, line, linearScale, logScale, rectangle, svg } from './svg.ts'
import type { Scale } from './svg.ts'

const POINTS_MAX = 240
const SPAN_SECONDS_MIN = 0.5
const FLOOR = FRAME.height - FRAME.bottom
const RIGHT = FRAME.width - FRAME.right
/** A disk this much faster than the peak would flatten the curve; it is then named in the text only. */
const REFERENCE_RATIO_MAX = 3

export interface Point {
  readonly fromSeconds: number
  readonly atSeconds: number
  readonly unitsPerSecond: number
  readonly errorsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

/**
 * The seconds of the run, several taken together when there are more than can be drawn; a short rest at the end goes to
 * its predecessor, because the rate of a few milliseconds says nothing. Percentiles: the worst of those taken together.
 */
export function toPoints(seconds: LoadResult['seconds']): Point[] {
  const together = Math.max(1, Math.ceil(seconds.length / POINTS_MAX))
  const shortRest = (seconds.at(-1)?.spanSeconds ?? 1) < SPAN_SECONDS_MIN ? 1 : 0
  const last = Math.max(0, seconds.length - 1 - shortRest)
  const points: Point[] = []
  for (let first = 0; first <= last && seconds.length > 0; first += together) {
    const end = first + together
    const rows = seconds.slice(first, end > last ? seconds.length : end)
    const span = rows.reduce((sum, row) => sum + row.spanSeconds, 0)
    const atSeconds = rows.at(-1)?.atSeconds ?? 0
    points.push({
      fromSeconds: atSeconds - span,
      atSeconds,
      unitsPerSecond: rows.reduce((sum, row) => sum + row.units, 0) / span,
      errorsPerSecond: rows.reduce((sum, row) => sum + row.errors, 0) / span,
      p50Ms: Math.max(...rows.map((row) => row.p50Ms)),
      p99Ms: Math.max(...rows.map((row) => row.p99Ms)),
      maxMs: Math.max(...rows.map((row) => row.maxMs)),
    })
  }
  return points
}

export function throughputChart(result: LoadResult, points: readonly Point[]): string {
  const reference = diskUnitsPerSecond(result)
  const peak = Math.max(1, ...points.map((point) => point.unitsPerSecond))
  const showReference = reference !== null && reference <= REFERENCE_RATIO_MAX * peak
  const x = timeScale(points)
  const y = linearScale(showReference ? Math.max(peak, reference) : peak, FLOOR, FRAME.top, true)
  const curve = points.map((point) => [x.at(middle(point)), y.at(point.unitsPerSecond)] as const)
  const area = [[curve[0]?.[0] ?? 0, FLOOR] as const, ...curve, [curve.at(-1)?.[0] ?? 0, FLOOR] as const]
  const diskLine = showReference
    ? line(
        [
          [FRAME.left, y.at(reference)],
          [RIGHT, y.at(reference)],
        ],
        'line disk',
      )
    : ''
  return svg(
    'Throughput over time',
    axes(x, y, formatSeconds, formatShort) +
      (curve.length > 1 ? line(area, 'area') : '') +
      diskLine +
      line(curve, 'line one') +
      hovers(points, x, (point) => `${formatCount(point.unitsPerSecond)} ${result.unit}/s`),
  )
}

/** Refused and failed requests: on an axis of their own, because a request is not a record. */
export function errorChart(points: readonly Point[]): string {
  const x = timeScale(points)
  const y = linearScale(Math.max(1, ...points.map((point) => point.errorsPerSecond)), FLOOR, FRAME.top, true)
  const curve = points.map((point) => [x.at(middle(point)), y.at(point.errorsPerSecond)] as const)
  return svg(
    'Errors over time',
    axes(x, y, formatSeconds, formatShort) +
      line(curve, 'line bad') +
      hovers(points, x, (point) => `${formatCount(point.errorsPerSecond)} errors/s`),
  )
}

/** How many units a second would fill the disk's own rate; null when it was not measured. */
export function diskUnitsPerSecond({ disk, acknowledged }: LoadResult): number | null {
  if (disk.bytesPerSecond === null || acknowledged.units === 0) return null
  return disk.bytesPerSecond / (acknowledged.payloadBytes / acknowledged.units)
}

export function latencyChart(points: readonly Point[]): string {
  const answered = points.filter((point) => point.maxMs > 0)
  if (answered.length === 0) return ''
  const x = timeScale(points)
  const y = logScale(
    Math.min(...answered.map((point) => point.p50Ms)) / 1.3,
    Math.max(...answered.map((point) => point.maxMs)) * 1.3,
    FLOOR,
    FRAME.top,
  )
  const curve = (pick: (point: Point) => number, className: string): string =>
    line(
      answered.map((point) => [x.at(middle(point)), y.at(pick(point))] as const),
      className,
    )
  return svg(
    'Latency percentiles over time',
    axes(x, y, formatSeconds, formatTickMs) +
      curve((point) => point.maxMs, 'line three') +
      curve((point) => point.p99Ms, 'line two') +
      curve((point) => point.p50Ms, 'line one') +
      hovers(
        answered,
        x,
        (point) => `p50 ${formatMs(point.p50Ms)}, p99 ${formatMs(point.p99Ms)}, max ${formatMs(point.maxMs)}`,
      ),
  )
}

export function distributionChart({ latencyBars, latencyMs, acknowledged, task }: LoadResult): string {
  const [first, last] = [latencyBars[0], latencyBars.at(-1)]
  if (first === undefined || last === undefined) return ''
  const x = logScale(first.fromMs, last.toMs, FRAME.left, RIGHT)
  const y = linearScale(Math.max(...latencyBars.map((bar) => bar.count)) / acknowledged.tasks, FLOOR, FRAME.top, true)
  const bars = latencyBars.map(({ fromMs, toMs, count }) => {
    const share = count / acknowledged.tasks
    const top = y.at(share)
    const box = { x: x.at(fromMs) + 0.5, y: top, width: x.at(toMs) - x.at(fromMs) - 1, height: FLOOR - top }
    return rectangle(box, 'bar', `${formatMs(fromMs)} to ${formatMs(toMs)}: ${formatCount(count)} ${task}`)
  })
  const marks = [
    ['p50', latencyMs.p50],
    ['p99', latencyMs.p99],
    ['p99.9', latencyMs.p999],
  ] as const
  // Labels step down one by one, so that percentiles close to each other stay readable.
  const labels = marks.map(([name, value], index) => {
    const at = x.at(value)
    const [anchor, dx] = at > RIGHT - 90 ? ['end', -4] : ['start', 4]
    return (
      line(
        [
          [at, FRAME.top],
          [at, FLOOR],
        ],
        'line mark',
      ) +
      `<text x="${(at + dx).toFixed(1)}" y="${FRAME.top + 10 + 15 * index}" text-anchor="${anchor}">${name} ${formatMs(value)}</text>`
    )
  })
  const formatShare = (share: number): string => `${Math.round(share * 1000) / 10} %`
  return svg('Latency distribution', axes(x, y, formatTickMs, formatShare) + bars.join('') + labels.join(''))
}

function timeScale(points: readonly Point[]): Scale {
  return linearScale(Math.max(points.at(-1)?.atSeconds ?? 0, 0.001), FRAME.left, RIGHT, false)
}

function middle(point: Point): number {
  return (point.fromSeconds + point.atSeconds) / 2
}

/** Invisible columns that show the figures of their second. */
function hovers(points: readonly Point[], x: Scale, describe: (point: Point) => string): string {
  return points
    .map((point) => {
      const from = x.at(point.fromSeconds)
      const box = { x: from, y: FRAME.top, width: x.at(point.atSeconds) - from, height: FLOOR - FRAME.top }
      return rectangle(box, 'hover', `${point.atSeconds.toFixed(1)} s: ${describe(point)}`)
    })
    .join('')
}

function formatSeconds(value: number): string {
  return `${Math.round(value * 1000) / 1000} s`
}

/** '2.00 ms' → '2 ms' */
function formatTickMs(value: number): string {
  return formatMs(value).replace(/\.0+ /, ' ')
}

/** 250000 → '250 k' */
function formatShort(value: number): string {
  if (value >= 1e6) return `${Math.round(value / 1e4) / 100} M`
  return value >= 1000 ? `${Math.round(value / 10) / 100} k` : String(Math.round(value * 100) / 100)
}
