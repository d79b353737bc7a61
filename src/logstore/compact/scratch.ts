/**
 * Keeps the parts of a bundle that is being written until their places in the file are known: in memory for a small bundle, or in a temporary file
 * (scratch-file.ts).
 */
export interface Scratch {
  /** Byte strings that are read in their order. */
  list(): ByteList
  /** @param limit a power of two; all numbers are below it @param expected about how many */
  numbers(limit: number, expected: number): NumberList
  /** @param entries each is given a row, in any order */
  rows(entries: number): RowsByEntry
}

export interface ByteList extends Iterable<Buffer<ArrayBuffer>> {
  /** Bytes of all parts together. */
  readonly bytes: number
  add(...parts: readonly Buffer<ArrayBuffer>[]): void
}

export interface NumberList {
  readonly count: number
  add(number: number): void
  /** Ranges of numbers, in ascending order; within a range they have no order. The caller may change an array, which is valid until the next one. Called once. */
  ranges(): Iterable<Float64Array>
}

export interface RowsByEntry {
  set(entry: number, row: number): void
  /** The rows of entries [0, length), [length, 2 * length) and so on. Called once. @param length a power of two */
  chunks(length: number): Iterable<Uint32Array>
}

export class MemoryScratch implements Scratch {
  list(): ByteList {
    return new ByteListInMemory()
  }

  numbers(_limit: number, expected: number): NumberList {
    return new NumbersInMemory(expected)
  }

  rows(entries: number): RowsByEntry {
    return new RowsInMemory(entries)
  }
}

class ByteListInMemory implements ByteList {
  readonly #parts: Buffer<ArrayBuffer>[] = []
  bytes = 0

  add(...parts: readonly Buffer<ArrayBuffer>[]): void {
    for (const part of parts) {
      this.#parts.push(part)
      this.bytes += part.byteLength
    }
  }

  [Symbol.iterator](): Iterator<Buffer<ArrayBuffer>> {
    return this.#parts.values()
  }
}

const NUMBERS_MIN = 1024

class NumbersInMemory implements NumberList {
  #numbers: Float64Array
  count = 0

  constructor(expected: number) {
    this.#numbers = new Float64Array(Math.max(NUMBERS_MIN, expected))
  }

  add(number: number): void {
    if (this.count === this.#numbers.length) {
      const longer = new Float64Array(2 * this.count)
      longer.set(this.#numbers)
      this.#numbers = longer
    }
    this.#numbers[this.count++] = number
  }

  ranges(): Iterable<Float64Array> {
    return [this.#numbers.subarray(0, this.count)]
  }
}

class RowsInMemory implements RowsByEntry {
  readonly #rows: Uint32Array

  constructor(entries: number) {
    this.#rows = new Uint32Array(entries)
  }

  set(entry: number, row: number): void {
    this.#rows[entry] = row
  }

  *chunks(length: number): Iterable<Uint32Array> {
    for (let from = 0; from < this.#rows.length; from += length) yield this.#rows.subarray(from, from + length)
  }
}
