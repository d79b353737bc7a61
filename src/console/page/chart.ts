/** A chart of lines over time, in the colours of the theme. */
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { html } from './html.ts'

/** Least time that a chart shows, also when it has hardly begun. */
const SECONDS_MIN = 120

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })

interface Line {
  readonly title: string
  /** Name of a variable of style.css. */
  readonly color: string
  readonly values: readonly (number | null)[]
}

interface ChartProps {
  /** Description for screen readers. */
  readonly label: string
  readonly timesMs: readonly number[]
  readonly lines: readonly Line[]
  readonly format: (value: number) => string
  readonly height?: number
}

export function Chart({ label, timesMs, lines, format, height = 150 }: ChartProps): VNode {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const data: uPlot.AlignedData = [timesMs.map((ms) => ms / 1000), ...lines.map(({ values }) => [...values])]

  useEffect(() => {
    const holder = place.current!
    const make = (): void => {
      chart.current?.destroy()
      chart.current = new uPlot(optionsOf(holder, lines, format, height), data, holder)
    }
    make()
    const theme = matchMedia('(prefers-color-scheme: dark)')
    theme.addEventListener('change', make)
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: holder.clientWidth, height }))
    resized.observe(holder)
    return () => {
      theme.removeEventListener('change', make)
      resized.disconnect()
      chart.current?.destroy()
    }
  }, [lines.map(({ title }) => title).join()])

  useEffect(() => chart.current?.setData(data), [timesMs.at(-1), timesMs.length])

  return html`<figure class="chart" role="img" aria-label=${label}><div ref=${place}></div></figure>`
}

function optionsOf(
  holder: HTMLElement,
  lines: readonly Line[],
  format: (value: number) => string,
  height: number,
): uPlot.Options {
  const style = getComputedStyle(holder)
  const color = (name: string): string => style.getPropertyValue(name).trim()
  const axis = {
    stroke: color('--muted'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui',
  }
  return {
    width: holder.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 26, 0, 0],
    scales: {
      x: { range: ({ data: [times] }) => [Math.min(times[0]!, times.at(-1)! - SECONDS_MIN), times.at(-1)!] },
      y: { range: (_chart, _low, high) => [0, Math.max(high ?? 0, 1) * 1.1] },
    },
    axes: [
      { ...axis, size: 24, space: 80, values: (_chart, marks) => marks.map((seconds) => clock.format(seconds * 1000)) },
      { ...axis, size: 64, space: 34, values: (_chart, marks) => marks.map(format) },
    ],
    series: [
      {},
      ...lines.map(({ title, color: name }) => ({
        label: title,
        stroke: color(name),
        width: 1.75,
        points: { show: false },
        fill: `${color(name)}18`,
      })),
    ],
  }
}
