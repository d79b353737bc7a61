/**
 * B+tree over bytes. Whole keys (bucket and key, see key.ts) and values come in and go out as bytes.
 *
 *   level 2 (root)           |  ·   m  |                   what begins an entry of a page above the leaves says where the range of its
 *   level 1          | ·   d   h |   | ·   q |             page begins; · is not looked at: it is where the range of the whole page begins
 *   level 0       |abc| |def| |hij|  |mno| |qrs|
 *
 * Keys in the range of a page are at or above its separator, and below the next separator on any level.
 *
 * T2  a separator of leaves is as short as can be: the shortest key above the last of the left page and not above the first of the right
 * T3  no page is empty but a root that is a leaf; all leaves are at level 0; a root above has two entries at least
 * T4  between changes each page of the memory is in the tree once
 *
 * A page that is too full shares with a neighbour under the same parent; only when both are full, two become three. So pages are four fifths
 * full when keys come at random. Where keys ascend, full pages are left behind. A page that is less than half full joins a neighbour when
 * both fit well into one, and takes from it when it is less than a quarter full.
 *
 * Entries of the parent are changed by key, from the root down: simpler than a path that goes stale under way, and rare.
 */
import { Entries } from './entries.ts'
import { KEY_BYTES_MAX } from './key.ts'
import { CHILD_BYTES } from './page-layout.ts'
import { Page } from './page.ts'
import { PAGE_BYTES, PageMemory } from './page-memory.ts'

/** How full two pages can be that share. What is left free has to pay for the copying. */
const SHARED_BYTES_MAX = PAGE_BYTES - PAGE_BYTES / 8
const JOINED_BYTES_MAX = PAGE_BYTES - PAGE_BYTES / 8
const JOIN_BELOW_BYTES = PAGE_BYTES / 2
const TAKE_BELOW_BYTES = PAGE_BYTES / 4

interface NewEntry {
  readonly slot: number
  readonly key: Buffer
  readonly keyBytes: number
  readonly value: Buffer
}

export class KeyTree {
  readonly memory: PageMemory
  #root: number
  #height: number
  /** Windows on the pages of the latest way down, by level, and the slots that it took. */
  readonly #path: Page[] = []
  readonly #slots: number[] = []
  readonly #other: Page
  readonly #entries = new Entries()
  readonly #separator = Buffer.alloc(KEY_BYTES_MAX)
  /** Pages that the change under way took out of the tree. */
  readonly #unused: number[] = []

  static create(): KeyTree {
    const memory = new PageMemory()
    const root = memory.add()
    new Page(memory).open(root).fill(0, new Entries(), 0, 0)
    return new KeyTree(memory, root)
  }

  /** @param root of a tree that is in the memory */
  constructor(memory: PageMemory, root: number) {
    this.memory = memory
    this.#root = root
    this.#other = new Page(memory)
    this.#height = this.#other.open(root).level + 1
    while (this.#path.length < this.#height) this.#path.push(new Page(memory))
  }

  get root(): number {
    return this.#root
  }

  /** The page where the latest look-up ended. Good until the next change. */
  get leaf(): Page {
    return this.#path[0]!
  }

  /** The entry in `leaf` where the latest look-up ended. */
  get slot(): number {
    return this.#slots[0]!
  }

  /** Looks a key up. When it is not there, `slot` is where it would be. */
  find(key: Buffer, keyBytes: number): boolean {
    const slot = this.#descend(key, keyBytes, 0).search(key, keyBytes)
    this.#slots[0] = slot >= 0 ? slot : ~slot
    return slot >= 0
  }

  /** Goes to the first entry that is not below a key. False when there is none. */
  seek(key: Buffer, keyBytes: number): boolean {
    this.find(key, keyBytes)
    return this.#settle()
  }

  /** As `seek`, for a key above that of this entry: often it is in the same leaf. */
  seekOn(key: Buffer, keyBytes: number): boolean {
    const found = this.leaf.search(key, keyBytes)
    const slot = found >= 0 ? found : ~found
    if (slot === this.leaf.count) return this.seek(key, keyBytes)
    this.#slots[0] = slot
    return true
  }

  /** Goes to the next entry. False when there is none. */
  next(): boolean {
    this.#slots[0]! += 1
    return this.#settle()
  }

  /** Gives the entry that `find` has just found another value. */
  setValue(value: Buffer): void {
    this.leaf.setValue(this.slot, value)
  }

  /** Puts in a key that `find` has just not found. */
  insert(key: Buffer, keyBytes: number, value: Buffer): void {
    this.#insertAt(0, { slot: this.slot, key, keyBytes, value })
    this.#giveBack()
  }

  /** Takes out the key that `find` has just found. */
  remove(key: Buffer, keyBytes: number): void {
    this.leaf.remove(this.slot, this.slot + 1)
    this.#shrink(0, key, keyBytes)
    this.#giveBack()
  }

  /** Opens the pages from the root to the one of `level` whose range a key is in. */
  #descend(key: Buffer, keyBytes: number, level: number): Page {
    let at = this.#height - 1
    let page = this.#path[at]!.open(this.#root)
    for (; at > level; at--) {
      const slot = page.childSlot(key, keyBytes)
      this.#slots[at] = slot
      page = this.#path[at - 1]!.open(page.child(slot))
    }
    return page
  }

  /** Goes from behind the last entry of a leaf to the first one of the next leaf. */
  #settle(): boolean {
    if (this.slot < this.leaf.count) return true
    for (let level = 1; level < this.#height; level++) {
      const slot = this.#slots[level]! + 1
      if (slot === this.#path[level]!.count) continue
      this.#slots[level] = slot
      for (let at = level; at > 0; at--) {
        this.#path[at - 1]!.open(this.#path[at]!.child(this.#slots[at]!))
        this.#slots[at - 1] = 0
      }
      return true // T3
    }
    return false
  }

  /** Puts an entry into the page of the path at `level`. */
  #insertAt(level: number, entry: NewEntry): void {
    const page = this.#path[level]!
    if (page.tryInsert(entry.slot, entry.key, entry.keyBytes, entry.value)) return

    const entries = this.#entries
    if (page.gainsByPacking(entry.key, entry.keyBytes)) {
      this.#takeOne(level, entry)
      if (entries.packedBytes(0, entries.count) <= PAGE_BYTES) {
        page.fill(level, entries, 0, entries.count)
        return
      }
    }
    if (level === this.#height - 1) this.#growRoot()
    const slot = this.#slots[level + 1]!
    if (page.isAscending(entry.slot)) {
      this.#takeOne(level, entry)
      const end = entry.slot === page.count ? entry.slot : entry.slot + 1
      if (entries.packedBytes(0, end) <= PAGE_BYTES) {
        this.#distribute(level, slot, 1, [end, entries.count], entry.slot)
        return
      }
    }
    if (this.#path[level + 1]!.count === 1) {
      this.#takeOne(level, entry)
      this.#distribute(level, slot, 1, entries.balance(2))
      return
    }
    const left = this.#leftOfPair(level)
    this.#takePair(level, left, entry)
    const shared = entries.pack(SHARED_BYTES_MAX).length <= 2
    this.#distribute(level, left, 2, entries.balance(shared ? 2 : 3))
  }

  /** @param key in the range of the page of the path at `level`, from which entries were taken out */
  #shrink(level: number, key: Buffer, keyBytes: number): void {
    if (level === this.#height - 1) {
      this.#lowerRoot()
      return
    }
    const page = this.#path[level]!
    const parent = this.#path[level + 1]!
    const slot = this.#slots[level + 1]!
    if (page.count === 0) {
      parent.remove(slot, slot + 1)
      this.#unused.push(page.number)
      this.#shrink(level + 1, key, keyBytes)
      return
    }
    const { usedBytes } = page
    if (usedBytes >= JOIN_BELOW_BYTES || parent.count === 1) return
    const left = this.#leftOfPair(level)
    const otherBytes = this.#usedBytesOf(parent.child(left === slot ? left + 1 : left))
    if (usedBytes >= TAKE_BELOW_BYTES && usedBytes + otherBytes > JOINED_BYTES_MAX) return
    this.#takePair(level, left)
    const entries = this.#entries
    if (entries.packedBytes(0, entries.count) <= JOINED_BYTES_MAX) {
      this.#distribute(level, left, 2, [entries.count])
      this.#descend(key, keyBytes, level + 1)
      this.#shrink(level + 1, key, keyBytes)
    } else if (usedBytes < TAKE_BELOW_BYTES) {
      this.#distribute(level, left, 2, entries.balance(2))
    }
  }

  /** Pairs the page of the path at `level` with the emptier of its neighbours. Returns the slot of the left one in the page above, which has two at least. */
  #leftOfPair(level: number): number {
    const parent = this.#path[level + 1]!
    const slot = this.#slots[level + 1]!
    if (slot === 0) return 0
    if (slot === parent.count - 1) return slot - 1
    const leftIsFreer = this.#usedBytesOf(parent.child(slot - 1)) < this.#usedBytesOf(parent.child(slot + 1))
    return leftIsFreer ? slot - 1 : slot
  }

  #usedBytesOf(number: number): number {
    return this.#other.open(number).usedBytes
  }

  /** Copies the entries of the page of the path at `level`, with a new one. */
  #takeOne(level: number, entry: NewEntry): void {
    this.#entries.clear(level)
    this.#add(this.#path[level]!, 0, entry)
  }

  /** Copies the entries of two neighbours, with a new one for the page of the path at `level`. */
  #takePair(level: number, left: number, entry: NewEntry | null = null): void {
    const parent = this.#path[level + 1]!
    const { number } = this.#path[level]!
    this.#entries.clear(level)
    for (let slot = left; slot <= left + 1; slot++) {
      const page = this.#other.open(parent.child(slot))
      const isFirstOpen = level > 0 && slot > left
      if (isFirstOpen) {
        const keyBytes = parent.copyKey(slot, this.#separator)
        this.#entries.add(this.#separator, keyBytes, page.bytes, page.valueAt(0))
      }
      this.#add(page, isFirstOpen ? 1 : 0, page.number === number ? entry : null)
    }
  }

  #add(page: Page, from: number, entry: NewEntry | null): void {
    if (entry !== null) {
      this.#entries.addFrom(page, from, entry.slot)
      this.#entries.add(entry.key, entry.keyBytes, entry.value)
    }
    this.#entries.addFrom(page, entry === null ? from : entry.slot, page.count)
  }

  /**
   * Fills neighbouring pages with what was taken, in as many pages as there are `ends`, and tells the page above.
   *
   * @param left    slot of the first of them, in the page of the path above
   * @param pages   number of those that there are
   * @param newest  entry that ascending keys have come to, see Page.fill
   */
  #distribute(level: number, left: number, pages: number, ends: readonly number[], newest = -1): void {
    const parent = this.#path[level + 1]!
    const entries = this.#entries
    const numbers = Array.from({ length: pages }, (_, i) => parent.child(left + i))
    this.#unused.push(...numbers.splice(ends.length))
    while (numbers.length < ends.length) numbers.push(this.memory.add())

    const separators: Buffer[] = []
    for (const [i, end] of ends.entries()) {
      const from = ends[i - 1] ?? 0
      const isIn = from <= newest && newest < end
      this.#other.open(numbers[i]!).fill(level, entries, from, end, isIn ? newest : -1)
      if (i > 0) separators.push(level === 0 ? entries.separator(from) : entries.key(from)) // T2
    }
    parent.remove(left + 1, left + pages)
    for (const [i, key] of separators.entries()) {
      const value = childValue(numbers[i + 1]!)
      const slot = ~this.#descend(key, key.length, level + 1).search(key, key.length)
      this.#insertAt(level + 1, { slot, key, keyBytes: key.length, value })
    }
  }

  /** Puts a page above the root. */
  #growRoot(): void {
    const level = this.#height
    this.#entries.clear(level)
    this.#entries.add(Buffer.alloc(0), 0, childValue(this.#root))
    const root = new Page(this.memory).open(this.memory.add())
    root.fill(level, this.#entries, 0, 1)
    this.#path[level] = root
    this.#slots[level] = 0
    this.#root = root.number
    this.#height = level + 1
  }

  /** T3 */
  #lowerRoot(): void {
    while (this.#height > 1) {
      const root = this.#other.open(this.#root)
      if (root.count > 1) return
      this.#unused.push(root.number)
      this.#root = root.child(0)
      this.#height -= 1
    }
  }

  /** Gives back the memory of pages that are not in the tree any more (T4). */
  #giveBack(): void {
    if (this.#unused.length === 0) return
    for (const number of this.#unused.sort((a, b) => b - a)) {
      const last = this.memory.count - 1
      if (last !== number) this.#relink(last, number)
      this.memory.removeLast(number)
    }
    this.#unused.length = 0
  }

  /** Makes the tree know a page by another number. */
  #relink(from: number, to: number): void {
    if (from === this.#root) {
      this.#root = to
      return
    }
    const page = this.#other.open(from)
    const { level } = page
    for (let at = level; at > 0; at--) page.open(page.child(0))
    const keyBytes = page.copyKey(0, this.#separator) // T3: it is in the range of all of them
    const parent = this.#descend(this.#separator, keyBytes, level + 1)
    parent.setValue(parent.childSlot(this.#separator, keyBytes), childValue(to))
  }
}

function childValue(number: number): Buffer {
  const value = Buffer.alloc(CHILD_BYTES)
  value.writeUInt32LE(number)
  return value
}
