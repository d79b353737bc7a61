/**
 * The sealed bundles at one moment, as queries see them: rows in one SharedArrayBuffer that never changes once written. The
 * main thread writes a new one when a bundle comes or goes; handing it to a query copies nothing.
 *
 *   offset  bytes  field      48 bytes a row, ascending by base
 *        0      8  base       f64: position of the segment
 *        8      8  end        f64: position after its last frame
 *       16      8  minTime    u64, ns since the Unix epoch: low word, high word
 *       24      8  maxTime    u64
 *       32      4  records    u32
 *       36      4  identity   u32: of its index file, or of its stand-in
 *       40      4  form       u32: 1 it is compacted, 2 it is a merged file as well, else 0
 *       44      4  unused
 */
import assert from 'node:assert/strict'

const ROW_BYTES = 48
const ROW_WORDS = ROW_BYTES / 4
const ROW_DOUBLES = ROW_BYTES / 8

export interface CatalogRow {
  readonly base: number
  readonly end: number
  readonly minTime: bigint
  readonly maxTime: bigint
  readonly records: number
  readonly identity: number
  /** It has a stand-in in place of its other files. */
  readonly isCompacted?: boolean
  /** Its stand-in is a merged file, which may cover several segments. */
  readonly isMerged?: boolean
}

const COMPACTED = 1
const MERGED = 2

export function encodeCatalog(rows: readonly CatalogRow[]): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(rows.length * ROW_BYTES)
  const words = new Uint32Array(shared)
  const doubles = new Float64Array(shared)
  const times = new BigUint64Array(shared)
  let baseBefore = -1
  for (const [row, { base, end, minTime, maxTime, records, identity, isCompacted, isMerged }] of rows.entries()) {
    assert(base > baseBefore && end >= base)
    baseBefore = base
    doubles[row * ROW_DOUBLES] = base
    doubles[row * ROW_DOUBLES + 1] = end
    times[row * ROW_DOUBLES + 2] = minTime
    times[row * ROW_DOUBLES + 3] = maxTime
    words[row * ROW_WORDS + 8] = records
    words[row * ROW_WORDS + 9] = identity
    words[row * ROW_WORDS + 10] = isMerged === true ? MERGED : isCompacted === true ? COMPACTED : 0
  }
  return shared
}

export class Catalog {
  readonly length: number
  readonly #words: Uint32Array
  readonly #doubles: Float64Array

  constructor(shared: SharedArrayBuffer) {
    this.length = shared.byteLength / ROW_BYTES
    this.#words = new Uint32Array(shared)
    this.#doubles = new Float64Array(shared)
  }

  base(row: number): number {
    return this.#doubles[row * ROW_DOUBLES]!
  }

  end(row: number): number {
    return this.#doubles[row * ROW_DOUBLES + 1]!
  }

  minTimeLow(row: number): number {
    return this.#words[row * ROW_WORDS + 4]!
  }

  minTimeHigh(row: number): number {
    return this.#words[row * ROW_WORDS + 5]!
  }

  maxTimeLow(row: number): number {
    return this.#words[row * ROW_WORDS + 6]!
  }

  maxTimeHigh(row: number): number {
    return this.#words[row * ROW_WORDS + 7]!
  }

  records(row: number): number {
    return this.#words[row * ROW_WORDS + 8]!
  }

  identity(row: number): number {
    return this.#words[row * ROW_WORDS + 9]!
  }

  isCompacted(row: number): boolean {
    return this.#words[row * ROW_WORDS + 10]! >= COMPACTED
  }

  isMerged(row: number): boolean {
    return this.#words[row * ROW_WORDS + 10] === MERGED
  }

  /** Row of the bundle at this position, or -1. */
  find(base: number): number {
    let low = 0
    let high = this.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.base(middle) < base) low = middle + 1
      else high = middle
    }
    return low < this.length && this.base(low) === base ? low : -1
  }
}

/** Where a bundle is. */
export interface BundlePlace {
  readonly base: number
  readonly end: number
  readonly identity: number
  readonly directory: string
  readonly isCompacted?: boolean
  readonly isMerged?: boolean
}
