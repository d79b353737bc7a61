/** What the disk under a data directory can do: tried, not assumed. Source: specification "Resources", platform capabilities. */
import fs from 'node:fs'
import { errorCode } from '../log/files.ts'

const PROBE_NAME = '.probe'
const MOUNTS = '/proc/self/mountinfo'

export interface DiskCapabilities {
  readonly device: string
  readonly atomicRename: boolean
  readonly flushBehavior: string
  readonly directIo: boolean
}

/** @param directory exists and is writable */
export function probeDisk(directory: string): DiskCapabilities {
  const path = `${directory}/${PROBE_NAME}`
  const other = `${path}.new`
  try {
    return {
      device: deviceOf(directory),
      atomicRename: canReplace(path, other),
      flushBehavior: canFlush(path) ? 'fdatasync before every answer' : 'none: the file system does not flush',
      directIo: canWriteDirectly(path),
    }
  } finally {
    fs.rmSync(path, { force: true })
    fs.rmSync(other, { force: true })
  }
}

/** Bytes that can still be written. */
export function freeBytes(directory: string): number {
  const { bavail, bsize } = fs.statfsSync(directory)
  return bavail * bsize
}

function canReplace(path: string, other: string): boolean {
  fs.writeFileSync(path, 'old')
  fs.writeFileSync(other, 'new')
  fs.renameSync(other, path)
  return fs.readFileSync(path, 'utf8') === 'new' && !fs.existsSync(other)
}

function canFlush(path: string): boolean {
  const file = fs.openSync(path, 'r+')
  try {
    fs.writeSync(file, 'flushed')
    fs.fdatasyncSync(file)
    return true
  } catch (error) {
    if (errorCode(error) === 'unknown') throw error
    return false
  } finally {
    fs.closeSync(file)
  }
}

/** A file system that cannot refuses to open such a file. */
function canWriteDirectly(path: string): boolean {
  if (fs.constants.O_DIRECT === undefined) return false
  try {
    fs.closeSync(fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_DIRECT))
    return true
  } catch (error) {
    if (errorCode(error) === 'unknown') throw error
    return false
  }
}

/** As the kernel numbers it, with the name that it was mounted by where that is known. */
function deviceOf(directory: string): string {
  const { dev } = fs.statSync(directory)
  const number = `${Math.floor(dev / 256)}:${dev % 256}`
  const mounts = fs.existsSync(MOUNTS) ? fs.readFileSync(MOUNTS, 'utf8').split('\n') : []
  const fields = mounts.map((line) => line.split(' ')).find((words) => words[2] === number)
  const source = fields?.[fields.indexOf('-') + 2]
  return source === undefined ? number : `${number} ${source}`
}
