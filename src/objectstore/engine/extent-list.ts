/**
 * The extents of a body in their order, packed as a commit frame has them. A list may have 700 000, and is read by requests that need one of them
 * or none.
 *
 *   offset  bytes  field     of each entry. Integers are little-endian
 *        0      6  position  u48
 *        6      4  bytes     u32
 *       10      2  unused    u16, 0
 *
 * X1  a list never changes, and neither does the memory it stands in. A list in memory that is used again must be copied: `copy`
 * X2  an entry is decoded only when it is asked for
 */
import { copyBytes, copyInOwnMemory } from '../../../native-free-codecs/copy-bytes.ts'

const ENTRY_BYTES = 12
const BYTES_AT = 6
const GROWING_FROM = 4

/** A piece of a body, in a frame of its own. */
export interface Extent {
  readonly position: number
  /** Bytes of the body. */
  readonly bytes: number
}

/** The extents that have a range of a body. */
export interface Covering {
  /** Number of the first of them. */
  readonly first: number
  /** Where that one begins in the body, in bytes. */
  readonly begin: number
  /** Lowest position of all of them; Infinity: the range is empty. */
  readonly lowestPosition: number
}

export class ExtentList implements Iterable<Extent> {
  static readonly EMPTY = new ExtentList(Buffer.alloc(0))

  /** The entries as they stand in a frame. */
  readonly packed: Buffer

  /** @param packed whole entries (X1) */
  constructor(packed: Buffer) {
    this.packed = packed
  }

  static packedBytes(count: number): number {
    return ENTRY_BYTES * count
  }

  static of(extents: readonly Extent[]): ExtentList {
    const builder = new ExtentListBuilder(extents.length)
    for (const extent of extents) builder.add(extent)
    return builder.list
  }

  static joined(lists: readonly ExtentList[]): ExtentList {
    return new ExtentList(Buffer.concat(lists.map(({ packed }) => packed)))
  }

  get length(): number {
    return this.packed.byteLength / ENTRY_BYTES
  }

  /** @throws RangeError: there is no such extent */
  at(number: number): Extent {
    const at = ENTRY_BYTES * number
    return { position: this.packed.readUIntLE(at, 6), bytes: this.packed.readUInt32LE(at + BYTES_AT) }
  }

  *[Symbol.iterator](): Generator<Extent, void, undefined> {
    const { length } = this
    for (let i = 0; i < length; i++) yield this.at(i)
  }

  /** The extents from number `from` to below `to`, as far as there are: a view of the same memory. */
  between(from: number, to: number): ExtentList {
    return new ExtentList(this.packed.subarray(ENTRY_BYTES * from, ENTRY_BYTES * to))
  }

  /** A copy in memory of its own. */
  copy(): ExtentList {
    return new ExtentList(copyInOwnMemory(this.packed))
  }

  /** The extents that have the bytes [from, to) of the body. It looks at all that stand before `to`: some 10 ms for the longest list. */
  covering(from: number, to: number): Covering {
    const { length } = this
    const view = viewOf(this.packed)
    let first = 0
    let begin = 0
    for (; first < length; first++) {
      const end = begin + bytesIn(view, first)
      if (end > from) break
      begin = end
    }
    let lowestPosition = Infinity
    for (let i = first, at = begin; i < length && at < to; i++) {
      lowestPosition = Math.min(lowestPosition, positionIn(view, i))
      at += bytesIn(view, i)
    }
    return { first, begin, lowestPosition }
  }

  /** Number of the next extent, `number` or behind it, whose frame stands in [base, end) of the log; -1: there is none. */
  nextWithin(base: number, end: number, number: number): number {
    const { length } = this
    const view = viewOf(this.packed)
    for (let i = number; i < length; i++) {
      const position = positionIn(view, i)
      if (position >= base && position < end) return i
    }
    return -1
  }
}

// Walking over a list through a DataView costs a quarter of what the methods of Buffer do.

const viewOf = ({ buffer, byteOffset, byteLength }: Buffer): DataView => new DataView(buffer, byteOffset, byteLength)

const positionIn = (view: DataView, number: number): number =>
  view.getUint32(ENTRY_BYTES * number, true) + view.getUint16(ENTRY_BYTES * number + 4, true) * 2 ** 32

const bytesIn = (view: DataView, number: number): number => view.getUint32(ENTRY_BYTES * number + BYTES_AT, true)

/** A list that grows at its end. */
export class ExtentListBuilder {
  #room: Buffer
  #end = 0

  /** @param count about how many extents will be added */
  constructor(count = GROWING_FROM) {
    this.#room = Buffer.allocUnsafeSlow(ENTRY_BYTES * count)
  }

  /** The list so far. What is added later does not change it. */
  get list(): ExtentList {
    return new ExtentList(this.#room.subarray(0, this.#end))
  }

  add({ position, bytes }: Extent): void {
    this.#makeRoom(ENTRY_BYTES)
    this.#room.writeUIntLE(position, this.#end, 6)
    this.#room.writeUInt32LE(bytes, this.#end + BYTES_AT)
    this.#room.writeUInt16LE(0, this.#end + 10)
    this.#end += ENTRY_BYTES
  }

  addAll({ packed }: ExtentList): void {
    this.#makeRoom(packed.byteLength)
    this.#end = copyBytes(packed, this.#room, this.#end)
  }

  #makeRoom(bytes: number): void {
    if (this.#end + bytes <= this.#room.byteLength) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.#end + bytes))
    copyBytes(this.#room.subarray(0, this.#end), larger, 0)
    this.#room = larger
  }
}
