/**
 * Why deliveries of a group were given back or ended: the last reason of each offset, for inspection.
 *
 * Z1  memory is bounded: the newest REASONS_MAX offsets of a group, REASON_KEPT_BYTES_MAX bytes of each reason
 */
import { LIST_ENTRIES_MAX } from '../limits.ts'

/** A listing shows no more. */
const REASONS_MAX = LIST_ENTRIES_MAX
const REASON_KEPT_BYTES_MAX = 256

/** The part of a reason that is kept, in whole characters. */
export function keptReason(reason: string): string {
  if (Buffer.byteLength(reason) <= REASON_KEPT_BYTES_MAX) return reason
  let bytes = 0
  let kept = ''
  for (const character of reason) {
    bytes += Buffer.byteLength(character)
    if (bytes > REASON_KEPT_BYTES_MAX) break
    kept += character
  }
  return kept
}

export class Reasons {
  /** In the order they were given. */
  readonly #byOffset: Map<number, string>

  constructor(entries: Iterable<readonly [offset: number, reason: string]> = []) {
    this.#byOffset = new Map(entries)
  }

  /** For the checkpoint. */
  get entries(): ReadonlyMap<number, string> {
    return this.#byOffset
  }

  get(offset: number): string | null {
    return this.#byOffset.get(offset) ?? null
  }

  set(offset: number, reason: string): void {
    this.#byOffset.delete(offset)
    this.#byOffset.set(offset, reason)
    if (this.#byOffset.size <= REASONS_MAX) return
    const [oldest] = this.#byOffset.keys()
    this.#byOffset.delete(oldest!)
  }

  delete(offset: number): void {
    this.#byOffset.delete(offset)
  }

  reopenFrom(from: number): void {
    for (const offset of this.#byOffset.keys()) if (offset >= from) this.#byOffset.delete(offset)
  }

  dropBelow(floor: number): void {
    for (const offset of this.#byOffset.keys()) if (offset < floor) this.#byOffset.delete(offset)
  }
}
