/** A number for each offset of a stream from some offset on; 0 where none was set. What is below can be forgotten. */
const CAPACITY_FIRST = 1024

export class OffsetColumn {
  #values = new Float64Array(CAPACITY_FIRST)
  #base = 0

  get(offset: number): number {
    return this.#values[offset - this.#base] ?? 0
  }

  set(offset: number, value: number): void {
    const at = offset - this.#base
    if (at < 0) return
    if (at >= this.#values.length) {
      const values = new Float64Array(2 ** Math.ceil(Math.log2(at + 1)))
      values.set(this.#values)
      this.#values = values
    }
    this.#values[at] = value
  }

  forgetBelow(offset: number): void {
    if (offset <= this.#base) return
    this.#values = this.#values.slice(Math.min(this.#values.length, offset - this.#base))
    if (this.#values.length < CAPACITY_FIRST) {
      const values = new Float64Array(CAPACITY_FIRST)
      values.set(this.#values)
      this.#values = values
    }
    this.#base = offset
  }
}
