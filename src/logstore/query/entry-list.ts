/** A look-up makes a list for each of hundreds of segments, and fills hardly any. */
const NONE = new Uint32Array(0)

/** Entries of one segment, gathered one by one. */
export class EntryList {
  #entries = NONE
  #count = 0
  #ascends = true

  add(entry: number): void {
    if (this.#count === this.#entries.length) this.#grow()
    if (this.#count > 0 && entry < this.#entries[this.#count - 1]!) this.#ascends = false
    this.#entries[this.#count++] = entry
  }

  /** In the order of the segment. */
  sorted(): Uint32Array {
    const entries = this.#entries.subarray(0, this.#count)
    if (!this.#ascends) entries.sort()
    this.#ascends = true
    return entries
  }

  #grow(): void {
    const larger = new Uint32Array(Math.max(1024, 2 * this.#entries.length))
    larger.set(this.#entries)
    this.#entries = larger
  }
}
