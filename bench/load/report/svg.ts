/** Inline SVG, just enough for time series and histograms. Colours come from the page's CSS classes. */

export interface Frame {
  readonly width: number
  readonly height: number
  readonly left: number
  readonly right: number
  readonly top: number
  readonly bottom: number
}

export const FRAME: Frame = { width: 760, height: 260, left: 68, right: 12, top: 14, bottom: 34 }

/** From a value to a coordinate, with the values that deserve a tick. */
export interface Scale {
  readonly at: (value: number) => number
  readonly ticks: readonly number[]
}

/** @param max > 0 of the values shown; the scale begins at 0 and ends at `max` or a little above */
export function linearScale(max: number, from: number, to: number, roundUp: boolean): Scale {
  const step = niceStep(max / 5)
  const end = roundUp ? Math.ceil(max / step) * step : max
  const ticks = Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, index) => index * step)
  return { at: (value) => from + (Math.min(value, end) / end) * (to - from), ticks }
}

/** @param min > 0, at most max; ticks at 1, 2 and 5 of each decade, fewer when there are many decades */
export function logScale(min: number, max: number, from: number, to: number): Scale {
  const low = Math.log10(min)
  const high = Math.max(Math.log10(max), low + 0.1)
  const multiples = high - low > 3 ? [1] : high - low > 1.5 ? [1, 3] : [1, 2, 5]
  const ticks = []
  for (let decade = Math.floor(low); decade <= high; decade++) {
    for (const multiple of multiples) {
      const tick = multiple * 10 ** decade
      if (tick >= min * 0.999 && tick <= max * 1.001) ticks.push(tick)
    }
  }
  const clamp = (value: number): number => Math.min(Math.max(Math.log10(value), low), high)
  return { at: (value) => from + ((clamp(value) - low) / (high - low)) * (to - from), ticks }
}

/** 1, 2 or 5 times a power of ten, at least `value`. */
function niceStep(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return power * ([1, 2, 5].find((multiple) => multiple * power >= value * 0.999) ?? 10)
}

export function axes(
  x: Scale,
  y: Scale,
  formatX: (value: number) => string,
  formatY: (value: number) => string,
): string {
  const { width, height, left, right, bottom } = FRAME
  const floor = height - bottom
  const rows = y.ticks.map((tick) => {
    const at = round(y.at(tick))
    return (
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${at}" y2="${at}"/>` +
      `<text x="${left - 8}" y="${at + 4}" text-anchor="end">${escapeHtml(formatY(tick))}</text>`
    )
  })
  const columns = x.ticks.map((tick) => {
    const at = round(x.at(tick))
    return (
      `<line class="axis" x1="${at}" x2="${at}" y1="${floor}" y2="${floor + 5}"/>` +
      `<text x="${at}" y="${floor + 20}" text-anchor="middle">${escapeHtml(formatX(tick))}</text>`
    )
  })
  return `${rows.join('')}<line class="axis" x1="${left}" x2="${width - right}" y1="${floor}" y2="${floor}"/>${columns.join('')}`
}

/** @param points coordinates, left to right */
export function line(points: readonly (readonly [x: number, y: number])[], className: string): string {
  const path = points.map(([x, y]) => `${round(x)},${round(y)}`).join(' ')
  const dot = points[0] !== undefined && points.length === 1 ? points[0] : null
  return dot === null
    ? `<polyline class="${className}" points="${path}"/>`
    : `<circle class="${className}" cx="${round(dot[0])}" cy="${round(dot[1])}" r="3"/>`
}

export function rectangle(
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
  className: string,
  title: string,
): string {
  return (
    `<rect class="${className}" x="${round(x)}" y="${round(y)}" width="${round(Math.max(width, 0.5))}" ` +
    `height="${round(Math.max(height, 0))}"><title>${escapeHtml(title)}</title></rect>`
  )
}

export function svg(label: string, content: string): string {
  return `<svg viewBox="0 0 ${FRAME.width} ${FRAME.height}" role="img" aria-label="${escapeHtml(label)}">${content}</svg>`
}

export function escapeHtml(value: string): string {
  return value
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
