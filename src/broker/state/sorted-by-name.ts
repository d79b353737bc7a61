/**
 * Things with a name, in the order of their names: kept sorted, so that a listing can be made piece by piece while others are added.
 *
 * Chunks of CHUNK_MAX at most, so that adding one never moves more than that.
 */
const CHUNK_MAX = 1024

export class SortedByName<T extends { readonly name: string }> {
  readonly #chunks: T[][] = []

  /** @param item of a name that none here has */
  add(item: T): void {
    const index = Math.max(0, this.#chunkBehind(item.name) - 1)
    const chunk = (this.#chunks[index] ??= [])
    chunk.splice(firstBehind(chunk, item.name), 0, item)
    if (chunk.length > CHUNK_MAX) this.#chunks.splice(index + 1, 0, chunk.splice(CHUNK_MAX / 2))
  }

  /** Nothing happens when none has the name. */
  remove(name: string): void {
    const index = Math.max(0, this.#chunkBehind(name) - 1)
    const chunk = this.#chunks[index] ?? []
    const at = firstBehind(chunk, name) - 1
    if (chunk[at]?.name !== name) return
    chunk.splice(at, 1)
    if (chunk.length === 0) this.#chunks.splice(index, 1)
  }

  /** The first `max` behind a name; null: from the first one on. */
  after(name: string | null, max: number): T[] {
    const found: T[] = []
    let index = name === null ? 0 : Math.max(0, this.#chunkBehind(name) - 1)
    for (; index < this.#chunks.length && found.length < max; index += 1) {
      const chunk = this.#chunks[index]!
      const from = name === null ? 0 : firstBehind(chunk, name)
      found.push(...chunk.slice(from, from + max - found.length))
    }
    return found
  }

  /** Index of the first chunk that begins behind a name. */
  #chunkBehind(name: string): number {
    return firstIndex(this.#chunks.length, (index) => this.#chunks[index]![0]!.name > name)
  }
}

const firstBehind = (chunk: readonly { readonly name: string }[], name: string): number =>
  firstIndex(chunk.length, (index) => chunk[index]!.name > name)

/** The first index below `length` that `isThere` holds for, and for all behind it. */
function firstIndex(length: number, isThere: (index: number) => boolean): number {
  let low = 0
  let high = length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isThere(middle)) high = middle
    else low = middle + 1
  }
  return low
}
