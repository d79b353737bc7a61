/**
 * Keeps every n-th of the items that come, so evenly spread over all of them, in bounded memory: when it has too many, it drops every second one and
 * doubles n.
 */
export class Sample<Item> {
  readonly #itemsMax: number
  readonly #weightMax: number
  #kept: { readonly item: Item; readonly weight: number }[] = []
  #weight = 0
  #step = 1
  #seen = 0

  /** @param weightMax of all kept items together */
  constructor(itemsMax: number, weightMax: number) {
    this.#itemsMax = itemsMax
    this.#weightMax = weightMax
  }

  /** Counts one more item. True: it belongs to the sample, and the caller adds it. */
  isNext(): boolean {
    return this.#seen++ % this.#step === 0
  }

  add(item: Item, weight: number): void {
    this.#kept.push({ item, weight })
    this.#weight += weight
    while (this.#kept.length > this.#itemsMax || (this.#weight > this.#weightMax && this.#kept.length > 1)) this.#thin()
  }

  get items(): readonly Item[] {
    return this.#kept.map(({ item }) => item)
  }

  /** Items 0, n, 2n … are kept: of those every second one is 0, 2n, 4n … */
  #thin(): void {
    this.#kept = this.#kept.filter((_, i) => i % 2 === 0)
    this.#weight = this.#kept.reduce((sum, { weight }) => sum + weight, 0)
    this.#step *= 2
  }
}
