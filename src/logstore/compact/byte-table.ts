/** Numbers the distinct byte strings, in the order in which they first came. */

const SLOTS_AT_FIRST = 16
const EMPTY = 0
const PRIME = 0x9e37_79b1

export class ByteTable {
  count = 0
  /** All of them, one behind the other. */
  bytes = Buffer.allocUnsafeSlow(128)
  /** By number: where it ends in `bytes`, and the next one begins. */
  #ends = new Uint32Array(SLOTS_AT_FIRST / 2)
  /** By number. */
  #hashes = new Uint32Array(SLOTS_AT_FIRST / 2)
  /** Number + 1, or EMPTY. There are at least twice as many slots as strings. */
  #slots = new Uint32Array(SLOTS_AT_FIRST)

  startOf(number: number): number {
    return number === 0 ? 0 : this.#ends[number - 1]!
  }

  endOf(number: number): number {
    return this.#ends[number]!
  }

  /** -1: the string is not in the table. */
  find(source: Uint8Array, start: number, end: number): number {
    return this.#slots[this.#slotOf(hashOf(source, start, end), source, start, end)]! - 1
  }

  /** The number of a string. A new one is copied, and gets the `count` before the call as its number. */
  numberOf(source: Uint8Array, start: number, end: number): number {
    const hash = hashOf(source, start, end)
    const slot = this.#slotOf(hash, source, start, end)
    const held = this.#slots[slot]!
    if (held !== EMPTY) return held - 1
    const number = this.count++
    this.#slots[slot] = number + 1
    this.#keep(number, hash, source, start, end)
    if (2 * this.count === this.#slots.length) this.#grow()
    return number
  }

  clear(): void {
    this.count = 0
    this.#slots.fill(EMPTY)
  }

  #slotOf(hash: number, source: Uint8Array, start: number, end: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    let slot = hash & mask
    for (let held = slots[slot]!; held !== EMPTY; held = slots[slot]!) {
      if (this.#hashes[held - 1] === hash && this.#isSame(held - 1, source, start, end)) return slot
      slot = (slot + 1) & mask
    }
    return slot
  }

  #isSame(number: number, source: Uint8Array, start: number, end: number): boolean {
    const at = this.startOf(number)
    const length = end - start
    if (this.#ends[number]! - at !== length) return false
    const { bytes } = this
    for (let i = 0; i < length; i++) if (bytes[at + i] !== source[start + i]) return false
    return true
  }

  #keep(number: number, hash: number, source: Uint8Array, start: number, end: number): void {
    const at = this.startOf(number)
    const length = end - start
    if (at + length > this.bytes.byteLength) {
      const larger = Buffer.allocUnsafeSlow(Math.max(at + length, 2 * this.bytes.byteLength))
      this.bytes.copy(larger, 0, 0, at)
      this.bytes = larger
    }
    const { bytes } = this
    for (let i = 0; i < length; i++) bytes[at + i] = source[start + i]!
    this.#hashes[number] = hash
    this.#ends[number] = at + length
  }

  #grow(): void {
    this.#ends = longer(this.#ends)
    this.#hashes = longer(this.#hashes)
    const slots = new Uint32Array(2 * this.#slots.length)
    const mask = slots.length - 1
    for (let number = 0; number < this.count; number++) {
      let slot = this.#hashes[number]! & mask
      while (slots[slot] !== EMPTY) slot = (slot + 1) & mask
      slots[slot] = number + 1
    }
    this.#slots = slots
  }
}

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start
  let at = start
  for (; at + 4 <= end; at += 4) {
    const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    hash = Math.imul(hash ^ word, PRIME)
    hash ^= hash >>> 15
  }
  for (; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, PRIME)
  hash ^= hash >>> 16
  hash = Math.imul(hash, PRIME)
  return (hash ^ (hash >>> 13)) >>> 0
}

/** Twice as long. */
export function longer<Column extends Uint32Array | Uint16Array | Uint8Array | Float64Array>(column: Column): Column {
  const make = column.constructor as new (length: number) => Column // that of the array itself
  const twice = new make(2 * column.length)
  twice.set(column)
  return twice
}
