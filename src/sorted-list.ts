/**
 * A sorted list. A listing finds its first item by a binary search.
 *
 * Items lie in chunks of at most CHUNK_MAX, so that adding one never moves more than that.
 */
const CHUNK_MAX = 1024

export class SortedList<T> {
  readonly #chunks: T[][] = []
  readonly #compare: (a: T, b: T) => number

  /** @param compare never 0 for two items of the list */
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

  /** Does nothing when the item is not in the list. */
  remove(item: T): void {
    const isThere = (other: T): boolean => this.#compare(other, item) >= 0
    const index = this.#firstChunk((chunk) => isThere(chunk.at(-1)!))
    const chunk = this.#chunks[index] ?? []
    const at = firstIndex(chunk, isThere)
    if (at === chunk.length || this.#compare(chunk[at]!, item) !== 0) return
    chunk.splice(at, 1)
    if (chunk.length === 0) this.#chunks.splice(index, 1)
  }

  /** The items from the first one for which `isThere` holds, as it must for all behind it. Do not add or remove items before the last one is taken. */
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

/** The first index for which `isThere` holds, as it does for all behind it. The length: there is none. */
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
