/**
 * A page of the tree: keys in order, each with a value of one width. Integers are little-endian.
 *
 *   offset  bytes  field        meaning
 *        0      2  level        0: a leaf, its values are object values; above: they are numbers of pages of the level below, u32
 *        2      2  count        entries
 *        4      2  heapBegin    offset of the lowest byte of the heap
 *        6      2  holes        unused bytes of the heap
 *        8      2  prefixBytes  bytes that all keys begin with; they stand once, at the end of the page
 *       10      2  lastInsert   slot of the newest entry
 *       12      2  run          newest entries that came in the order of their keys, each directly behind the one before it
 *       14      2  unused       0
 *       16    8·n  slots        in the order of keys, see below
 *        …      …  gap
 *        …      …  heap         entries in any order: tail of the key, value
 *        …      …  prefix       up to PAGE_BYTES
 *
 *   a key   | prefix | rest                     |
 *                    | head, 4 bytes | tail     |
 *
 *   slot    0      4  head         the rest's first bytes as a number, the first one highest; zeros behind a short rest
 *           4      2  offset       of the entry in the heap
 *           6      2  restBytes
 *
 * P1  keys ascend, compared as unsigned bytes, a shorter one before those it begins; no two are equal
 * P2  a page changes only behind `memory.beforeChange`: a copy of the index that is made meanwhile relies on it
 * P3  above the leaves the first entry has no key: it is for all keys below the second one. What stands in its place is not looked at
 *
 * Heads stand close together, so that a search reads little memory: the entry's own is read only where heads are equal.
 *
 * A `Page` is a window that is moved from page to page, so that walking the tree allocates nothing.
 */
import type { Entries } from './entries.ts'
import { HEAD_BYTES, PAGE_HEADER_BYTES, SLOT_BYTES, headOf, tailBytes, valueBytesOf } from './page-layout.ts'
import { PAGE_BYTES } from './page-memory.ts'
import type { PageMemory } from './page-memory.ts'

// Words of the header, and of a slot.
const LEVEL = 0
const COUNT = 1
const HEAP_BEGIN = 2
const HOLES = 3
const PREFIX_BYTES = 4
const LAST_INSERT = 5
const RUN = 6
const UNUSED = 7
const SLOTS = 8
const SLOT_WORDS = 4
const OFFSET = 2
const REST_BYTES = 3

/** So many new entries in a row are a stream of ascending keys: by chance they come once in a million. */
const ASCENDING_RUN_MIN = 4

export class Page {
  readonly #memory: PageMemory
  number = 0
  /** Bytes of the chunk that holds the page. */
  bytes: Buffer = Buffer.alloc(0)
  #words = new Uint16Array(0)
  #longs = new Uint32Array(0)
  #base = 0
  /** Index of the header in #words. */
  #header = 0

  constructor(memory: PageMemory) {
    this.#memory = memory
  }

  open(number: number): this {
    this.number = number
    this.bytes = this.#memory.chunkOf(number)
    this.#words = this.#memory.wordsOf(number)
    this.#longs = this.#memory.longsOf(number)
    this.#base = this.#memory.baseOf(number)
    this.#header = this.#base / 2
    return this
  }

  get level(): number {
    return this.#words[this.#header + LEVEL]!
  }

  get count(): number {
    return this.#words[this.#header + COUNT]!
  }

  get prefixBytes(): number {
    return this.#words[this.#header + PREFIX_BYTES]!
  }

  get valueBytes(): number {
    return valueBytesOf(this.level)
  }

  /** Bytes that are not free. */
  get usedBytes(): number {
    const words = this.#words
    const header = this.#header
    const heapBytes = PAGE_BYTES - words[header + HEAP_BEGIN]! - words[header + HOLES]!
    return PAGE_HEADER_BYTES + SLOT_BYTES * words[header + COUNT]! + heapBytes
  }

  /** True when an entry at `slot` continues a stream of ascending keys. */
  isAscending(slot: number): boolean {
    const words = this.#words
    return slot === words[this.#header + LAST_INSERT]! + 1 && words[this.#header + RUN]! >= ASCENDING_RUN_MIN
  }

  /** The slot of a key, or `~slot` with the slot where it would go in. */
  search(key: Buffer, keyBytes: number): number {
    const { bytes } = this
    const words = this.#words
    const base = this.#base
    const prefixBytes = words[this.#header + PREFIX_BYTES]!
    const order = comparePrefix(bytes, base + PAGE_BYTES - prefixBytes, prefixBytes, key, keyBytes)
    const first = this.level === 0 ? 0 : 1 // P3
    if (order !== 0) return order > 0 ? ~first : ~this.count

    const longs = this.#longs
    const slots = this.#header + SLOTS
    const heads = slots / 2
    const restBytes = keyBytes - prefixBytes
    const head = headOf(key, prefixBytes, keyBytes)
    let low = first
    let high = this.count - 1
    while (low <= high) {
      const middle = (low + high) >>> 1
      const headThere = longs[heads + 2 * middle]!
      if (headThere < head) {
        low = middle + 1
        continue
      }
      if (headThere > head) {
        high = middle - 1
        continue
      }
      const slot = slots + SLOT_WORDS * middle
      const restThere = words[slot + REST_BYTES]!
      const tailAt = base + words[slot + OFFSET]! - HEAD_BYTES
      const shorter = restBytes < restThere ? restBytes : restThere
      let i = HEAD_BYTES
      while (i < shorter && bytes[tailAt + i] === key[prefixBytes + i]) i++
      const order = i < shorter ? bytes[tailAt + i]! - key[prefixBytes + i]! : restThere - restBytes
      if (order === 0) return middle
      if (order < 0) low = middle + 1
      else high = middle - 1
    }
    return ~low
  }

  /** Slot of the entry whose range a key is in, above the leaves. */
  childSlot(key: Buffer, keyBytes: number): number {
    const slot = this.search(key, keyBytes)
    return slot >= 0 ? slot : ~slot - 1
  }

  child(slot: number): number {
    return this.bytes.readUInt32LE(this.valueAt(slot))
  }

  /** Where in `bytes` the value of an entry is. */
  valueAt(slot: number): number {
    const at = this.#header + SLOTS + SLOT_WORDS * slot
    return this.#base + this.#words[at + OFFSET]! + tailBytes(this.#words[at + REST_BYTES]!)
  }

  /** Writes the key of an entry to `into`, which has room. Returns its length. */
  copyKey(slot: number, into: Buffer, at = 0): number {
    const { bytes, prefixBytes } = this
    const prefixAt = this.#base + PAGE_BYTES - prefixBytes
    for (let i = 0; i < prefixBytes; i++) into[at + i] = bytes[prefixAt + i]!

    const slotAt = this.#header + SLOTS + SLOT_WORDS * slot
    const restBytes = this.#words[slotAt + REST_BYTES]!
    const head = this.#longs[slotAt / 2]!
    const restAt = at + prefixBytes
    for (let i = 0; i < restBytes && i < HEAD_BYTES; i++) into[restAt + i] = head >>> (24 - 8 * i)
    const tailAt = this.#base + this.#words[slotAt + OFFSET]! - HEAD_BYTES
    for (let i = HEAD_BYTES; i < restBytes; i++) into[restAt + i] = bytes[tailAt + i]!
    return prefixBytes + restBytes
  }

  /** @param value as wide as those of this page */
  setValue(slot: number, value: Buffer): void {
    this.#memory.beforeChange(this.number) // P2
    value.copy(this.bytes, this.valueAt(slot), 0, this.valueBytes)
  }

  /** Puts an entry in at `slot`, where `search` says it goes. False when the page has no room for it as it is. */
  tryInsert(slot: number, key: Buffer, keyBytes: number, value: Buffer): boolean {
    const words = this.#words
    const header = this.#header
    const { bytes, count, prefixBytes, valueBytes } = this
    const restBytes = keyBytes - prefixBytes
    const heapBegin = words[header + HEAP_BEGIN]! - tailBytes(restBytes) - valueBytes
    if (heapBegin < PAGE_HEADER_BYTES + SLOT_BYTES * (count + 1)) return false
    const prefixAt = this.#base + PAGE_BYTES - prefixBytes
    if (comparePrefix(bytes, prefixAt, prefixBytes, key, keyBytes) !== 0) return false

    this.#memory.beforeChange(this.number) // P2
    const slotAt = header + SLOTS + SLOT_WORDS * slot
    words.copyWithin(slotAt + SLOT_WORDS, slotAt, header + SLOTS + SLOT_WORDS * count)
    this.#longs[slotAt / 2] = headOf(key, prefixBytes, keyBytes)
    words[slotAt + OFFSET] = heapBegin
    words[slotAt + REST_BYTES] = restBytes
    let to = this.#base + heapBegin
    for (let i = prefixBytes + HEAD_BYTES; i < keyBytes; i++) bytes[to++] = key[i]!
    for (let i = 0; i < valueBytes; i++) bytes[to++] = value[i]!
    words[header + COUNT] = count + 1
    words[header + HEAP_BEGIN] = heapBegin
    words[header + RUN] = slot === words[header + LAST_INSERT]! + 1 ? words[header + RUN]! + 1 : 0
    words[header + LAST_INSERT] = slot
    return true
  }

  /** True when `fill` could make room for a key that `tryInsert` refused: it regains lost bytes, and may shorten the prefix. */
  gainsByPacking(key: Buffer, keyBytes: number): boolean {
    const { prefixBytes } = this
    const prefixAt = this.#base + PAGE_BYTES - prefixBytes
    return (
      this.#words[this.#header + HOLES]! > 0 || comparePrefix(this.bytes, prefixAt, prefixBytes, key, keyBytes) !== 0
    )
  }

  /** Takes the entries of [from, to) out. */
  remove(from: number, to: number): void {
    if (from === to) return
    this.#memory.beforeChange(this.number) // P2
    const words = this.#words
    const header = this.#header
    const slots = header + SLOTS
    const { count, valueBytes } = this
    let holes = words[header + HOLES]!
    for (let slot = from; slot < to; slot++) {
      holes += tailBytes(words[slots + SLOT_WORDS * slot + REST_BYTES]!) + valueBytes
    }
    words.copyWithin(slots + SLOT_WORDS * from, slots + SLOT_WORDS * to, slots + SLOT_WORDS * count)
    words[header + COUNT] = count - (to - from)
    words[header + HOLES] = holes
    words[header + RUN] = 0
  }

  /**
   * Makes the page hold exactly the entries [from, to), which fit, in as few bytes as they can have.
   *
   * @param newest  entry that is new, in a stream of ascending keys that continues; -1: none is
   */
  fill(level: number, entries: Entries, from: number, to: number, newest = -1): void {
    this.#memory.beforeChange(this.number) // P2
    const words = this.#words
    const header = this.#header
    const base = this.#base
    const valueBytes = valueBytesOf(level)
    const prefixBytes = entries.prefixBytes(from, to)
    let heapBegin = PAGE_BYTES - prefixBytes
    if (prefixBytes > 0) entries.copyKey(to - 1, 0, prefixBytes, this.bytes, base + heapBegin)
    let slotAt = header + SLOTS
    for (let i = from; i < to; i++) {
      const isKeyless = level > 0 && i === from // P3
      const restBytes = isKeyless ? 0 : entries.keyBytes(i) - prefixBytes
      const tail = tailBytes(restBytes)
      heapBegin -= tail + valueBytes
      entries.copyKey(i, prefixBytes + HEAD_BYTES, tail, this.bytes, base + heapBegin)
      entries.copyValue(i, this.bytes, base + heapBegin + tail)
      this.#longs[slotAt / 2] = isKeyless ? 0 : entries.head(i, prefixBytes)
      words[slotAt + OFFSET] = heapBegin
      words[slotAt + REST_BYTES] = restBytes
      slotAt += SLOT_WORDS
    }
    words[header + LEVEL] = level
    words[header + COUNT] = to - from
    words[header + HEAP_BEGIN] = heapBegin
    words[header + HOLES] = 0
    words[header + PREFIX_BYTES] = prefixBytes
    words[header + LAST_INSERT] = newest < 0 ? 0 : newest - from
    words[header + RUN] = newest < 0 ? 0 : ASCENDING_RUN_MIN
    words[header + UNUSED] = 0
  }

  /** Bytes that `encode` writes. */
  get encodedBytes(): number {
    const words = this.#words
    const header = this.#header
    return PAGE_HEADER_BYTES + SLOT_BYTES * words[header + COUNT]! + PAGE_BYTES - words[header + HEAP_BEGIN]!
  }

  /** Writes the page without its gap. */
  encode(into: Buffer, at: number): void {
    const base = this.#base
    const slotsEnd = PAGE_HEADER_BYTES + SLOT_BYTES * this.count
    this.bytes.copy(into, at, base, base + slotsEnd)
    this.bytes.copy(into, at + slotsEnd, base + this.#words[this.#header + HEAP_BEGIN]!, base + PAGE_BYTES)
  }

  /** Makes the page what `encode` wrote. Returns how many bytes that was; 0 when no page is there. */
  decode(from: Buffer, at: number): number {
    if (from.length - at < PAGE_HEADER_BYTES) return 0
    const slotsEnd = PAGE_HEADER_BYTES + SLOT_BYTES * from.readUInt16LE(at + 2 * COUNT)
    const heapBegin = from.readUInt16LE(at + 2 * HEAP_BEGIN)
    const encodedBytes = slotsEnd + PAGE_BYTES - heapBegin
    if (slotsEnd > heapBegin || heapBegin > PAGE_BYTES || at + encodedBytes > from.length) return 0
    this.#memory.beforeChange(this.number) // P2
    from.copy(this.bytes, this.#base, at, at + slotsEnd)
    from.copy(this.bytes, this.#base + heapBegin, at + slotsEnd, at + encodedBytes)
    return encodedBytes
  }
}

/** 0 when the key begins with the prefix, else the order of the prefix and the key. */
function comparePrefix(bytes: Buffer, at: number, prefixBytes: number, key: Buffer, keyBytes: number): number {
  const shorter = keyBytes < prefixBytes ? keyBytes : prefixBytes
  for (let i = 0; i < shorter; i++) {
    const order = bytes[at + i]! - key[i]!
    if (order !== 0) return order
  }
  return keyBytes < prefixBytes ? 1 : 0
}
