/** How many records there are by time, in the colours of their severity. A drag over it chooses that time. */
import type { VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { compact, exact, msOf, time } from '../format.ts'
import { html } from '../html.ts'
import type { Histogram } from './api.ts'
import { SEVERITIES } from './otlp.ts'

const HEIGHT = 104
const BARS_MAX = 90
/** Widths of bars that people read easily, in milliseconds. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3,
  7200e3, 10_800e3, 21_600e3, 43_200e3, 86_400e3, 172_800e3, 604_800e3, 1_209_600e3, 2_592_000e3, 7_776_000e3,
  31_536_000e3,
]

/** In nanoseconds. */
export function stepFor(fromMs: number, toMs: number): string {
  const step = STEPS.find((each) => (toMs - fromMs) / each <= BARS_MAX) ?? STEPS.at(-1)! * 10
  return `${step}000000`
}

interface Stack {
  readonly title: string
  /** Name of a variable of style.css. */
  readonly color: string
  readonly counts: readonly number[]
}

/** From the bottom up. */
function stacksOf({ buckets, series }: Histogram): readonly Stack[] {
  if (series === undefined)
    return [{ title: 'records', color: '--level-none', counts: buckets.map(({ records }) => records) }]
  const of = (level: string): readonly number[] | undefined => series.find(({ value }) => value === level)?.counts
  const known = new Set<string>(SEVERITIES)
  const others = series.filter(({ value = '' }) => !known.has(value))
  const rest = {
    title: 'without a severity',
    color: '--level-none',
    counts: buckets.map((_, at) => others.reduce((sum, { counts }) => sum + counts[at]!, 0)),
  }
  const levels = SEVERITIES.flatMap((level) => {
    const counts = of(level)
    return counts ? [{ title: level, color: `--level-${level}`, counts }] : []
  })
  return others.length > 0 ? [rest, ...levels] : levels
}

interface HistogramProps {
  readonly histogram: Histogram
  readonly fromMs: number
  readonly toMs: number
  readonly onRange: (fromMs: number, toMs: number) => void
}

export function HistogramChart({ histogram, fromMs, toMs, onRange }: HistogramProps): VNode {
  const place = useRef<HTMLDivElement>(null)
  const [pointed, setPointed] = useState<number | null>(null)
  const choose = useRef(onRange)
  choose.current = onRange
  const stepMs = Number(BigInt(histogram.interval_nano) / 1000n) / 1000
  const starts = histogram.buckets.map((bucket) => Math.floor(msOf(bucket.start_time_unix_nano) / stepMs) * stepMs)
  const stacks = stacksOf(histogram)

  useEffect(() => {
    const holder = place.current!
    let chart: uPlot | null = null
    const options = (): uPlot.Options => ({
      ...frameOf(holder, stacks),
      scales: {
        x: { time: true, range: () => [fromMs / 1000, toMs / 1000] },
        y: { range: (_, _low, high) => [0, Math.max(1, high) * 1.05] },
      },
      hooks: {
        setSelect: [
          (self) => {
            const { left, width } = self.select
            if (width < 3) return
            const at = (position: number): number => self.posToVal(position, 'x') * 1000
            const low = Math.floor(at(left) / stepMs) * stepMs
            const high = Math.ceil(at(left + width) / stepMs) * stepMs
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
            choose.current(low, high)
          },
        ],
        setCursor: [
          (self) => {
            const { left = -1 } = self.cursor
            const start = Math.floor((self.posToVal(left, 'x') * 1000) / stepMs) * stepMs
            const index = left < 0 ? -1 : starts.indexOf(start)
            setPointed(index < 0 ? null : index)
          },
        ],
      },
    })
    const make = (): void => {
      chart?.destroy()
      chart = new uPlot(options(), dataOf(starts, stacks), holder)
    }
    make()
    const theme = matchMedia('(prefers-color-scheme: dark)')
    theme.addEventListener('change', make)
    const resized = new ResizeObserver(() => chart?.setSize({ width: holder.clientWidth, height: HEIGHT }))
    resized.observe(holder)
    return () => {
      theme.removeEventListener('change', make)
      resized.disconnect()
      chart?.destroy()
    }
  }, [histogram, fromMs, toMs])

  const label = `Records by time, ${exact(histogram.matched_records)} in all`
  return html`<figure class="histogram">
    <div class="bars" title="Drag to choose a time" role="img" aria-label=${label} ref=${place}></div>
    <figcaption>${pointed !== null && describe(stacks, starts, pointed)}</figcaption>
  </figure>`
}

const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })
const minutes = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })
const days = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })

/** @param stepSeconds from one mark to the next */
function markText(ms: number, stepSeconds: number): string {
  if (stepSeconds >= 86_400) return days.format(ms)
  if (stepSeconds < 60) return seconds.format(ms)
  const isMidnight = new Date(ms).getHours() === 0 && new Date(ms).getMinutes() === 0
  return (isMidnight ? days : minutes).format(ms)
}

function describe(stacks: readonly Stack[], starts: readonly number[], at: number): string {
  const counted = stacks.filter(({ counts }) => counts[at]! > 0).toReversed()
  const words = counted.map(({ title, counts }) => `${exact(counts[at]!)} ${title}`)
  return `${time(starts[at]!)}: ${words.join(', ') || 'nothing'}`
}

/** Each series is the sum of those below it, the highest first: lower ones are drawn over it. */
function dataOf(starts: readonly number[], stacks: readonly Stack[]): uPlot.AlignedData {
  const sums = starts.map(() => 0)
  const stacked = stacks.map(({ counts }) => counts.map((count, at) => (sums[at] = sums[at]! + count)))
  return [starts.map((ms) => ms / 1000), ...stacked.toReversed()]
}

function frameOf(holder: HTMLElement, stacks: readonly Stack[]): Omit<uPlot.Options, 'scales' | 'hooks'> {
  const style = getComputedStyle(holder)
  const color = (name: string): string => style.getPropertyValue(name).trim()
  const bars = uPlot.paths.bars!({ align: 1, size: [1, Infinity], gap: 1 })
  const axis = { stroke: color('--muted'), ticks: { show: false }, font: '11px system-ui' }
  return {
    width: holder.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    padding: [6, 20, 0, 0],
    axes: [
      {
        ...axis,
        size: 22,
        space: 90,
        grid: { show: false },
        values: (_, marks, _axis, _space, step) => marks.map((mark) => markText(mark * 1000, step)),
      },
      {
        ...axis,
        size: 46,
        space: 28,
        grid: { stroke: color('--line'), width: 1 },
        values: (_, marks) => marks.map((mark) => (Number.isInteger(mark) ? compact(mark) : '')),
      },
    ],
    series: [
      {},
      ...stacks.toReversed().map(({ title, color: name }) => ({
        label: title,
        fill: color(name),
        width: 0,
        points: { show: false },
        paths: bars,
      })),
    ],
  }
}
