/**
 * Entries of neighbouring pages, taken out to be distributed over pages anew. Holds whole keys, so that every page gets the longest prefix
 * that its own keys have.
 *
 *   #keys    | key 0 | key 1 | key 2 …      #ends    where each ends
 *   #values  | value | value | value …      #shared  bytes that a key has in common with the one before it
 *
 * E1  keys ascend. So what [from, to) have in common is the least of what neighbours in it have in common
 * E2  more entries in a page never make it smaller, so taking as many as fit, page by page, needs the fewest pages
 */
import { KEY_BYTES_MAX } from './key.ts'
import { PAGE_HEADER_BYTES, SLOT_BYTES, headOf, tailBytes, valueBytesOf } from './page-layout.ts'
import { PAGE_BYTES } from './page-memory.ts'

const CAPACITY_FIRST = 512
/** Pages are made equally full up to this difference: finer is not worth the search. */
const BALANCE_STEP_BYTES = PAGE_BYTES / 64

/** A page, as entries are taken out of it. */
interface EntrySource {
  readonly bytes: Buffer
  readonly prefixBytes: number
  copyKey(slot: number, target: Buffer, at: number): number
  valueAt(slot: number): number
}

export class Entries {
  #keys = Buffer.alloc(32 * CAPACITY_FIRST)
  #values = Buffer.alloc(0)
  #ends = new Uint32Array(CAPACITY_FIRST)
  #shared = new Uint16Array(CAPACITY_FIRST)
  #valueBytes = 0
  /** Entries of a page that have no key in it (page.ts P3). */
  #keyless = 0
  count = 0

  clear(level: number): void {
    this.#valueBytes = valueBytesOf(level)
    this.#keyless = level === 0 ? 0 : 1
    this.count = 0
  }

  /** Adds an entry behind the others. */
  add(key: Buffer, keyBytes: number, value: Buffer, valueAt = 0): void {
    const at = this.#begin(keyBytes)
    key.copy(this.#keys, at, 0, keyBytes)
    this.#end(keyBytes, value, valueAt, 0)
  }

  /** Adds the entries of slots [from, to) behind the others. */
  addFrom(page: EntrySource, from: number, to: number): void {
    const { prefixBytes } = page
    for (let slot = from; slot < to; slot++) {
      const at = this.#begin(KEY_BYTES_MAX)
      const keyBytes = page.copyKey(slot, this.#keys, at)
      this.#end(keyBytes, page.bytes, page.valueAt(slot), slot > from ? prefixBytes : 0)
    }
  }

  keyBytes(index: number): number {
    return this.#ends[index]! - this.#beginOf(index)
  }

  /** A copy, up to `bytes` of it. */
  key(index: number, bytes = this.keyBytes(index)): Buffer {
    const begin = this.#beginOf(index)
    return Buffer.from(this.#keys.subarray(begin, begin + bytes))
  }

  /** The shortest key above the entry before `index` and not above the entry itself. */
  separator(index: number): Buffer {
    return this.key(index, this.#shared[index]! + 1)
  }

  /** Copies `bytes` of a key, from its byte `from` on. */
  copyKey(index: number, from: number, bytes: number, into: Buffer, at: number): void {
    const keys = this.#keys
    const begin = this.#beginOf(index) + from
    for (let i = 0; i < bytes; i++) into[at + i] = keys[begin + i]!
  }

  /** See page.ts. */
  head(index: number, from: number): number {
    return headOf(this.#keys, this.#beginOf(index) + from, this.#ends[index]!)
  }

  copyValue(index: number, into: Buffer, at: number): void {
    const values = this.#values
    const valueBytes = this.#valueBytes
    const begin = valueBytes * index
    for (let i = 0; i < valueBytes; i++) into[at + i] = values[begin + i]!
  }

  /** Bytes that all keys begin with in a page with the entries [from, to). */
  prefixBytes(from: number, to: number): number {
    const first = from + this.#keyless
    if (first >= to) return 0
    let bytes = this.keyBytes(first)
    for (let i = first + 1; i < to; i++) bytes = Math.min(bytes, this.#shared[i]!) // E1
    return bytes
  }

  /** Bytes of a page with the entries [from, to). */
  packedBytes(from: number, to: number): number {
    const prefixBytes = this.prefixBytes(from, to)
    return this.#packedBytes(to - from, prefixBytes, this.#tailsBytes(from, to, prefixBytes))
  }

  /** Where pages of up to `limitBytes` end, when each takes as many entries as fit (E2). */
  pack(limitBytes: number): number[] {
    const ends: number[] = []
    let from = 0
    let prefixBytes = 0
    let tailsBytes = 0
    for (let i = 0; i < this.count; i++) {
      const prefixBefore = prefixBytes
      prefixBytes = i <= from + this.#keyless ? this.keyBytes(i) : Math.min(prefixBytes, this.#shared[i]!)
      if (prefixBytes === prefixBefore) tailsBytes += tailBytes(this.keyBytes(i) - prefixBytes)
      else tailsBytes = this.#tailsBytes(from, i + 1, prefixBytes)
      if (i === from || this.#packedBytes(i + 1 - from, prefixBytes, tailsBytes) <= limitBytes) continue
      ends.push(i)
      from = i
      prefixBytes = this.keyBytes(i)
      tailsBytes = 0
    }
    ends.push(this.count)
    return ends
  }

  /** Where pages end, when they are as equally full as `pages` of them can be. The entries must fit into that many. */
  balance(pages: number): number[] {
    let low = 0 // too little
    let high = PAGE_BYTES // enough
    let ends: number[] | null = null
    while (high - low > BALANCE_STEP_BYTES) {
      const limitBytes = (low + high) >>> 1
      const packed = this.pack(limitBytes)
      if (packed.length <= pages && this.#fits(packed, limitBytes)) {
        high = limitBytes
        ends = packed
      } else {
        low = limitBytes
      }
    }
    return ends ?? this.pack(PAGE_BYTES)
  }

  /** False when an entry alone is larger. */
  #fits(ends: readonly number[], limitBytes: number): boolean {
    return ends.every((end, i) => this.packedBytes(ends[i - 1] ?? 0, end) <= limitBytes)
  }

  #packedBytes(count: number, prefixBytes: number, tailsBytes: number): number {
    return PAGE_HEADER_BYTES + prefixBytes + tailsBytes + count * (SLOT_BYTES + this.#valueBytes)
  }

  /** Bytes of the tails of keys in a page with the entries [from, to). */
  #tailsBytes(from: number, to: number, prefixBytes: number): number {
    let bytes = 0
    for (let i = from + this.#keyless; i < to; i++) bytes += tailBytes(this.keyBytes(i) - prefixBytes)
    return bytes
  }

  #beginOf(index: number): number {
    return index === 0 ? 0 : this.#ends[index - 1]!
  }

  /** Makes room for an entry. Returns where its key goes. */
  #begin(keyBytes: number): number {
    const { count } = this
    const at = this.#beginOf(count)
    if (at + keyBytes > this.#keys.length) this.#keys = grown(this.#keys, at + keyBytes)
    if (this.#valueBytes * (count + 1) > this.#values.length) {
      this.#values = grown(this.#values, this.#valueBytes * Math.max(CAPACITY_FIRST, count + 1))
    }
    if (count === this.#ends.length) {
      const ends = new Uint32Array(2 * count)
      ends.set(this.#ends)
      this.#ends = ends
      const shared = new Uint16Array(2 * count)
      shared.set(this.#shared)
      this.#shared = shared
    }
    return at
  }

  /** @param sharedMin bytes that are known to be shared with the key before */
  #end(keyBytes: number, value: Buffer, valueAt: number, sharedMin = 0): void {
    const { count } = this
    const keys = this.#keys
    const values = this.#values
    const at = this.#beginOf(count)
    this.#ends[count] = at + keyBytes
    const before = count === 0 ? at : this.#beginOf(count - 1)
    const shorter = Math.min(keyBytes, at - before)
    let shared = sharedMin
    while (shared < shorter && keys[before + shared] === keys[at + shared]) shared++
    this.#shared[count] = shared
    const to = this.#valueBytes * count
    for (let i = 0; i < this.#valueBytes; i++) values[to + i] = value[valueAt + i]!
    this.count = count + 1
  }
}

function grown(bytes: Buffer, least: number): Buffer<ArrayBuffer> {
  const larger = Buffer.alloc(Math.max(least, 2 * bytes.length))
  bytes.copy(larger)
  return larger
}
