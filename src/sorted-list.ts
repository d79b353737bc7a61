/**
 * Things in an order, kept sorted: the first of those that a listing begins with costs a binary search, however many there are.
 *
 * Chunks of CHUNK_MAX at most, so that adding one never moves more than that.
 */
const CHUNK_MAX = 1024

export class SortedList<T> {
  readonly #chunks: T[][] = []
  readonly #compare: (a: T, b: T) => number

  /** @param compare never 0 for two that are here together */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  add(item: T): void {
    const isAbove = (other: T): boolean => this.#compare(other, item) > 0
    const index = Math.max(0, this.#firstChunk((chunk) => isAbove(chunk[0]!)) - 1)
    const chunk = (this.#chunks[index] ??= [])
    chunk.splice(firstIndex(chunk, isAbove), 0, item)
    if (chunk.length > CHUNK_MAX) this.#chunks.splice(index + 1, 0, chunk.splice(CHUNK_MAX / 2))
  }

  /** Nothing happens when it is not here. */
  remove(item: T): void {
    const isThere = (other: T): boolean => this.#compare(other, item) >= 0
    const index = this.#firstChunk((chunk) => isThere(chunk.at(-1)!))
    const chunk = this.#chunks[index] ?? []
    const at = firstIndex(chunk, isThere)
    if (at === chunk.length || this.#compare(chunk[at]!, item) !== 0) return
    chunk.splice(at, 1)
    if (chunk.length === 0) this.#chunks.splice(index, 1)
  }

  /** From the first one on that `isThere` holds for, as it does for all behind it. Nothing is to be added or removed before the last was taken. */
  *from(isThere: (item: T) => boolean): Generator<T, void, undefined> {
    let index = this.#firstChunk((chunk) => isThere(chunk.at(-1)!))
    let at = firstIndex(this.#chunks[index] ?? [], isThere)
    for (; index < this.#chunks.length; index++, at = 0) {
      const chunk = this.#chunks[index]!
      for (; at < chunk.length; at++) yield chunk[at]!
    }
  }

  #firstChunk(isThere: (chunk: readonly T[]) => boolean): number {
    return firstIndex(this.#chunks, isThere)
  }
}

/** The first index that `isThere` holds for, and for all behind it. */
function firstIndex<T>(items: readonly T[], isThere: (item: T) => boolean): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isThere(items[middle]!)) high = middle
    else low = middle + 1
  }
  return low
}
