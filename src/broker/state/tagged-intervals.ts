/**
 * A map from offsets to small numbers ("tags") that is kept as disjoint half-open intervals [from, to) of equal tag, in ascending order.
 * The intervals sit in a list of chunks of typed columns: a change moves the intervals of one chunk, however many intervals there are.
 *
 *   #chunks   [ chunk            ] [ chunk            ] …     ascending, none empty
 *   in one    from  3   9  40        from  77  80
 *             to    7  12  50        to    80  95
 *             tag   4   4   8        tag    4   8
 *
 * T1  from < to of each interval, and to <= from of the next one, across chunks too
 * T2  an interval that begins where the one before it ends has another tag: equal neighbours merge
 * T3  a chunk knows how many offsets it covers; `size` and `intervalCount` are the sums over the chunks
 *
 * Finding a place is a binary search over chunk ends, then inside one chunk. Chunks split when they are full and vanish when they are
 * empty; half-empty ones are not joined.
 */

const CHUNK_INTERVALS_MAX = 512
const CHUNK_INTERVALS_FIRST = 4

export class TaggedIntervals {
  readonly #chunks: Chunk[] = []
  #size = 0
  #intervalCount = 0
  // Where the latest #seek ended: an interval, or one past the last chunk.
  #chunk = 0
  #index = 0

  /** Offsets covered. */
  get size(): number {
    return this.#size
  }

  get intervalCount(): number {
    return this.#intervalCount
  }

  get bytes(): number {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.bytes, 0)
  }

  /** -1 where no tag is. */
  tagAt(offset: number): number {
    const chunk = this.#seek(offset)
    return chunk !== undefined && chunk.from[this.#index]! <= offset ? chunk.tag[this.#index]! : -1
  }

  /** Tags all of [from, to), replacing older tags. */
  set(from: number, to: number, tag: number): void {
    if (from >= to) return
    const at = this.#seek(from)
    if (at !== undefined && at.tag[this.#index] === tag && at.from[this.#index]! <= from && to <= at.to[this.#index]!)
      return
    this.#cut(from, to)
    this.#size += to - from

    const right = this.#chunks[this.#chunk]
    const joinsRight = right !== undefined && right.from[this.#index] === to && right.tag[this.#index] === tag
    const left = this.#index > 0 ? right : this.#chunks[this.#chunk - 1]
    const leftIndex = (this.#index > 0 ? this.#index : (left?.count ?? 0)) - 1
    const joinsLeft = left !== undefined && left.to[leftIndex] === from && left.tag[leftIndex] === tag
    if (joinsLeft && joinsRight) {
      const rightEnd = right.to[this.#index]!
      left.to[leftIndex] = rightEnd
      left.covered += rightEnd - from
      right.covered -= rightEnd - to
      this.#drop(right, this.#index, this.#index + 1)
    } else if (joinsLeft) {
      left.to[leftIndex] = to
      left.covered += to - from
    } else if (joinsRight) {
      right.from[this.#index] = from
      right.covered += to - from
    } else {
      this.#insert(from, to, tag)
    }
  }

  remove(from: number, to: number): void {
    if (from >= to) return
    this.#seek(from)
    this.#cut(from, to)
  }

  /** Lowest offset >= from that is not covered. */
  firstGap(from: number): number {
    this.#seek(from)
    let gap = from
    let index = this.#index
    for (let c = this.#chunk; c < this.#chunks.length; c++, index = 0) {
      const chunk = this.#chunks[c]!
      for (; index < chunk.count; index++) {
        if (chunk.from[index]! > gap) return gap
        gap = chunk.to[index]!
      }
    }
    return gap
  }

  /** Lowest offset >= from that is covered; Infinity when there is none. */
  nextCovered(from: number): number {
    const chunk = this.#seek(from)
    return chunk === undefined ? Infinity : Math.max(from, chunk.from[this.#index]!)
  }

  /** How many offsets of [from, to) are covered. Adds up chunks, not intervals. */
  coveredBetween(from: number, to: number): number {
    if (from >= to) return 0
    this.#seek(from)
    let covered = 0
    let index = this.#index
    for (let c = this.#chunk; c < this.#chunks.length; c++, index = 0) {
      const chunk = this.#chunks[c]!
      if (index === 0 && from <= chunk.from[0]! && chunk.end <= to) {
        covered += chunk.covered
        continue
      }
      for (; index < chunk.count; index++) {
        if (chunk.from[index]! >= to) return covered
        covered += Math.min(to, chunk.to[index]!) - Math.max(from, chunk.from[index]!)
      }
    }
    return covered
  }

  /** The first interval that ends behind `offset`. */
  intervalFrom(offset: number): { readonly from: number; readonly to: number; readonly tag: number } | null {
    const chunk = this.#seek(offset)
    const i = this.#index
    return chunk === undefined ? null : { from: chunk.from[i]!, to: chunk.to[i]!, tag: chunk.tag[i]! }
  }

  *entries(): Generator<readonly [from: number, to: number, tag: number], void> {
    for (const { from, to, tag, count } of this.#chunks) {
      for (let i = 0; i < count; i++) yield [from[i]!, to[i]!, tag[i]!]
    }
  }

  /** From, to and tag of each, ascending. */
  encode(): Float64Array<ArrayBuffer> {
    const encoded = new Float64Array(3 * this.#intervalCount)
    let at = 0
    for (const { from, to, tag, count } of this.#chunks) {
      for (let i = 0; i < count; i++) {
        encoded[at] = from[i]!
        encoded[at + 1] = to[i]!
        encoded[at + 2] = tag[i]!
        at += 3
      }
    }
    return encoded
  }

  *descending(): Generator<readonly [from: number, to: number, tag: number], void> {
    for (let c = this.#chunks.length - 1; c >= 0; c--) {
      const { from, to, tag, count } = this.#chunks[c]!
      for (let i = count - 1; i >= 0; i--) yield [from[i]!, to[i]!, tag[i]!]
    }
  }

  /** Moves to the first interval that ends after `offset`, and returns its chunk. */
  #seek(offset: number): Chunk | undefined {
    const chunks = this.#chunks
    let low = 0
    let high = chunks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (chunks[middle]!.end > offset) high = middle
      else low = middle + 1
    }
    this.#chunk = low
    const chunk = chunks[low]
    this.#index = chunk === undefined ? 0 : chunk.firstEndingAfter(offset)
    return chunk
  }

  /** Empties [from, to), after a #seek(from), and moves to the first interval that begins at `to` or later. */
  #cut(from: number, to: number): void {
    const first = this.#chunks[this.#chunk]
    if (first === undefined) return
    if (first.from[this.#index]! < from) {
      const end = first.to[this.#index]!
      first.to[this.#index] = from
      first.covered -= end - from
      this.#size -= end - from
      this.#index++
      if (end > to) {
        this.#size += end - to
        this.#insert(to, end, first.tag[this.#index - 1]!)
        return
      }
    }
    if (this.#index > 0) {
      this.#cutWithin(first, to)
      if (this.#index < first.count) return
      this.#chunk++
      this.#index = 0
    }
    let past = this.#chunk
    for (; past < this.#chunks.length && this.#chunks[past]!.end <= to; past++) {
      this.#size -= this.#chunks[past]!.covered
      this.#intervalCount -= this.#chunks[past]!.count
    }
    if (past > this.#chunk) this.#chunks.splice(this.#chunk, past - this.#chunk)
    const last = this.#chunks[this.#chunk]
    if (last !== undefined) this.#cutWithin(last, to)
  }

  /** Cuts off what the intervals of one chunk, from #index on, have below `to`. */
  #cutWithin(chunk: Chunk, to: number): void {
    let gone = 0
    let index = this.#index
    for (; index < chunk.count && chunk.to[index]! <= to; index++) gone += chunk.to[index]! - chunk.from[index]!
    if (index < chunk.count && chunk.from[index]! < to) {
      gone += to - chunk.from[index]!
      chunk.from[index] = to
    }
    chunk.covered -= gone
    this.#size -= gone
    this.#drop(chunk, this.#index, index)
  }

  /** Removes the intervals [first, past) of the chunk, whose offsets were subtracted already. */
  #drop(chunk: Chunk, first: number, past: number): void {
    if (first === past) return
    this.#intervalCount -= past - first
    chunk.close(first, past)
    if (chunk.count === 0) this.#chunks.splice(this.#chunk, 1)
  }

  /** Puts an interval before the one at the present place, and moves to it. `size` counts it already. */
  #insert(from: number, to: number, tag: number): void {
    const chunks = this.#chunks
    if (chunks.length === 0) chunks.push(new Chunk(CHUNK_INTERVALS_FIRST))
    if (this.#index === 0 && this.#chunk > 0) {
      // the end of a chunk is a cheaper place than the beginning of the next
      const before = chunks[this.#chunk - 1]!
      if (this.#chunk === chunks.length || before.count < CHUNK_INTERVALS_MAX) {
        this.#chunk--
        this.#index = before.count
      }
    }
    const full = chunks[this.#chunk]!
    if (full.count === CHUNK_INTERVALS_MAX) {
      if (this.#index === full.count) {
        // so that growing upwards leaves full chunks behind, not halves
        this.#chunk++
        this.#index = 0
        chunks.splice(this.#chunk, 0, new Chunk(CHUNK_INTERVALS_FIRST))
      } else {
        chunks.splice(this.#chunk + 1, 0, full.split())
        if (this.#index > full.count) {
          this.#index -= full.count
          this.#chunk++
        }
      }
    }
    const chunk = chunks[this.#chunk]!
    chunk.open(this.#index)
    chunk.from[this.#index] = from
    chunk.to[this.#index] = to
    chunk.tag[this.#index] = tag
    chunk.covered += to - from
    this.#intervalCount++
  }
}

/** Columns of neighbouring intervals. */
class Chunk {
  from: Float64Array<ArrayBuffer>
  to: Float64Array<ArrayBuffer>
  tag: Float64Array<ArrayBuffer>
  count = 0
  /** T3 */
  covered = 0

  constructor(capacity: number) {
    this.from = new Float64Array(capacity)
    this.to = new Float64Array(capacity)
    this.tag = new Float64Array(capacity)
  }

  get bytes(): number {
    return this.from.byteLength + this.to.byteLength + this.tag.byteLength
  }

  /** Where the last interval ends. */
  get end(): number {
    return this.to[this.count - 1]!
  }

  /** @param offset below `end` */
  firstEndingAfter(offset: number): number {
    const to = this.to
    let low = 0
    let high = this.count - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      if (to[middle]! > offset) high = middle
      else low = middle + 1
    }
    return low
  }

  /** Makes room at `index`, in a chunk that is not full. */
  open(index: number): void {
    if (this.count === this.from.length) this.#grow()
    if (index < this.count) {
      this.from.copyWithin(index + 1, index, this.count)
      this.to.copyWithin(index + 1, index, this.count)
      this.tag.copyWithin(index + 1, index, this.count)
    }
    this.count++
  }

  close(first: number, past: number): void {
    if (past < this.count) {
      this.from.copyWithin(first, past, this.count)
      this.to.copyWithin(first, past, this.count)
      this.tag.copyWithin(first, past, this.count)
    }
    this.count -= past - first
  }

  /** Keeps the lower half and returns the upper one. */
  split(): Chunk {
    const upper = new Chunk(CHUNK_INTERVALS_MAX)
    const half = this.count >>> 1
    for (let i = half; i < this.count; i++) upper.covered += this.to[i]! - this.from[i]!
    upper.from.set(this.from.subarray(half, this.count))
    upper.to.set(this.to.subarray(half, this.count))
    upper.tag.set(this.tag.subarray(half, this.count))
    upper.count = this.count - half
    this.covered -= upper.covered
    this.count = half
    return upper
  }

  #grow(): void {
    const bytes = 2 * this.from.byteLength
    this.from = new Float64Array(this.from.buffer.transfer(bytes))
    this.to = new Float64Array(this.to.buffer.transfer(bytes))
    this.tag = new Float64Array(this.tag.buffer.transfer(bytes))
  }
}
