/** What the disk under a data directory can do: tried, not assumed. Source: specification "Resources", platform capabilities. */
import fs from 'node:fs'
import { totalmem } from 'node:os'
import { dirname, resolve } from 'node:path'
import { errorCode } from '../log/files.ts'

const PROBE_NAME = '.probe'
const MOUNTS = '/proc/self/mountinfo'

export interface DiskCapabilities {
  readonly device: string
  readonly atomicRename: boolean
  readonly flushBehavior: string
  readonly directIo: boolean
}

/**
 * A capability that cannot be tried, as on a full disk, counts as absent: the result is for people, and nothing depends on it.
 *
 * @param directory an existing one
 */
export function probeDisk(directory: string): DiskCapabilities {
  const path = `${directory}/${PROBE_NAME}`
  const other = `${path}.new`
  try {
    return {
      device: deviceOf(directory),
      atomicRename: tried(() => canReplace(path, other), false),
      flushBehavior: tried(() => flushBehaviorOf(path), 'unknown: the disk could not be written'),
      directIo: tried(() => canWriteDirectly(path), false),
    }
  } finally {
    fs.rmSync(path, { force: true })
    fs.rmSync(other, { force: true })
  }
}

/** Memory of the machine, or of the container if that has less. */
export function memoryBytes(): number {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

/** Size of the file system of a directory, or of the nearest directory above that exists. */
export function diskBytes(directory: string): number {
  for (let at = resolve(directory); ; at = dirname(at)) {
    try {
      const { blocks, bsize } = fs.statfsSync(at)
      return blocks * bsize
    } catch (error) {
      if (at === dirname(at)) throw error // a fault of the directory itself is reported where it is made
    }
  }
}

function tried<T>(probe: () => T, otherwise: T): T {
  try {
    return probe()
  } catch (error) {
    if (errorCode(error) === 'unknown') throw error
    return otherwise
  }
}

function canReplace(path: string, other: string): boolean {
  fs.writeFileSync(path, 'old')
  fs.writeFileSync(other, 'new')
  fs.renameSync(other, path)
  return fs.readFileSync(path, 'utf8') === 'new' && !fs.existsSync(other)
}

function flushBehaviorOf(path: string): string {
  const file = fs.openSync(path, 'r+')
  try {
    fs.writeSync(file, 'flushed')
    const flush = (): string => {
      fs.fdatasyncSync(file)
      return 'fdatasync before every answer'
    }
    return tried(flush, 'none: the file system does not flush')
  } finally {
    fs.closeSync(file)
  }
}

/** A file system without direct I/O refuses to open such a file. */
function canWriteDirectly(path: string): boolean {
  if (fs.constants.O_DIRECT === undefined) return false
  fs.closeSync(fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_DIRECT))
  return true
}

/** The kernel's number of the device, with the source of the mount where that is known. */
function deviceOf(directory: string): string {
  const { dev } = fs.statSync(directory)
  const number = `${Math.floor(dev / 256)}:${dev % 256}`
  const mounts = fs.existsSync(MOUNTS) ? fs.readFileSync(MOUNTS, 'utf8').split('\n') : []
  const fields = mounts.map((line) => line.split(' ')).find((words) => words[2] === number)
  const source = fields?.[fields.indexOf('-') + 2]
  return source === undefined ? number : `${number} ${source}`
}
