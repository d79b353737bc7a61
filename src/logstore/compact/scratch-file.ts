/**
 * A scratch in a file, so that the memory of a merge grows with the blocks of the merged bundle and not with its records.
 *
 * Numbers are put into ranges as they come. Each range has a buffer, which goes to the file when it is full; at the end one range after the other is read
 * and sorted. So one range is in memory, not all numbers.
 */
import assert from 'node:assert/strict'
import type { OpenFile } from '../../log/files.ts'
import type { ByteList, NumberList, RowsByEntry, Scratch } from './scratch.ts'

const RANGES = 64
/** Numbers of a range that are buffered before they go to the file. */
const NUMBERS_BUFFERED = 512
const NUMBER_BYTES = Float64Array.BYTES_PER_ELEMENT
/** Bundles have fewer rows, so an entry and its row fit one number below 2^53. */
const ROWS = 2 ** 26

export class ScratchFile implements Scratch {
  readonly #file: OpenFile
  #at = 0

  /** @param file empty */
  constructor(file: OpenFile) {
    this.#file = file
  }

  list(): ByteList {
    return new ByteListInFile(this)
  }

  numbers(limit: number): NumberList {
    return new NumbersInFile(this, limit)
  }

  rows(entries: number): RowsByEntry {
    return new RowsInFile(this, entries)
  }

  /** @returns where the parts begin */
  append(parts: readonly Uint8Array[]): number {
    const at = this.#at
    this.#file.writev(parts, at)
    for (const { byteLength } of parts) this.#at += byteLength
    return at
  }

  read(into: Uint8Array, at: number): void {
    if (this.#file.read(into, at) !== into.byteLength) throw new Error('a scratch file is shorter than it was written')
  }
}

class ByteListInFile implements ByteList {
  readonly #file: ScratchFile
  readonly #ats: number[] = []
  readonly #lengths: number[] = []
  bytes = 0

  constructor(file: ScratchFile) {
    this.#file = file
  }

  add(...added: readonly Buffer<ArrayBuffer>[]): void {
    const parts = added.filter(({ byteLength }) => byteLength > 0)
    if (parts.length === 0) return
    const length = parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
    this.#ats.push(this.#file.append(parts))
    this.#lengths.push(length)
    this.bytes += length
  }

  *[Symbol.iterator](): Iterator<Buffer<ArrayBuffer>> {
    for (const [number, length] of this.#lengths.entries()) {
      const into = Buffer.allocUnsafe(length)
      this.#file.read(into, this.#ats[number]!)
      yield into
    }
  }
}

class NumbersInFile implements NumberList {
  readonly #file: ScratchFile
  readonly #limit: number
  /** By range: the numbers that are not in the file yet, and how many there are. */
  readonly #buffered = new Float64Array(RANGES * NUMBERS_BUFFERED)
  readonly #fill = new Uint32Array(RANGES)
  /** By range: where its full buffers are in the file. */
  readonly #ats: number[][] = Array.from({ length: RANGES }, () => [])
  count = 0

  constructor(file: ScratchFile, limit: number) {
    this.#file = file
    this.#limit = limit
  }

  add(number: number): void {
    const range = Math.floor((number / this.#limit) * RANGES)
    const at = this.#fill[range]!++
    this.#buffered[range * NUMBERS_BUFFERED + at] = number
    this.count++
    if (at + 1 === NUMBERS_BUFFERED) this.#write(range)
  }

  #write(range: number): void {
    const { buffer } = this.#buffered
    const bytes = NUMBERS_BUFFERED * NUMBER_BYTES
    this.#ats[range]!.push(this.#file.append([new Uint8Array(buffer, range * bytes, bytes)]))
    this.#fill[range] = 0
  }

  *ranges(): Iterable<Float64Array> {
    const longest = Math.max(...this.#ats.map(({ length }) => length)) + 1
    const memory = new Float64Array(longest * NUMBERS_BUFFERED)
    for (const [range, ats] of this.#ats.entries()) {
      let count = 0
      for (const at of ats) {
        this.#file.read(new Uint8Array(memory.buffer, count * NUMBER_BYTES, NUMBERS_BUFFERED * NUMBER_BYTES), at)
        count += NUMBERS_BUFFERED
      }
      const from = range * NUMBERS_BUFFERED
      const fill = this.#fill[range]!
      memory.set(this.#buffered.subarray(from, from + fill), count)
      yield memory.subarray(0, count + fill)
    }
  }
}

class RowsInFile implements RowsByEntry {
  readonly #entries: number
  readonly #numbers: NumberList

  constructor(file: ScratchFile, entries: number) {
    assert(entries <= ROWS)
    this.#entries = entries
    this.#numbers = file.numbers(2 ** Math.ceil(Math.log2(Math.max(entries, RANGES))) * ROWS)
  }

  set(entry: number, row: number): void {
    this.#numbers.add(entry * ROWS + row)
  }

  *chunks(length: number): Iterable<Uint32Array> {
    const chunk = new Uint32Array(length)
    let entries = 0
    for (const numbers of this.#numbers.ranges()) {
      for (const number of numbers.sort()) {
        chunk[entries++ % length] = number % ROWS
        if (entries % length === 0) yield chunk
      }
    }
    assert.equal(entries, this.#entries)
    if (entries % length > 0) yield chunk.subarray(0, entries % length)
  }
}
