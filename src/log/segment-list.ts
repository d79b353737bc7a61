/** The segments of an open log as main knows them, oldest first, and where they are. */
import type { Position } from './log-writer.ts'
import { RECORDS_NAME, segmentName } from './segment-format.ts'

export interface SegmentInfo {
  readonly base: Position
  /** Position behind the last frame; of the active segment, the last one written. */
  readonly end: Position
  readonly sealed: boolean
  readonly directory: string
  readonly recordsPath: string
}

/** The size of all segments together, without those that were removed at the beginning. */
export const bytesIn = (segments: readonly SegmentInfo[]): number =>
  (segments.at(-1)?.end ?? 0) - (segments[0]?.base ?? 0)

/** The segment that a position is in, or the last one before it. Null: the position is before all of them. */
export function segmentOf(segments: readonly SegmentInfo[], position: Position): SegmentInfo | null {
  let low = 0
  let high = segments.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (segments[middle]!.base <= position) low = middle + 1
    else high = middle
  }
  return segments[low - 1] ?? null
}

/** Whether a segment begins there. Retention may have dropped it. */
export const hasSegment = (segments: readonly SegmentInfo[], base: Position): boolean =>
  segmentOf(segments, base)?.base === base

export class SegmentList {
  readonly #segmentsDirectory: string
  #sealed: readonly SegmentInfo[] = []
  #active: SegmentInfo | null = null
  /** What `all` returned last; null when it has changed since. Built when asked for: the active segment's end moves with every commit. */
  #all: readonly SegmentInfo[] | null = null

  constructor(segmentsDirectory: string) {
    this.#segmentsDirectory = segmentsDirectory
  }

  /** Never changed in place: a caller may keep it. */
  get all(): readonly SegmentInfo[] {
    this.#all ??= this.#active ? [...this.#sealed, this.#active] : this.#sealed
    return this.#all
  }

  reset(segments: readonly { readonly base: number; readonly end: number; readonly sealed: boolean }[]): void {
    const all = segments.map(({ base, end, sealed }) => this.#infoOf(base, end, sealed))
    this.#sealed = all.filter(({ sealed }) => sealed)
    this.#changeActive(all.find(({ sealed }) => !sealed) ?? null)
  }

  opened(base: Position): void {
    this.#changeActive(this.#infoOf(base, base, false))
  }

  sealed(base: Position, end: Position): SegmentInfo {
    const info = this.#infoOf(base, end, true)
    this.#sealed = [...this.#sealed, info]
    this.#changeActive(null)
    return info
  }

  /** Does nothing when the message that `base` was opened is still on its way. */
  written(base: Position, position: Position): void {
    const active = this.#active
    if (active && active.base === base && active.end < position) this.#changeActive({ ...active, end: position })
  }

  /** Takes out the sealed segments that end at or below a position. */
  dropBefore(position: Position): readonly SegmentInfo[] {
    const dropped = this.#sealed.filter(({ end }) => end <= position)
    if (dropped.length > 0) {
      this.#sealed = this.#sealed.filter(({ end }) => end > position)
      this.#all = null
    }
    return dropped
  }

  #changeActive(active: SegmentInfo | null): void {
    this.#active = active
    this.#all = null
  }

  #infoOf(base: Position, end: Position, sealed: boolean): SegmentInfo {
    const directory = `${this.#segmentsDirectory}/${segmentName(base)}`
    return { base, end, sealed, directory, recordsPath: `${directory}/${RECORDS_NAME}` }
  }
}
