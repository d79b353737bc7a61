/**
 * The report: one HTML page with everything in it. No script, no font, no image, nothing fetched; it works from file://
 * and under the strictest content security policy that allows inline styles.
 */
import { formatCount, formatMegabytes, formatMs, formatPercent } from '../format.ts'
import { formatCutOff } from '../result.ts'
import type { LoadResult } from '../result.ts'
import { diskUnitsPerSecond, distributionChart, errorChart, latencyChart, throughputChart, toPoints } from './charts.ts'
import type { Point } from './charts.ts'
import { style } from './style.ts'
import { escapeHtml } from './svg.ts'

export function renderReport(result: LoadResult): string {
  const title = `Load on ${result.service}, ${result.startedAt.slice(0, 19).replace('T', ' ')} UTC`
  const points = toPoints(result.seconds)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<header><h1>${escapeHtml(title)}</h1><p>${escapeHtml(headline(result))}</p></header>
<main>
<section class="tiles">${tiles(result)}</section>
${figure('Throughput over time', throughputNote(result), throughputChart(result, points))}
${figure('Latency over time', `<b class="one">p50</b><b class="two">p99</b><b class="three">max</b>of acknowledged ${result.task}, logarithmic axis`, latencyChart(points))}
${figure('Latency distribution', `share of acknowledged ${result.task}, logarithmic axis`, distributionChart(result))}
${errorSection(result, points)}
${verificationSection(result)}
<section class="columns">
${table('Percentiles', percentileRows(result))}
${table('Disk', diskRows(result))}
${table('Configuration', result.configuration)}
${table('Machine', [...result.machine, ['load tool CPU', `${formatPercent(result.cpuShare)} of one core`]])}
</section>
</main>
</body>
</html>
`
}

function headline(result: LoadResult): string {
  const { acknowledged, elapsedSeconds, unit, task, loop } = result
  return (
    `${formatCount(acknowledged.units)} ${unit} acknowledged in ${elapsedSeconds.toFixed(1)} s, ${loop} loop: ` +
    (loop === 'open'
      ? 'latency counts from the moment one was due'
      : `each connection does its ${task} one after the other`)
  )
}

function tiles(result: LoadResult): string {
  const { throughput, latencyMs, diskRatio, unit } = result
  const errorCount = Object.values(result.errors).reduce((sum, count) => sum + count, 0)
  const entries: [string, string, boolean?][] = [
    [`${unit} per second`, formatCount(throughput.unitsPerSecond)],
    ['MB per second', formatMegabytes(throughput.payloadBytesPerSecond)],
    ["of the disk's own rate", diskRatio === null ? '–' : formatPercent(diskRatio)],
    ['p50 latency', formatMs(latencyMs.p50)],
    ['p99 latency', formatMs(latencyMs.p99)],
    ['errors', formatCount(errorCount), errorCount > 0],
  ]
  return entries
    .map(
      ([name, value, bad]) =>
        `<div${bad === true ? ' class="bad"' : ''}><strong>${escapeHtml(value)}</strong><span>${escapeHtml(name)}</span></div>`,
    )
    .join('')
}

function throughputNote(result: LoadResult): string {
  const diskRate = diskUnitsPerSecond(result)
  const parts = [`<b class="one">acknowledged ${escapeHtml(result.unit)} per second</b>`]
  if (diskRate !== null) {
    parts.push(
      `<b class="disk">the disk's own rate, ${formatCount(diskRate)} ${escapeHtml(result.unit)} per second</b>`,
    )
  }
  return parts.join('')
}

function figure(title: string, note: string, chart: string): string {
  const content = chart === '' ? '<p class="empty">nothing was acknowledged</p>' : chart
  return `<figure><figcaption><h2>${title}</h2><p>${note}</p></figcaption>${content}</figure>`
}

function errorSection(result: LoadResult, points: readonly Point[]): string {
  const errors = Object.entries(result.errors)
  if (errors.length === 0) return ''
  const most = Math.max(...errors.map(([, count]) => count))
  const rows = errors.map(
    ([kind, count]) =>
      `<tr><th>${escapeHtml(kind)}</th><td>${formatCount(count)}</td>` +
      `<td class="wide"><i style="width:${((count / most) * 100).toFixed(1)}%"></i></td></tr>`,
  )
  const note =
    result.retryAfterMaxSeconds > 0
      ? `longest Retry-After: ${result.retryAfterMaxSeconds} s`
      : 'no Retry-After was sent'
  return (
    `<section><h2>Errors by kind</h2><p>${note}</p><table class="errors">${rows.join('')}</table></section>` +
    figure('Errors over time', '<b class="bad">refused and failed requests per second</b>', errorChart(points))
  )
}

function verificationSection({ verification }: LoadResult): string {
  if (verification === null) return ''
  const rows = verification.checks.map(
    ({ name, ok, detail }) =>
      `<tr><th>${escapeHtml(name)}</th><td class="${ok ? 'good' : 'bad'}">${ok ? 'verified' : 'not verified'}</td>` +
      `<td class="wide">${escapeHtml(detail)}</td></tr>`,
  )
  return `<section><h2>Verification</h2><table>${rows.join('')}</table></section>`
}

function percentileRows(result: LoadResult): [string, string][] {
  const { latencyMs, startDelayMs, aborted, missed, empty, task } = result
  const rows: [string, string][] = [
    ['p50', formatMs(latencyMs.p50)],
    ['p90', formatMs(latencyMs.p90)],
    ['p99', formatMs(latencyMs.p99)],
    ['p99.9', formatMs(latencyMs.p999)],
    ['maximum', formatMs(latencyMs.max)],
    ['mean', formatMs(latencyMs.mean)],
  ]
  if (startDelayMs !== null) {
    rows.push(['own start delay p50', formatMs(startDelayMs.p50)], ['own start delay p99', formatMs(startDelayMs.p99)])
  }
  if (empty > 0) rows.push(['found nothing', `${formatCount(empty)} ${task}`])
  if (missed > 0) rows.push(['never started', `${formatCount(missed)} ${task}`])
  if (aborted > 0) rows.push(['cut off', formatCutOff(result)])
  return rows
}

function diskRows({ disk, throughput, diskRatio }: LoadResult): [string, string][] {
  if (disk.bytesPerSecond === null) return [['own rate', disk.problem ?? 'not measured']]
  const rate = (bytesPerSecond: number | undefined): string =>
    bytesPerSecond === undefined ? 'not measured' : `${formatMegabytes(bytesPerSecond)} MB/s`
  return [
    ['directory', disk.directory],
    ['write + fdatasync before', rate(disk.before?.bytesPerSecond)],
    ['write + fdatasync after', rate(disk.after?.bytesPerSecond)],
    ['mean', rate(disk.bytesPerSecond)],
    ['payload acknowledged', rate(throughput.payloadBytesPerSecond)],
    ['ratio', diskRatio === null ? 'not measured' : formatPercent(diskRatio)],
  ]
}

function table(title: string, rows: readonly (readonly [string, string])[]): string {
  const body = rows.map(([name, value]) => `<tr><th>${escapeHtml(name)}</th><td>${escapeHtml(value)}</td></tr>`)
  return `<div><h2>${title}</h2><table>${body.join('')}</table></div>`
}
