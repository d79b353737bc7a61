/** Merges segments as a service does it, with a content of which the log knows only the header. */
import { publishFile, readWhole } from '../../src/log/files.ts'
import type { Files } from '../../src/log/files.ts'
import { MOVED_CONTENT_BYTES, mergedName } from '../../src/log/merged.ts'
import { decodeSegmentFooter, segmentName } from '../../src/log/segment-format.ts'
import type { SegmentFooter } from '../../src/log/segment-format.ts'
import {
  STAND_IN_NAME,
  clearBesideStandIn,
  decodeStandInHeader,
  encodeStandInHeader,
  publishStandIn,
} from '../../src/log/stand-in.ts'

const MOVED = Buffer.alloc(MOVED_CONTENT_BYTES, 'moved ')
export const MERGED_CONTENT = Buffer.alloc(2500, 'what several segments hold, in another form ')

function footerOf(files: Files, directory: string): SegmentFooter {
  const records = readWhole(files, `${directory}/records.log`)
  if (records !== null) return decodeSegmentFooter(records.subarray(-64))!
  return decodeStandInHeader(readWhole(files, `${directory}/${STAND_IN_NAME}`)!)!
}

/** Writes the merged file of adjacent segments. */
export function writeMerged(files: Files, segmentsDirectory: string, bases: readonly number[]): void {
  const footers = bases.map((base) => footerOf(files, `${segmentsDirectory}/${segmentName(base)}`))
  const { base } = footers[0]!
  const last = footers.at(-1)!
  const frameCount = footers.reduce((sum, footer) => sum + footer.frameCount, 0)
  const header = encodeStandInHeader({ ...last, base, frameCount }, [MERGED_CONTENT])
  publishFile(files, `${segmentsDirectory}/${segmentName(base)}`, mergedName(last.end), [header, MERGED_CONTENT])
}

/** Puts a moved stand-in in place of a segment's files. */
export function moveOut(files: Files, segmentsDirectory: string, base: number): void {
  const directory = `${segmentsDirectory}/${segmentName(base)}`
  const footer = footerOf(files, directory)
  publishStandIn(files, directory, [encodeStandInHeader(footer, [MOVED]), MOVED])
  clearBesideStandIn(files, directory, footer.logId, base)
}

export function merge(files: Files, segmentsDirectory: string, bases: readonly number[]): void {
  writeMerged(files, segmentsDirectory, bases)
  for (const base of bases) moveOut(files, segmentsDirectory, base)
}

/** Puts a stand-in with content in place of a moved one. */
export function moveBack(files: Files, segmentsDirectory: string, base: number): void {
  const directory = `${segmentsDirectory}/${segmentName(base)}`
  const content = Buffer.alloc(700, 'what one segment holds ')
  publishStandIn(files, directory, [encodeStandInHeader(footerOf(files, directory), [content]), content])
}
