/**
 * Prometheus' text format 0.0.4, in names that OpenMetrics takes as well.
 *
 *   # OTEL <name> <OpenTelemetry name>      a comment to scrapers; where there is such a name
 *   # HELP <name> <text>                    backslash and line feed escaped
 *   # TYPE <name> counter|gauge|histogram
 *   <name>{<label>="<value>",…} <number>    backslash, line feed and quote escaped in values
 */

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export type Labels = Readonly<Record<string, string>>

export type MetricType = 'counter' | 'gauge' | 'histogram'

/** What a scrape shows of one histogram, or of several together. */
export interface HistogramView {
  readonly bounds: readonly number[]
  readonly sum: number
  /** Values in the bucket that ends at this bound; the last bucket is above all bounds. */
  count(bucket: number): number
}

export const METRIC_NAME = /^[a-z][a-z0-9_]*$/

/** @param alias its OpenTelemetry name; null: it is not shown */
export function headOf(name: string, help: string, type: MetricType, alias: string | null): string {
  const helpText = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  const comment = alias === null ? '' : `# OTEL ${name} ${alias}\n`
  return `${comment}# HELP ${name} ${helpText}\n# TYPE ${name} ${type}\n`
}

export const sampleOf = (name: string, labels: string, value: number): string =>
  `${name}${labels === '' ? '' : `{${labels}}`} ${numberText(value)}\n`

/** The samples of one histogram: buckets count everything up to their bound. */
export function histogramText(name: string, labels: string, histogram: HistogramView): string {
  const { bounds, sum } = histogram
  const before = labels === '' ? '' : `${labels},`
  let text = ''
  let count = 0
  for (let bucket = 0; bucket <= bounds.length; bucket++) {
    count += histogram.count(bucket)
    const bound = bucket === bounds.length ? '+Inf' : numberText(bounds[bucket]!)
    text += `${name}_bucket{${before}le="${bound}"} ${count}\n`
  }
  return text + sampleOf(`${name}_sum`, labels, sum) + sampleOf(`${name}_count`, labels, count)
}

/** The text between the braces. */
export function labelText(labels: Labels): string {
  let text = ''
  for (const name in labels) text += `${text === '' ? '' : ','}${name}="${escaped(labels[name]!)}"`
  return text
}

const UNSAFE = /[\\\n"]/g
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' }

const escaped = (value: string): string => value.replaceAll(UNSAFE, (character) => ESCAPES[character]!)

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
