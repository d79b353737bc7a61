/** Columns of values that are not texts: numbers of 64 bits, and bytes. */
import { ByteReader } from './byte-reader.ts'
import { longer } from './byte-table.ts'
import type { ByteWriter } from './byte-writer.ts'
import { WordPairs, readEnds, readPairs, skipPairs, writePairs, writeTexts } from './number-columns.ts'
import { DOUBLE, FIXED32, FIXED64, TIME } from './otlp-fields.ts'

/** Writes times as steps from the time of their record, which is near, and is kept in any case. One column serves block after block. */
export class NumberColumnWriter {
  readonly #isTime: boolean
  readonly #pairs = new WordPairs()

  constructor(kind: number) {
    this.#isTime = kind === TIME
  }

  get count(): number {
    return this.#pairs.count
  }

  /** Begins the column of the next block. */
  begin(): void {
    this.#pairs.count = 0
  }

  add(high: number, low: number, timeHigh: number, timeLow: number): void {
    if (!this.#isTime) return this.#pairs.add(high, low)
    const stepLow = (low - timeLow) >>> 0
    const stepHigh = (high - timeHigh - (low < timeLow ? 1 : 0)) >>> 0
    const sign = stepHigh >>> 31 === 1 ? 0xffff_ffff : 0
    this.#pairs.add((((stepHigh << 1) | (stepLow >>> 31)) ^ sign) >>> 0, ((stepLow << 1) ^ sign) >>> 0)
  }

  write(into: ByteWriter): void {
    writePairs(into, this.#pairs)
  }
}

export class NumberColumn {
  readonly #kind: number
  readonly #count: number
  /** The bytes that the column is in, and where it begins. */
  readonly #bytes: Buffer
  readonly #at: number
  #pairs: WordPairs | null = null

  constructor(from: ByteReader, count: number, kind: number) {
    this.#kind = kind
    this.#count = count
    this.#bytes = from.bytes
    this.#at = from.at
    skipPairs(from, count)
  }

  /** All values. */
  get pairs(): WordPairs {
    if (this.#pairs !== null) return this.#pairs
    const from = new ByteReader(this.#bytes)
    from.at = this.#at
    return (this.#pairs = readPairs(from, this.#count))
  }

  /** A word of one value. */
  #wordOf(value: number, firstPlane: number): number {
    const bytes = this.#bytes
    const at = this.#at + 1 + value
    const count = this.#count
    const planes = Math.min(bytes[this.#at]!, firstPlane + 4)
    let word = 0
    for (let plane = firstPlane; plane < planes; plane++)
      word |= bytes[at + plane * count]! << (8 * (plane - firstPlane))
    return word >>> 0
  }

  /** Writes a value as it was in its record, whose time is given. */
  writeValue(into: ByteWriter, value: number, timeHigh: number, timeLow: number): void {
    const low = this.#wordOf(value, 0)
    const high = this.#wordOf(value, 4)
    switch (this.#kind) {
      case FIXED32:
        return writeWord(into, low)
      case TIME:
        timeOf(high, low, timeHigh, timeLow, time)
        return writePair(into, time[0]!, time[1]!)
      case FIXED64:
      case DOUBLE:
        return writePair(into, high, low)
      default:
        return writeVarint(into, high, low)
    }
  }
}

const time = new Uint32Array(2)

/** Decodes a time of a column. @param timeHigh, timeLow the time of its record @param into receives the words, the high one first */
export function timeOf(high: number, low: number, timeHigh: number, timeLow: number, into: Uint32Array): void {
  const sign = (low & 1) === 1 ? 0xffff_ffff : 0
  const stepLow = (((low >>> 1) | (high << 31)) ^ sign) >>> 0
  const stepHigh = ((high >>> 1) ^ sign) >>> 0
  const sum = timeLow + stepLow
  into[0] = timeHigh + stepHigh + (sum > 0xffff_ffff ? 1 : 0)
  into[1] = sum
}

function writePair(into: ByteWriter, high: number, low: number): void {
  writeWord(into, low)
  writeWord(into, high)
}

function writeWord(into: ByteWriter, word: number): void {
  into.reserve(4)
  const { bytes, at } = into
  bytes[at] = word
  bytes[at + 1] = word >>> 8
  bytes[at + 2] = word >>> 16
  bytes[at + 3] = word >>> 24
  into.at = at + 4
}

function writeVarint(into: ByteWriter, high: number, low: number): void {
  if (high < 1 << 20) return into.varint(high * 2 ** 32 + low)
  let leftHigh = high
  let leftLow = low
  into.reserve(10)
  for (; leftHigh !== 0 || leftLow >= 128; leftHigh >>>= 7) {
    into.bytes[into.at++] = (leftLow & 127) | 128
    leftLow = ((leftLow >>> 7) | (leftHigh << 25)) >>> 0
  }
  into.bytes[into.at++] = leftLow
}

/** Writes lengths and bytes; equal lengths, such as those of ids, take no space. One column serves block after block. */
export class BytesColumnWriter {
  count = 0
  #source: Uint8Array
  #starts = new Uint32Array(32)
  #ends = new Uint32Array(32)

  constructor(source: Uint8Array) {
    this.#source = source
  }

  /** Begins the column of the next block. */
  begin(source: Uint8Array): void {
    this.#source = source
    this.count = 0
  }

  add(start: number, end: number): void {
    if (this.count === this.#starts.length) {
      this.#starts = longer(this.#starts)
      this.#ends = longer(this.#ends)
    }
    this.#starts[this.count] = start
    this.#ends[this.count++] = end
  }

  write(into: ByteWriter): void {
    writeTexts(into, this.#source, this.#starts, this.#ends, this.count)
  }
}

export class BytesColumn {
  readonly #bytes: Buffer
  readonly #ends: Uint32Array

  constructor(from: ByteReader, count: number) {
    this.#ends = readEnds(from, count)
    this.#bytes = from.take(this.#ends[count]!)
  }

  bytesOf(value: number): number {
    return this.#ends[value + 1]! - this.#ends[value]!
  }

  /** @param bytes as long as the value */
  isEqual(value: number, bytes: Uint8Array): boolean {
    const start = this.#ends[value]!
    let i = 0
    while (i < bytes.byteLength && this.#bytes[start + i] === bytes[i]) i++
    return i === bytes.byteLength
  }

  writeValue(into: ByteWriter, value: number): void {
    into.copy(this.#bytes, this.#ends[value], this.#ends[value + 1])
  }
}
