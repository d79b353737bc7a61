/**
 * Chooses the neighbouring bundles that become one. A compacted segment has level 0, and bundles of level n become one of level n + 1. So the number of
 * bundles grows with the logarithm of the data, as far as the bounds allow, and a record is written again once a level.
 *
 * L1  neighbours only, of one level, which follow each other without a gap: RUN_LENGTH of them, or RUN_LENGTH_MIN at least when a bound stops them
 * L2  a run covers at most an eighth of the age and of the bytes that retention keeps, so that retention frees space almost as finely as without merging
 * L3  bundles that retention drops soon are not written again
 */
import { MERGED_POSITIONS_MAX } from '../../log/merged.ts'
import { SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import type { Bundle } from '../index/manifest.ts'
import type { RetentionLimits } from '../limits.ts'

export const RUN_LENGTH = 8
export const RUN_LENGTH_MIN = 4
/** A table of 32 bits for each entry then takes 16 MiB, and a trim of the merged bundle has two (trim-run.ts). */
export const MERGED_ENTRIES_MAX = 1 << 22
const SHARE_OF_RETENTION = 8

export interface MergeSituation {
  readonly limits: RetentionLimits
  /** Position behind the last frame of the log. */
  readonly logEnd: number
  /** ns since the Unix epoch. */
  readonly nowNs: bigint
}

/**
 * @param bundles ascending by position
 * @param isLeftOut bundles that are not to be touched now
 * @returns the oldest run; null: there is none
 */
export function nextRun(
  bundles: readonly Bundle[],
  situation: MergeSituation,
  isLeftOut: (bundle: Bundle) => boolean = () => false,
): readonly Bundle[] | null {
  for (let from = 0; from < bundles.length; from++) {
    const run = runFrom(bundles, from, situation, isLeftOut)
    if (run.length === RUN_LENGTH) return run
    const next = bundles[from + run.length]
    const isStopped = run.length >= RUN_LENGTH_MIN && next !== undefined && follows(run.at(-1)!, next, isLeftOut)
    if (isStopped) return run // by a bound, so the run never becomes longer
  }
  return null
}

function runFrom(
  bundles: readonly Bundle[],
  from: number,
  situation: MergeSituation,
  isLeftOut: (bundle: Bundle) => boolean,
): readonly Bundle[] {
  const run: Bundle[] = []
  for (let at = from; at < bundles.length && run.length < RUN_LENGTH; at++) {
    const bundle = bundles[at]!
    const before = run.at(-1)
    if (before === undefined) {
      if (bundle.isCompacted !== true || isLeftOut(bundle) || isDroppedSoon(bundle, situation)) return []
    } else if (!follows(before, bundle, isLeftOut) || !fits([...run, bundle], situation.limits)) break
    run.push(bundle)
  }
  return run
}

/** L1 */
const follows = (before: Bundle, bundle: Bundle, isLeftOut: (bundle: Bundle) => boolean): boolean =>
  bundle.isCompacted === true &&
  !isLeftOut(bundle) &&
  levelOf(bundle) === levelOf(before) &&
  bundle.base === before.end + SEGMENT_FOOTER_BYTES

const levelOf = ({ level = 0 }: Bundle): number => level

/** L2 */
function fits(run: readonly Bundle[], { ageSecondsMax, bytesMax }: RetentionLimits): boolean {
  const positions = run.at(-1)!.end - run[0]!.base
  const entries = run.reduce((sum, { records }) => sum + records, 0)
  const ages = run.map(youngestOf)
  const [oldest, youngest] = [Math.min(...ages), Math.max(...ages)]
  return (
    positions < MERGED_POSITIONS_MAX &&
    positions <= bytesMax / SHARE_OF_RETENTION &&
    entries <= MERGED_ENTRIES_MAX &&
    youngest - oldest <= (ageSecondsMax * 1e9) / SHARE_OF_RETENTION
  )
}

/** L3 */
function isDroppedSoon(bundle: Bundle, { limits, logEnd, nowNs }: MergeSituation): boolean {
  const kept = 1 - 1 / SHARE_OF_RETENTION
  const ageNs = Number(nowNs) - youngestOf(bundle)
  return ageNs > limits.ageSecondsMax * 1e9 * kept || logEnd - bundle.base > limits.bytesMax * kept
}

/** The time that retention goes by. */
const youngestOf = ({ maxTime, receivedUntil }: Bundle): number =>
  Number(maxTime < receivedUntil ? maxTime : receivedUntil)
