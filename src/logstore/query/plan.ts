/**
 * What one query looks for, in the form the scans compare with: ids and times as words.
 *
 * P1  visible is what lies below `snapshot`: positions are those of frames, and the committed position is where a frame ends,
 *     so a frame that begins below it ends at or below it
 * P2  the order of results is (time, position, record number), or the reverse; a page takes what comes after `resume` in it
 * P3  matched records are counted on the whole snapshot, whatever the page
 */
import { parseRecordId } from '../../../native-free-codecs/record-id-text.ts'
import { NOTHING_EXPIRED } from '../expired.ts'
import type { Expired } from '../expired.ts'
import { highWord, isBefore, lowWord } from '../time-words.ts'
import type { Search } from '../search/expression.ts'
import type { Cursor, Order, QueryFilter } from './cursor.ts'

/** The first time beyond all others, for "no end": its high word is 2^32, which no time has. */
const TIME_END = 1n << 64n

/** The datasets of a tenant that may be read. */
export interface SeveralDatasets {
  /** null: every one. */
  readonly among: readonly string[] | null
}

export interface QueryPlan {
  readonly tenant: string
  /** '' when `several` says which; no dataset has this name. */
  readonly dataset: string
  readonly several: SeveralDatasets | null
  /** Four words, or null when not filtered by it. */
  readonly id: Uint32Array | null
  readonly trace: Uint32Array | null
  readonly fromHigh: number
  readonly fromLow: number
  /** Exclusive. */
  readonly toHigh: number
  readonly toLow: number
  readonly snapshot: number
  readonly resume: Cursor | null
  readonly resumeHigh: number
  readonly resumeLow: number
  readonly descending: boolean
  /** Null: every record that passes the other conditions matches. */
  readonly search: Search | null
  /** What has expired. In a plan for one dataset the time range leaves it out; of several datasets, each has its own bound. */
  readonly expired: Expired
  /** Nothing can match: an id that no record has, an empty time range. */
  readonly impossible: boolean
}

export function planQuery(
  tenant: string,
  datasets: string | SeveralDatasets,
  filter: QueryFilter,
  order: Order,
  resume: Cursor | null,
  snapshot: number,
  expired: Expired = NOTHING_EXPIRED,
): QueryPlan {
  const id = filter.recordId === null ? null : new Uint32Array(4)
  const idFits = id === null || parseRecordId(filter.recordId!, id, 0)
  const asked = filter.startTime ?? 0n
  const kept = (typeof datasets === 'string' && expired.get(datasets)) || 0n
  const from = asked > kept ? asked : kept
  const to = filter.endTime ?? TIME_END
  const resumeTime = resume?.time ?? 0n
  return {
    tenant,
    dataset: typeof datasets === 'string' ? datasets : '',
    several: typeof datasets === 'string' ? null : datasets,
    id,
    trace: filter.traceId === null ? null : traceWords(filter.traceId),
    fromHigh: highWord(from),
    fromLow: lowWord(from),
    toHigh: highWord(to),
    toLow: lowWord(to),
    snapshot,
    resume,
    resumeHigh: highWord(resumeTime),
    resumeLow: lowWord(resumeTime),
    descending: order === 'desc',
    search: filter.search?.kind === 'all' ? null : filter.search,
    expired,
    impossible: !idFits || from >= to,
  }
}

/** @param hex  32 hexadecimal digits */
function traceWords(hex: string): Uint32Array {
  return Uint32Array.from({ length: 4 }, (_, i) => Number.parseInt(hex.slice(8 * i, 8 * i + 8), 16))
}

/** Whether any time from the earliest to the latest is in the range. */
export const overlaps = (
  plan: QueryPlan,
  earliestHigh: number,
  earliestLow: number,
  latestHigh: number,
  latestLow: number,
): boolean =>
  isBefore(earliestHigh, earliestLow, plan.toHigh, plan.toLow) &&
  !isBefore(latestHigh, latestLow, plan.fromHigh, plan.fromLow)

export const isInRange = (plan: QueryPlan, timeHigh: number, timeLow: number): boolean =>
  !isBefore(timeHigh, timeLow, plan.fromHigh, plan.fromLow) && isBefore(timeHigh, timeLow, plan.toHigh, plan.toLow)
