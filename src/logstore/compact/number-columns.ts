/**
 * Columns of numbers as planes: the lowest byte of all values, then the next byte of all values. A plane of equal bytes takes almost nothing once it is
 * compressed, and the bytes of other planes are of one kind.
 *
 *   column of 64 bits   planes u8, then so many planes
 *   column of counts    least varint, planes u8, planes of value - least; or 128 + planes and the differences from one value to the next, zigzag
 */
import assert from 'node:assert/strict'
import type { ByteReader } from './byte-reader.ts'
import type { ByteWriter } from './byte-writer.ts'

const DIFFERENCES = 128
const WORD = 2 ** 32

/** Values of 64 bits as two words each. */
export class WordPairs {
  high: Uint32Array
  low: Uint32Array
  count = 0

  constructor(capacity = 64) {
    this.high = new Uint32Array(capacity)
    this.low = new Uint32Array(capacity)
  }

  add(high: number, low: number): void {
    if (this.count === this.high.length) this.#grow()
    this.high[this.count] = high
    this.low[this.count++] = low
  }

  #grow(): void {
    const { high, low } = this
    this.high = new Uint32Array(2 * high.length)
    this.low = new Uint32Array(2 * low.length)
    this.high.set(high)
    this.low.set(low)
  }
}

export function writePairs(into: ByteWriter, { high, low, count }: WordPairs): void {
  let highBits = 0
  let lowBits = 0
  for (let i = 0; i < count; i++) {
    highBits |= high[i]!
    lowBits |= low[i]!
  }
  const planes = highBits === 0 ? bytesOfWord(lowBits) : 4 + bytesOfWord(highBits)
  into.byte(planes)
  writePlanes(into, low, count, Math.min(planes, 4))
  writePlanes(into, high, count, Math.max(planes - 4, 0))
}

export function readPairs(from: ByteReader, count: number): WordPairs {
  const planes = from.byte()
  const pairs = new WordPairs(count)
  readPlanes(from, pairs.low, count, Math.min(planes, 4))
  readPlanes(from, pairs.high, count, Math.max(planes - 4, 0))
  pairs.count = count
  return pairs
}

/** Moves behind what `readPairs` reads. */
export function skipPairs(from: ByteReader, count: number): void {
  from.skip(from.byte() * count)
}

/** Whole numbers below 2^53. */
export function writeNumbers(into: ByteWriter, values: Float64Array, count: number): void {
  let least = Infinity
  let greatest = 0
  let widest = 0
  for (let i = 0; i < count; i++) {
    const value = values[i]!
    if (value < least) least = value
    if (value > greatest) greatest = value
    const step = zigzag(value - (i === 0 ? 0 : values[i - 1]!))
    if (i > 0 && step > widest) widest = step
  }
  if (count === 0) least = 0
  const plain = planesOf(greatest - least)
  const stepped = planesOf(Math.max(widest, zigzag((values[0] ?? 0) - least)))
  into.varint(least)
  const asSteps = stepped < plain
  const planes = asSteps ? stepped : plain
  into.byte(asSteps ? DIFFERENCES + planes : planes)
  into.reserve(planes * count)
  const { bytes, at } = into
  let before = least
  for (let i = 0; i < count; i++) {
    const value = values[i]!
    let left = asSteps ? zigzag(value - before) : value - least
    before = value
    for (let plane = 0; plane < planes; plane++) {
      bytes[at + plane * count + i] = left % 256
      left = Math.floor(left / 256)
    }
  }
  into.at += planes * count
}

export function readNumbers(from: ByteReader, count: number): Float64Array {
  const values = new Float64Array(count)
  readInto(values, from)
  return values
}

/** As `readNumbers`, for numbers below 2^32. */
export function readWords(from: ByteReader, count: number): Uint32Array {
  if (scratch.length < count) scratch = new Float64Array(count)
  const values = scratch.subarray(0, count)
  readInto(values, from)
  return new Uint32Array(values)
}

let scratch = new Float64Array(0)

function readInto(values: Float64Array, from: ByteReader): void {
  const count = values.length
  const least = from.varint()
  const form = from.byte()
  const asSteps = form >= DIFFERENCES
  const planes = asSteps ? form - DIFFERENCES : form
  const bytes = from.take(planes * count)
  if (planes === 0) values.fill(0)
  else values.set(bytes.subarray(0, count))
  for (let plane = 1, scale = 256; plane < planes; plane++, scale *= 256) {
    const at = plane * count
    for (let i = 0; i < count; i++) values[i] = values[i]! + bytes[at + i]! * scale
  }
  let before = least
  if (!asSteps) for (let i = 0; i < count; i++) values[i] = least + values[i]!
  else if (planes < 4) for (let i = 0; i < count; i++) values[i] = before += unzigzagSmall(values[i]!)
  else for (let i = 0; i < count; i++) values[i] = before += unzigzag(values[i]!)
}

/** Moves behind what `readNumbers` reads. */
export function skipNumbers(from: ByteReader, count: number): void {
  from.varint()
  const form = from.byte()
  from.skip((form >= DIFFERENCES ? form - DIFFERENCES : form) * count)
}

/** The sum of what `readNumbers` reads. */
export function sumNumbers(from: ByteReader, count: number): number {
  const start = from.at
  const least = from.varint()
  const planes = from.byte()
  if (planes >= DIFFERENCES) {
    from.at = start
    return readNumbers(from, count).reduce((sum, value) => sum + value, 0)
  }
  let sum = least * count
  for (let plane = 0, scale = 1; plane < planes; plane++, scale *= 256) {
    const { bytes, at } = from
    from.skip(count)
    for (let i = 0; i < count; i++) sum += bytes[at + i]! * scale
  }
  return sum
}

/** Reads the numbers as lengths of values that lie back to back. @returns where each value begins, and where the last one ends */
export function readEnds(from: ByteReader, count: number): Uint32Array {
  const ends = new Uint32Array(count + 1)
  const start = from.at
  const least = from.varint()
  const form = from.byte()
  if (form <= 1) {
    const { bytes, at } = from
    from.skip(form * count)
    for (let i = 0; i < count; i++) ends[i + 1] = ends[i]! + least + (form === 0 ? 0 : bytes[at + i]!)
    return ends
  }
  from.at = start
  const lengths = readNumbers(from, count)
  for (let i = 0; i < count; i++) ends[i + 1] = ends[i]! + lengths[i]!
  return ends
}

/** Lengths, then the bytes of all values back to back: those of value i stand in source[starts[i], ends[i]). */
export function writeTexts(
  into: ByteWriter,
  source: Uint8Array,
  starts: Uint32Array,
  ends: Uint32Array,
  count: number,
): void {
  if (lengths.length < count) lengths = new Float64Array(2 * count)
  let bytes = 0
  for (let i = 0; i < count; i++) bytes += lengths[i] = ends[i]! - starts[i]!
  writeNumbers(into, lengths, count)
  into.reserve(bytes)
  for (let i = 0; i < count; i++) into.copy(source, starts[i], ends[i])
}

/** Numbers of rows in a table of `of` rows: each takes no byte, one or two. */
export function writeChoices(into: ByteWriter, values: Uint16Array, count: number, of: number): void {
  if (of > 1) writePlanes(into, values, count, of > 256 ? 2 : 1)
}

export function readChoices(from: ByteReader, count: number, of: number): Uint16Array {
  const values = new Uint16Array(count)
  if (of > 1) readPlanes(from, values, count, of > 256 ? 2 : 1)
  return values
}

/** Scratch of `writeTexts`: a column may have thousands of forms with few values each. */
let lengths = new Float64Array(4096)

function writePlanes(into: ByteWriter, values: Uint32Array | Uint16Array, count: number, planes: number): void {
  into.reserve(planes * count)
  const { bytes } = into
  for (let plane = 0; plane < planes; plane++) {
    const { at } = into
    const shift = 8 * plane
    for (let i = 0; i < count; i++) bytes[at + i] = values[i]! >>> shift
    into.at += count
  }
}

function readPlanes(from: ByteReader, into: Uint32Array | Uint16Array, count: number, planes: number): void {
  for (let plane = 0; plane < planes; plane++) {
    const bytes = from.take(count)
    if (plane === 0) {
      into.set(bytes)
      continue
    }
    const shift = 8 * plane
    for (let i = 0; i < count; i++) into[i] = into[i]! | (bytes[i]! << shift)
  }
}

const bytesOfWord = (bits: number): number => (bits === 0 ? 0 : 4 - (Math.clz32(bits) >>> 3))

function planesOf(value: number): number {
  assert(value >= 0)
  return value < WORD ? bytesOfWord(value) : 4 + bytesOfWord(Math.floor(value / WORD))
}

/** Exact for steps up to 2^52, so for differences of numbers below 10^15. */
const zigzag = (step: number): number => (step < 0 ? -2 * step - 1 : 2 * step)
const unzigzag = (value: number): number => (value % 2 === 1 ? -(value + 1) / 2 : value / 2)
/** For values below 2^31; several times as fast. */
const unzigzagSmall = (value: number): number => (value >>> 1) ^ -(value & 1)
