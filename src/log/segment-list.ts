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

export class SegmentList {
  readonly #segmentsDirectory: string
  /** Never changed in place: who took it keeps what it saw. */
  #segments: readonly SegmentInfo[] = []

  constructor(segmentsDirectory: string) {
    this.#segmentsDirectory = segmentsDirectory
  }

  get all(): readonly SegmentInfo[] {
    return this.#segments
  }

  reset(segments: readonly { readonly base: number; readonly end: number; readonly sealed: boolean }[]): void {
    this.#segments = segments.map(({ base, end, sealed }) => this.#infoOf(base, end, sealed))
  }

  opened(base: Position): void {
    this.#segments = [...this.#segments, this.#infoOf(base, base, false)]
  }

  sealed(base: Position, end: Position): SegmentInfo {
    const info = this.#infoOf(base, end, true)
    this.#segments = [...this.#segments.slice(0, -1), info]
    return info
  }

  /** Nothing when the news that `base` was opened is still on its way. */
  written(base: Position, position: Position): void {
    const active = this.#segments.at(-1)
    if (!active || active.sealed || active.base !== base || active.end >= position) return
    this.#segments = [...this.#segments.slice(0, -1), { ...active, end: position }]
  }

  /** Takes out the sealed segments that end at or below a position; their bases. */
  dropBefore(position: Position): number[] {
    const isDropped = (segment: SegmentInfo) => segment.sealed && segment.end <= position
    const dropped = this.#segments.filter(isDropped)
    if (dropped.length > 0) this.#segments = this.#segments.filter((segment) => !isDropped(segment))
    return dropped.map(({ base }) => base)
  }

  #infoOf(base: Position, end: Position, sealed: boolean): SegmentInfo {
    const directory = `${this.#segmentsDirectory}/${segmentName(base)}`
    return { base, end, sealed, directory, recordsPath: `${directory}/${RECORDS_NAME}` }
  }
}
