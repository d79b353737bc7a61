/**
 * Reflected CRCs of up to 64 bits that begin and end with all ones, several gigabytes a second, in WebAssembly: without tables
 * for most of a message, and without the carry-less multiplication that WebAssembly does not have.
 *
 * A message is a polynomial over GF(2), its first byte the highest power, and its CRC the remainder by a generator. A multiple of
 * the generator is a message whose CRC is zero, so adding it anywhere changes nothing. Multiples that have very few terms, all
 * of them powers of x^8, let bytes be taken away from the front by adding them, by xor, to bytes further on:
 *
 *   x^(8·D) + Σ x^(8·(D - d)) is a multiple, d in distances, D the longest   =>   a byte may move to all its distances at once
 *
 * Sixteen bytes move in one step, so a byte costs as many loads as there are distances, divided by sixteen. What is left in
 * the end, a little more than D bytes, goes through tables, sixteen bytes a step: the second eight do not wait for what came before. Linear memory, integers little-endian:
 *
 *   offset           bytes  area     meaning
 *        0               8  state    u64, the inverted CRC so far; in and out
 *       16           32768  tables   16 of 256 u64: table k has the remainders of a byte with k bytes of zeros behind it
 *        …           reach  before   zeros: the bytes before the message, for distances that begin there
 *        …           moved  message  the part that is moved on
 *        …           reach  gap      zeros: where the message went on, so that nothing but the part before it moves
 *        …            rest  rest     the part that takes up what comes, and is reduced by the tables
 *
 * An instance keeps nothing between messages, so one serves all messages of a thread.
 *
 * C1  reach is the longest distance, rounded up to the 64 bytes of one turn of the loop; rest is not below the longest distance,
 *     so nothing moves behind the message.
 * C2  every distance is 64 bytes or more: what a turn of the loop reads, an earlier one has written.
 *
 * Source of the idea: Sam Russell, "Chorba: A novel CRC32 implementation", 2024, arXiv:2412.16398. The distances of a generator are
 * found by search, and are as good as proven by one division (test/native-free-codecs/crc.test.ts).
 */
import assert from 'node:assert/strict'
import { copyBytes } from './copy-bytes.ts'
import {
  doWhile,
  get,
  i32,
  i32Add,
  i32And,
  i32Less,
  i32Of,
  i32ShiftLeft,
  i32Subtract,
  i64,
  i64Load,
  i64Load8,
  i64ShiftRight,
  i64Store,
  i64Xor,
  load,
  loopOf,
  set,
  store,
  when,
  xor,
} from './wasm-assembler.ts'
import type { Code, Local } from './wasm-assembler.ts'

export interface CrcDefinition {
  readonly widthBits: 32 | 64
  /** The generator without its highest power; bit i is the coefficient of x^i. */
  readonly polynomial: bigint
  /** See above; in bytes, any order. */
  readonly distances: readonly number[]
}

const STATE_AT = 0
const TABLES_AT = 16
const TABLES = 16
const TABLE_BYTES = 256 * 8
const BEFORE_AT = TABLES_AT + TABLES * TABLE_BYTES
const VECTOR_BYTES = 16
const TURN_BYTES = 4 * VECTOR_BYTES
const PAGE_BYTES = 64 * 1024

/** A longer message goes piece by piece: the memory should stay in the second-level cache. */
const PIECE_BYTES = 128 * 1024

const START: Local = 0 // the parameters
const MOVED: Local = 1
const REST: Local = 2
const AT: Local = 3 // address; in the vector loops `reach` below the one meant, as offsets cannot be negative
const END: Local = 4 // address that ends a loop
const STATE: Local = 5
const NEXT: Local = 6
const LOCALS = { parameters: 3, i32: 2, i64: 2 }

/** Address, less TABLES_AT, of the entry of table 0 for byte number `byte` of a word. */
const entryOf = (word: Local, byte: number): Code =>
  byte === 0
    ? i32And(i32ShiftLeft(i32Of(get(word)), 3), i32(0x7f8))
    : i32And(i32Of(i64ShiftRight(get(word), 8 * byte - 3)), i32(0x7f8))

/** Remainder of the eight bytes of a word with so many bytes of zeros behind them. */
const remainderOf = (word: Local, zeros: number): Code =>
  Array.from({ length: 8 }, (_, byte) =>
    i64Load(entryOf(word, byte), TABLES_AT + (zeros + 7 - byte) * TABLE_BYTES),
  ).reduce(i64Xor)

const sixteenBytes: Code = [
  set(NEXT, i64Load(get(AT), 8)),
  set(STATE, i64Xor(get(STATE), i64Load(get(AT), 0))),
  set(STATE, i64Xor(remainderOf(NEXT, 0), remainderOf(STATE, 8))),
]

const oneByte: Code = [
  set(STATE, i64Xor(get(STATE), i64Load8(get(AT), 0))),
  set(STATE, i64Xor(i64Load(entryOf(STATE, 0), TABLES_AT), i64ShiftRight(get(STATE), 8))),
]

/** Runs the body for AT, AT + step, … as long as it is below END; not at all if it is not. */
const upToEnd = (body: Code, step: number): Code => {
  const below = i32Less(get(AT), get(END))
  return when(below, doWhile([body, set(AT, i32Add(get(AT), i32(step)))], below))
}

/** One turn of a vector loop: what moves to each 16 bytes is added to them, and to `onto` bytes behind them if that is not 0. */
const turn = (distances: readonly number[], reach: number, onto: number): Code =>
  Array.from({ length: TURN_BYTES / VECTOR_BYTES }, (_, i) => {
    const at = reach + VECTOR_BYTES * i
    const moving = distances.map((distance) => load(get(AT), at - distance))
    return store(get(AT), at + onto, [load(get(AT), at + onto), ...moving].reduce(xor))
  })

/** run(start, moved, rest): moved is a multiple of TURN_BYTES, 0 for a message that is all rest and then begins at start. */
const codeOf = (distances: readonly number[], reach: number): Code => [
  set(STATE, i64Load(i32(STATE_AT), 0)),
  set(AT, get(START)),
  when(get(MOVED), [
    i64Store(get(START), 0, i64Xor(i64Load(get(START), 0), get(STATE))),
    set(STATE, i64(0)),
    set(AT, i32Subtract(get(START), i32(reach))),
    set(END, i32Add(get(AT), get(MOVED))),
    upToEnd(turn(distances, reach, 0), TURN_BYTES),
    set(END, i32Add(get(AT), i32(reach))),
    upToEnd(turn(distances, reach, reach), TURN_BYTES),
    set(AT, i32Add(get(AT), i32(reach))),
  ]),
  set(END, i32Add(get(AT), i32And(get(REST), i32(-16)))),
  upToEnd(sixteenBytes, 16),
  set(END, i32Add(get(AT), i32And(get(REST), i32(15)))),
  upToEnd(oneByte, 1),
  i64Store(i32(STATE_AT), 0, get(STATE)),
]

export class Crc {
  readonly #run: (start: number, moved: number, rest: number) => void
  readonly #bytes: Buffer
  /** The same without Buffer's `fill`, which is a call into native code. */
  readonly #plainBytes: Uint8Array
  readonly #words: BigUint64Array
  readonly #halfWords: Uint32Array
  readonly #ones: bigint
  readonly #reach: number
  readonly #longest: number
  readonly #messageAt: number

  constructor({ widthBits, polynomial, distances }: CrcDefinition) {
    assert(distances.every((distance) => distance >= TURN_BYTES)) // C2
    this.#ones = (1n << BigInt(widthBits)) - 1n
    this.#longest = Math.max(...distances)
    this.#reach = Math.ceil(this.#longest / TURN_BYTES) * TURN_BYTES
    this.#messageAt = BEFORE_AT + this.#reach
    const memoryBytes = this.#messageAt + PIECE_BYTES + 2 * this.#reach // the last vectors of the rest may be behind it
    const { run, memory } = loopOf(() => codeOf(distances, this.#reach), LOCALS, Math.ceil(memoryBytes / PAGE_BYTES))()
    this.#run = run
    this.#bytes = Buffer.from(memory.buffer)
    this.#plainBytes = new Uint8Array(memory.buffer)
    this.#words = new BigUint64Array(memory.buffer)
    this.#halfWords = new Uint32Array(memory.buffer)
    this.#words.set(remaindersOf(reflected(polynomial, widthBits)), TABLES_AT / 8)
  }

  /**
   * @param bytes may be over a SharedArrayBuffer, and must not change meanwhile
   * @param crc   of the bytes before them; 0 when there are none
   */
  of(bytes: Uint8Array, crc = 0n): bigint {
    this.#words[STATE_AT / 8] = crc ^ this.#ones
    this.#pieces(bytes)
    return this.#words[STATE_AT / 8]! ^ this.#ones
  }

  /** Like `of`, for CRCs of 32 bits or fewer: without a BigInt, which takes memory. */
  ofBits32(bytes: Uint8Array, crc: number): number {
    this.#halfWords[STATE_AT / 4] = ~crc
    this.#halfWords[STATE_AT / 4 + 1] = 0
    this.#pieces(bytes)
    return ~this.#halfWords[STATE_AT / 4]! >>> 0
  }

  #pieces(bytes: Uint8Array): void {
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
      this.#piece(bytes, from, Math.min(from + PIECE_BYTES, bytes.length))
    }
  }

  #piece(bytes: Uint8Array, from: number, to: number): void {
    const start = this.#messageAt
    const isShort = to - from < 2 * this.#reach // tables alone are as fast
    const moved = isShort ? 0 : Math.floor((to - from - this.#longest) / TURN_BYTES) * TURN_BYTES // C1
    if (isShort) copyBytes(bytes.subarray(from, to), this.#bytes, start)
    else {
      const gap = start + moved
      copyBytes(bytes.subarray(from, from + moved), this.#bytes, start)
      this.#plainBytes.fill(0, gap, gap + this.#reach)
      copyBytes(bytes.subarray(from + moved, to), this.#bytes, gap + this.#reach)
    }
    this.#run(start, moved, to - from - moved)
  }
}

/** Bit i becomes bit widthBits - 1 - i. */
function reflected(polynomial: bigint, widthBits: number): bigint {
  let result = 0n
  for (let i = 0n; i < widthBits; i++) result = (result << 1n) | ((polynomial >> i) & 1n)
  return result
}

/** The tables, one behind the other. */
function remaindersOf(generator: bigint): BigUint64Array {
  const remainders = new BigUint64Array(TABLES * 256)
  for (let byte = 0; byte < 256; byte++) {
    let remainder = BigInt(byte)
    for (let bit = 0; bit < 8; bit++) remainder = (remainder >> 1n) ^ (remainder & 1n ? generator : 0n)
    remainders[byte] = remainder
  }
  for (let i = 256; i < remainders.length; i++) {
    const before = remainders[i - 256]!
    remainders[i] = (before >> 8n) ^ remainders[Number(before & 0xffn)]!
  }
  return remainders
}
