/** Compactions and merges as they are seen from outside, in the directories of a log store. */
import { readdirSync, statSync } from 'node:fs'
import { TEMPORARY_SUFFIX } from '../../../src/log/files.ts'
import { MOVED_BYTES, mergedEndOf } from '../../../src/log/merged.ts'
import { MERGED_PREFIX, RECORDS_NAME, segmentBaseOf } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'

export interface Compactions {
  /** Segments whose other form is being written, or whose first form is still there. */
  readonly underWay: number
  /** Segments that have the other form only. */
  readonly done: number
}

export function compactionsIn(directory: string): Compactions {
  let underWay = 0
  let done = 0
  for (const segment of namesIn(`${directory}/bundles`)) {
    const names = new Set(namesIn(`${directory}/bundles/${segment}`))
    if (names.has(`${STAND_IN_NAME}${TEMPORARY_SUFFIX}`)) underWay++
    else if (names.has(STAND_IN_NAME) && names.has(RECORDS_NAME)) underWay++
    else if (names.has(STAND_IN_NAME)) done++
  }
  return { underWay, done }
}

/** `Compactions` of merged files: one is under way while it is written, or while a segment in it has not moved. */
export function mergesIn(directory: string): Compactions {
  const segments = namesIn(`${directory}/bundles`)
  let underWay = 0
  let done = 0
  for (const segment of segments) {
    for (const name of namesIn(`${directory}/bundles/${segment}`)) {
      const end = mergedEndOf(name)
      if (end === null && name.startsWith(MERGED_PREFIX) && name.endsWith(TEMPORARY_SUFFIX)) underWay++
      if (end === null) continue
      const isIn = (other: string): boolean => other >= segment && (segmentBaseOf(other) ?? Infinity) < end
      const areMoved = segments.filter(isIn).every((other) => hasMoved(`${directory}/bundles/${other}`))
      if (areMoved) done++
      else underWay++
    }
  }
  return { underWay, done }
}

function hasMoved(segment: string): boolean {
  try {
    return statSync(`${segment}/${STAND_IN_NAME}`).size === MOVED_BYTES
  } catch {
    return false
  }
}

/** None: it is not there, or no longer. */
function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}
