/**
 * Sets a bit for each run of four bytes of words: ASCII letters, whatever their case, digits and `_`.
 *
 *   offset  bytes  area  meaning
 *        0  16384  bits  of the runs so far, by their hash: the highest bits of `gramHash`
 *    16384      …  text  a piece of the bytes, which is then in lower case, with 0 for bytes outside of words; zeros behind it
 *
 * An instance keeps nothing between calls, so one serves a thread.
 */
import assert from 'node:assert/strict'
import { copyBytes } from './copy-bytes.ts'
import {
  and,
  bytesAtMost,
  bytesDiffer,
  bytesEqual,
  bytesSubtract,
  constant,
  doWhile,
  get,
  highBits,
  i32,
  i32Add,
  i32And,
  i32Less,
  i32Load,
  i32Load8,
  i32Multiply,
  i32Or,
  i32ShiftLeftBy,
  i32ShiftRightBy,
  i32Store8,
  i32Subtract,
  i32TrailingZeros,
  load,
  loopOf,
  or,
  set,
  splatByte,
  store,
  when,
} from './wasm-assembler.ts'
import type { Code, Local } from './wasm-assembler.ts'

export const GRAM_BYTES = 4
export const GRAM_BITS_MAX = 1 << 17
const HASH_FACTOR = 0x9e3779b1 | 0
const TEXT_AT = GRAM_BITS_MAX / 8
const VECTOR_BYTES = 16
/** Bits and text should stay in the first-level cache. */
const PIECE_BYTES = 8 * 1024
const PAGES = 1

/** @param gram the four bytes of a run in lower case, little-endian @returns a hash whose highest bits say which bit is set */
export const gramHash = (gram: number): number => Math.imul(gram, HASH_FACTOR) >>> 0

const END: Local = 0 // the parameters: where the text ends, and how many bits of a hash are left out
const SHIFT: Local = 1
const AT: Local = 2
const PLACES: Local = 3 // bit i: a run begins at AT + i
const HASH: Local = 4
const BYTES: Local = 5
const LOWER: Local = 6
const LOCALS = { parameters: 2, i32: 3, v128: 2 }

const NONE = constant(Array.from({ length: VECTOR_BYTES }, () => 0))
const byte = (text: string): Code => splatByte(i32(text.charCodeAt(0)))
const isWithin = (value: Code, first: string, last: string): Code =>
  bytesAtMost(bytesSubtract(value, byte(first)), splatByte(i32(last.charCodeAt(0) - first.charCodeAt(0))))

const fold: Code = [
  set(BYTES, load(get(AT), 0)),
  set(LOWER, or(get(BYTES), byte(' '))), // in lower case, if it is a letter
  store(
    get(AT),
    0,
    or(
      and(isWithin(get(LOWER), 'a', 'z'), get(LOWER)),
      and(or(isWithin(get(BYTES), '0', '9'), bytesEqual(get(BYTES), byte('_'))), get(BYTES)),
    ),
  ),
]

const runs = [0, 1, 2, 3].map((i) => bytesDiffer(load(get(AT), i), NONE)).reduce(and)
const bitOfRun: Code = [
  set(
    HASH,
    i32ShiftRightBy(
      i32Multiply(i32Load(i32Add(get(AT), i32TrailingZeros(get(PLACES))), 0), i32(HASH_FACTOR)),
      get(SHIFT),
    ),
  ),
  set(PLACES, i32And(get(PLACES), i32Subtract(get(PLACES), i32(1)))),
]
const byteOfBit = i32ShiftRightBy(get(HASH), i32(3))
const setBit: Code = i32Store8(
  byteOfBit,
  0,
  i32Or(i32Load8(byteOfBit, 0), i32ShiftLeftBy(i32(1), i32And(get(HASH), i32(7)))),
)

const overText = (body: Code): Code => [
  set(AT, i32(TEXT_AT)),
  doWhile([body, set(AT, i32Add(get(AT), i32(VECTOR_BYTES)))], i32Less(get(AT), get(END))),
]

const code = (): Code => [
  overText(fold),
  overText([set(PLACES, highBits(runs)), when(get(PLACES), doWhile([bitOfRun, setBit], get(PLACES)))]),
]

const instantiate = loopOf(code, LOCALS, PAGES)
let shared: { readonly run: (...operands: number[]) => void; readonly memory: Buffer } | null = null

function instance(): NonNullable<typeof shared> {
  if (shared === null) {
    const { run, memory } = instantiate()
    shared = { run, memory: Buffer.from(memory.buffer) }
  }
  return shared
}

/**
 * @param bits     written over; their number is a power of two, GRAM_BITS_MAX at most
 * @param bytes    text whose runs are set
 */
export function setGramBits(bits: Uint32Array, bytes: Uint8Array): void {
  const bitCount = 32 * bits.length
  assert(bitCount <= GRAM_BITS_MAX && (bitCount & (bitCount - 1)) === 0)
  const { run, memory } = instance()
  memory.fill(0, 0, bitCount / 8)
  for (let from = 0; from + GRAM_BYTES <= bytes.byteLength; from += PIECE_BYTES - GRAM_BYTES + 1) {
    const end = copyBytes(bytes.subarray(from, from + PIECE_BYTES), memory, TEXT_AT)
    memory.fill(0, end, end + 2 * VECTOR_BYTES)
    run(end, Math.clz32(bitCount) + 1)
  }
  bits.set(new Uint32Array(memory.buffer, memory.byteOffset, bits.length))
}
