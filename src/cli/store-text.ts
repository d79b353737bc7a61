/** What `trilog backup`, `restore` and `inspect` tell people and scripts. */
import type { BackupReport } from '../maintenance/backup.ts'
import type { CheckReport } from '../maintenance/check.ts'
import type { InspectedLog, InspectedSegment } from '../maintenance/inspect.ts'
import type { RestoredLog } from '../maintenance/restore.ts'
import { columns } from './columns.ts'
import { shownTime, visible } from './style.ts'
import type { Style } from './style.ts'

const nameOf = (place: string): string => (place === '' ? '.' : visible(place))

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

export function shownSize(bytes: number): string {
  const power = Math.min(UNITS.length - 1, bytes < 1024 ? 0 : Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${UNITS[power]}`
}

const wrongLines = (problems: readonly string[], style: Style): readonly string[] =>
  problems.map((problem) => `${style.bad('damaged')}  ${visible(problem)}`)

export const backupJson = (report: BackupReport, problems: readonly string[]): unknown => {
  const { snapshot, damagedSnapshots: _, ...counts } = report
  const logs = snapshot.logs.map(({ place, from, position }) => ({ place, from, position }))
  return { snapshot: snapshot.sequence, logs, ...counts, problems }
}

export const checkJson = (report: CheckReport, whole: boolean): unknown => ({
  whole,
  ...report,
  snapshots: report.snapshots.map(({ logs, ...snapshot }) => ({
    ...snapshot,
    logs: logs.map(({ place, from, position }) => ({ place, from, position })),
  })),
})

/** As all JSON of trilog: names in lower case with underscores. */
export function asJson(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asJson)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, of]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      asJson(of),
    ]),
  )
}

export function backupText(report: BackupReport, problems: readonly string[], style: Style): readonly string[] {
  const { snapshot, copiedFiles, copiedBytes, reusedFiles, reusedBytes, removedSnapshots } = report
  const logs = snapshot.logs.map(({ place, position }) => [`  ${nameOf(place)}`, `up to position ${position}`])
  const removed = removedSnapshots.length === 0 ? [] : [`removed   snapshots ${removedSnapshots.join(', ')}`]
  return [
    `${style.good('snapshot')}  ${snapshot.sequence}, ${shownTime(snapshot.createdAtMs)}`,
    ...columns(logs),
    `copied    ${copiedFiles} files, ${shownSize(copiedBytes)}`,
    `reused    ${reusedFiles} files, ${shownSize(reusedBytes)}`,
    ...removed,
    ...wrongLines(problems, style),
  ]
}

export function checkText(report: CheckReport, style: Style): readonly string[] {
  const rows = report.snapshots.flatMap(({ sequence, createdAtMs, logs, problems }) =>
    logs.map(({ place, from, position }, index) => [
      index === 0 ? String(sequence) : '',
      index === 0 ? shownTime(createdAtMs) : '',
      nameOf(place),
      `${from} to ${position}`,
      problems.length === 0 ? style.good('whole') : style.bad('damaged'),
    ]),
  )
  const head = ['snapshot', 'made', 'service', 'positions', 'state'].map(style.heading)
  const problems = new Set([...report.problems, ...report.snapshots.flatMap((snapshot) => snapshot.problems)])
  return [
    ...(rows.length === 0 ? [] : columns([head, ...rows])),
    `read      ${report.files} files, ${shownSize(report.bytes)}`,
    ...wrongLines([...problems], style),
  ]
}

export const restoreText = (logs: readonly RestoredLog[], style: Style): readonly string[] => [
  style.good('restored'),
  ...columns(
    logs.map(({ directory, position, bytes }) => [
      `  ${visible(directory)}`,
      `up to position ${position}`,
      shownSize(bytes),
    ]),
  ),
]

export function inspectText(logs: readonly InspectedLog[], style: Style): readonly string[] {
  const problems = logs.flatMap((log) => log.problems.map(({ where, reason }) => `${where}: ${reason}`))
  return [
    ...logs.flatMap((log) => [...logLines(log, style), '']),
    ...wrongLines(problems, style),
    problems.length === 0 ? style.good('whole') : style.bad(`${problems.length} problems`),
  ]
}

/** Nothing in it says which service made it. */
const isEmpty = ({ service, segments, problems }: InspectedLog): boolean =>
  service === 'unknown' && segments.length === 0 && problems.length === 0

function logLines(log: InspectedLog, style: Style): readonly string[] {
  const { segments, checkpoints, bundles, leftovers } = log
  const facts = columns([
    ['  log', log.logId.toString(16).padStart(8, '0')],
    ['  positions', `${log.begin} to ${log.end}, known to be durable up to ${log.durable}`],
    ['  opened', `${log.epoch} times`],
    ['  frames', `${log.frames} in ${segments.length} segments, ${shownSize(log.bytes)}`],
    ...(log.incidents > 0 ? [['  incidents', String(log.incidents)]] : []),
    ...(leftovers.length > 0 ? [['  leftovers', leftovers.map(visible).join(', ')]] : []),
  ])
  const head = ['  segment', 'state', 'positions', 'frames', 'size', 'sidecars'].map(style.heading)
  return [
    style.heading(`${isEmpty(log) ? 'empty log' : log.service} in ${nameOf(log.place)}`),
    ...facts,
    ...(segments.length === 0 ? [] : columns([head, ...segments.map(segmentRow)])),
    ...columns(
      checkpoints.map(({ name, bytes, whole }) => [
        `  ${name}`,
        shownSize(bytes),
        whole ? style.good('whole') : style.bad('damaged'),
      ]),
    ),
    ...bundles.map(({ name, files }) => `  ${visible(name)}  ${files.map(visible).join(', ')}`),
  ]
}

const segmentRow = ({ name, base, end, form, bytes, frames, sidecars, quarantined }: InspectedSegment): string[] => [
  `  ${name}`,
  `${form}${quarantined > 0 ? `, ${quarantined} ranges quarantined` : ''}`,
  `${base} to ${end}`,
  String(frames),
  shownSize(bytes),
  sidecars === null ? '-' : sidecars.map(visible).join(', '),
]
