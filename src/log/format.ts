/**
 * FORMAT, the file that says what a directory holds: `{"format":"trilog-log","version":1,"id":"89abcdef","crc32":"01234567"}`.
 * These four fields stay in every version. A directory without the file is a new log, unless it holds segments. The upgrade from each older
 * version gets a step here.
 */
import { crc32 } from 'node:zlib'
import { StoreError } from '../errors.ts'
import { readMark } from './durable-mark.ts'
import { makeDurableDirectory, publishFile, readWhole } from './files.ts'
import type { Files } from './files.ts'
import { LOG_VERSION } from './segment-format.ts'

export const FORMAT_NAME = 'FORMAT'

const FORMAT = 'trilog-log'

/**
 * @returns the id of the log in this directory, or null for a directory that holds none
 * @throws StoreError corrupt: of a newer format, unreadable, missing beside segments, or beside segments that are missing
 */
export function readFormat(files: Files, directory: string, segmentsName: string): number | null {
  const bytes = readWhole(files, `${directory}/${FORMAT_NAME}`)
  if (bytes === null) {
    const segments = files.list(`${directory}/${segmentsName}`) ?? []
    if (segments.length === 0) return null
    throw new StoreError(
      'corrupt',
      'log_format_missing',
      `${directory} holds segments but no ${FORMAT_NAME} file: restore it from a backup or a replica, or start with an empty directory`,
    )
  }
  const id = parse(bytes.toString('utf8'), directory)
  const isEmpty = files.list(`${directory}/${segmentsName}`) === null
  if (!isEmpty || readMark(files, directory, id).position === 0) return id
  throw new StoreError(
    'corrupt',
    'log_segments_missing',
    `${directory} holds a log, but not its ${segmentsName}: it is of another service, or they were removed. Choose another directory, or restore it from a backup or a replica`,
  )
}

export function writeFormat(files: Files, directory: string, logId: number): void {
  makeDurableDirectory(files, directory)
  const id = hex(logId)
  const text = JSON.stringify({ format: FORMAT, version: LOG_VERSION, id, crc32: checksum(LOG_VERSION, id) })
  publishFile(files, directory, FORMAT_NAME, [Buffer.from(`${text}\n`)])
}

function parse(text: string, directory: string): number {
  const { format, version, id, crc32: stored } = parseObject(text) ?? {}
  const isWhole =
    format === FORMAT && typeof version === 'number' && typeof id === 'string' && stored === checksum(version, id)
  if (isWhole && version === LOG_VERSION) return Number.parseInt(id, 16)
  if (isWhole && version > LOG_VERSION) {
    throw new StoreError(
      'corrupt',
      'log_format_newer',
      `${directory} was written by a newer version (log format ${version}, this version knows ${LOG_VERSION}): upgrade`,
    )
  }
  throw new StoreError(
    'corrupt',
    'log_format_unreadable',
    `${directory}/${FORMAT_NAME} is damaged or not of this program: restore it from a backup or a replica`,
  )
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null // checked field by field
  } catch {
    return null
  }
}

function checksum(version: number, id: string): string {
  return hex(crc32(`${FORMAT} ${version} ${id}`))
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0')
}
