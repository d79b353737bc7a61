/** First in, first out, without shifting an array. It holds on to fewer items that have left than are still in it. */
export class Queue<Item> {
  #items: Item[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: Item): void {
    this.#items.push(item)
  }

  peek(): Item | undefined {
    return this.#items[this.#head]
  }

  /** The one that was pushed last. */
  get newest(): Item | undefined {
    return this.length === 0 ? undefined : this.#items.at(-1)
  }

  /** All items, first in first. */
  items(): readonly Item[] {
    return this.#items.slice(this.#head)
  }

  shift(): Item | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#head += 1
    if (2 * this.#head >= this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }
}
