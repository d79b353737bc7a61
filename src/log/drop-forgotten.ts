/** Removes from a replica directory the segments that the log has dropped while the directory was away. */
import { dropInSteps } from './drop-segment.ts'
import { DurableMark, readMark } from './durable-mark.ts'
import type { Files } from './files.ts'
import { mergedIn } from './merged.ts'
import { segmentBaseOf, segmentName } from './segment-format.ts'
import type { Steps } from '../steps.ts'

/**
 * The replica's mark names the later beginning first, so that nothing is missing there after a crash. Does nothing as long as a segment from `begin` on has
 * moved into the directory of one before it (merged.ts).
 *
 * @param begin where the log begins
 */
export function* dropForgotten(
  files: Files,
  replica: string,
  segmentsName: string,
  logId: number,
  begin: number,
): Steps<void> {
  const segments = `${replica}/${segmentsName}`
  const bases = (files.list(segments) ?? []).flatMap((name) => segmentBaseOf(name) ?? [])
  const dropped = bases.filter((base) => base < begin).toSorted((a, b) => a - b)
  const reaches = (base: number): boolean =>
    mergedIn(files, `${segments}/${segmentName(base)}`, logId, base).some(({ end }) => end > begin)
  if (dropped.length === 0 || dropped.some(reaches)) return
  const { epoch, position, begin: known } = readMark(files, replica, logId)
  if (known === null || known < begin) DurableMark.setBegin(files, replica, logId, { epoch, position, begin })
  for (const [done, base] of dropped.entries()) {
    for (const _ of dropInSteps(files, segments, base, false))
      yield { phase: 'removing segments that the log has dropped', done, total: dropped.length, unit: 'segments' }
  }
}
