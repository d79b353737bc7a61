/** The table of a comparison, as Markdown. */
import { formatCount, formatMs } from '../../bench/load/format.ts'
import type { Figures, Measured } from './peer.ts'

export type Row = Measured & {
  /** How many small writes a second the disk itself synced, before and after on the average. */
  readonly syncsPerSecond: number
}

const FIGURES = ['per sync', 'p50', 'p99']
const HEAD = ['server', 'synced first', 'disk: syncs/s', 'publish/s', ...FIGURES, 'cycles/s', ...FIGURES]

export function formatTable(rows: readonly Row[]): string {
  const cells = [HEAD, ...rows.map(cellsOf)]
  const widths = HEAD.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  const lines = cells.map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(' | ')} |`)
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`
  return [lines[0], rule, ...lines.slice(1)].join('\n')
}

function cellsOf({ server, syncs, publish, cycle, syncsPerSecond }: Row): string[] {
  const figures = ({ perSecond, p50Ms, p99Ms }: Figures): string[] => [
    formatCount(perSecond),
    (perSecond / syncsPerSecond).toFixed(1),
    formatMs(p50Ms),
    formatMs(p99Ms),
  ]
  return [server, syncs, formatCount(syncsPerSecond), ...figures(publish), ...figures(cycle)]
}
