/** Compactions as they are seen from outside, in the directories of a log store. */
import { readdirSync } from 'node:fs'
import { TEMPORARY_SUFFIX } from '../../../src/log/files.ts'
import { RECORDS_NAME } from '../../../src/log/segment-format.ts'
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

/** None: it is not there, or no longer. */
function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}
