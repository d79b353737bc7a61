/**
 * MD5 of several messages at a time, one in each 32-bit lane of a SIMD register, and two registers in turn: a step of MD5 waits for the step
 * before, so that one message alone leaves most of a core unused. Messages are hashed piece by piece, as their bytes come, alone or with others.
 *
 * The rounds are WebAssembly, written below with the assembler of wasm-assembler.ts. Linear memory, integers little-endian:
 *
 *   offset  bytes  area       meaning
 *        0    128  chain      4 vectors a register: word i of the chaining value of each lane; in and out
 *      128     32  address    u32 a lane: where its blocks begin
 *      160   1024  constants  64 vectors, T[1..64] of the RFC
 *        …      …  pieces     MD5_LANES of them, each PIECE_BYTES and a gap: addresses 4 KiB apart would get into each other's way
 *
 * Lanes without a message are hashed too, and their results ignored. An instance keeps nothing between calls, so one serves all messages of a
 * thread.
 *
 * M2  a message alone goes through scalar code, whose steps are shorter
 *
 * Source: RFC 1321, section 3. The digest is that of 'md5' in node:crypto.
 */
import assert from 'node:assert/strict'
import { copyBytes } from './copy-bytes.ts'
import {
  add,
  and,
  andNot,
  doWhile,
  get,
  i32,
  i32Add,
  i32And,
  i32Load,
  i32Or,
  i32RotateLeft,
  i32Store,
  i32Subtract,
  i32Xor,
  lane,
  load,
  loopOf,
  not,
  or,
  set,
  shiftLeft,
  shiftRight,
  splat,
  store,
  times,
  transpose,
  when,
  xor,
} from './wasm-assembler.ts'
import type { Code, Local } from './wasm-assembler.ts'

const WIDTH = 4
/** How many sets of vectors take turns, so that the steps of one overlap with those of the other. */
const REGISTERS = 2
/** Messages at a time. */
export const MD5_LANES = REGISTERS * WIDTH

const BLOCK_BYTES = 64
const DIGEST_BYTES = 16
const STEPS = 64

/** How much of each message is copied in at a time: the pieces of all messages together should fit the second-level cache. */
const PIECE_BYTES = 16 * 1024
const GAP_BYTES = 192

const CHAIN_AT = 0
const ADDRESS_AT = CHAIN_AT + 16 * MD5_LANES
const CONSTANTS_AT = ADDRESS_AT + 4 * MD5_LANES
const PIECES_AT = CONSTANTS_AT + 16 * STEPS
const MEMORY_PAGES = Math.ceil((PIECES_AT + MD5_LANES * (PIECE_BYTES + GAP_BYTES)) / (64 * 1024))

const INITIAL = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476] as const
const constants = Int32Array.from({ length: STEPS }, (_, step) => Math.floor(2 ** 32 * Math.abs(Math.sin(step + 1))))
/** By round: bits of the rotations, taken in turn. */
const ROTATIONS = [
  [7, 12, 17, 22],
  [5, 9, 14, 20],
  [4, 11, 16, 23],
  [6, 10, 15, 21],
] as const
/** By round: which word of the block goes in at a step. */
const WORDS: readonly ((step: number) => number)[] = [
  (step) => step,
  (step) => (5 * step + 1) % 16,
  (step) => (3 * step + 5) % 16,
  (step) => (7 * step) % 16,
]

const BOTH: Local = 0 // the parameters: blocks of all lanes, blocks of those of register 0, blocks of lane 0 alone
const FIRST: Local = 1
const ALONE: Local = 2
const AT: Local = 3 // address of the block of lane 0
const ONE: Local = 4 // 4 words, a to d of lane 0
const BEFORE: Local = 8 // 4 words: as they were before the block
const ROW: Local = 12 // 4 vectors: 16 bytes of each block
const PAIR: Local = 16 // 4 vectors: half-way from rows to words
/** The locals of one set of vectors. */
interface Vectors {
  readonly register: number
  /** 4 vectors, a to d of its lanes. */
  readonly all: Local
  readonly before: Local
  /** 16 vectors, the words of the blocks. */
  readonly message: Local
  readonly address: Local
}
const vectorsOf = (register: number): Vectors => {
  const all = 20 + 25 * register
  return { register, all, before: all + 4, message: all + 8, address: all + 24 }
}
const LOCALS = { parameters: 3, i32: 9, v128: 8 + 25 * REGISTERS }

/**
 * The functions F, G, H and I, for vectors and for words, as terms of a sum. The step before writes b last, so little has to be done once b is
 * known. G is a sum as its terms have no bit in common.
 */
const TERMS: readonly ((b: Code, c: Code, d: Code) => readonly Code[])[] = [
  (b, c, d) => [xor(d, and(b, xor(c, d)))],
  (b, c, d) => [andNot(c, d), and(b, d)],
  (b, c, d) => [xor(b, xor(c, d))],
  (b, c, d) => [xor(c, or(b, not(d)))],
]
const WORD_TERMS: readonly ((b: Code, c: Code, d: Code) => readonly Code[])[] = [
  (b, c, d) => [i32Xor(d, i32And(b, i32Xor(c, d)))],
  (b, c, d) => [i32And(c, i32Xor(d, i32(-1))), i32And(b, d)],
  (b, c, d) => [i32Xor(b, i32Xor(c, d))],
  (b, c, d) => [i32Xor(c, i32Or(b, i32Xor(d, i32(-1))))],
]

interface Step {
  readonly round: number
  readonly word: number
  readonly bits: number
  /** Which of a to d has which part: the first is written. */
  readonly parts: readonly [a: number, b: number, c: number, d: number]
}

const steps: readonly Step[] = Array.from({ length: STEPS }, (_, step) => {
  const round = step >> 4
  const first = (STEPS - step) & 3
  return {
    round,
    word: WORDS[round]!(step & 15),
    bits: ROTATIONS[round]![step & 3]!,
    parts: [first, (first + 1) & 3, (first + 2) & 3, (first + 3) & 3],
  }
})

/** One step for all lanes of a set of vectors. */
const vectorStep = (
  { all, message }: Vectors,
  { round, word, bits, parts: [a, b, c, d] }: Step,
  step: number,
): Code => {
  const known = add(add(get(all + a), load(i32(CONSTANTS_AT), 16 * step)), get(message + word))
  const terms = TERMS[round]!(get(all + b), get(all + c), get(all + d))
  return [
    set(all + a, [known, ...terms].reduce(add)),
    set(all + a, add(or(shiftLeft(get(all + a), bits), shiftRight(get(all + a), 32 - bits)), get(all + b))),
  ]
}

/** One step for lane 0 alone. */
const wordStep = ({ round, word, bits, parts: [a, b, c, d] }: Step, step: number): Code => {
  const known = i32Add(i32Add(get(ONE + a), i32(constants[step]!)), i32Load(get(AT), 4 * word))
  const terms = WORD_TERMS[round]!(get(ONE + b), get(ONE + c), get(ONE + d))
  return set(ONE + a, i32Add(i32RotateLeft([known, ...terms].reduce(i32Add), bits), get(ONE + b)))
}

/** Words 4 · quarter to 4 · quarter + 3 of the four blocks: 16 bytes of each, then a 4 × 4 transposition. */
const loadQuarter = ({ message, address }: Vectors, quarter: number): Code => [
  times(WIDTH, (i) => set(ROW + i, load(lane(get(address), i), 16 * quarter))),
  transpose(ROW, PAIR, message + 4 * quarter),
]

/** @param blocks number of blocks, for the lanes of the first `registers` registers */
const blocksTogether = (registers: number, blocks: Local): Code => {
  const each = (code: (vectors: Vectors) => Code): Code => times(registers, (register) => code(vectorsOf(register)))
  return [
    each(({ register, all, address }) => [
      times(4, (i) => set(all + i, load(i32(CHAIN_AT), 64 * register + 16 * i))),
      set(address, load(i32(ADDRESS_AT), 16 * register)),
    ]),
    doWhile(
      [
        each((vectors) => times(4, (quarter) => loadQuarter(vectors, quarter))),
        each(({ all, before }) => times(4, (i) => set(before + i, get(all + i)))),
        steps.map((step, i) => each((vectors) => vectorStep(vectors, step, i))),
        each(({ all, before, address }) => [
          times(4, (i) => set(all + i, add(get(all + i), get(before + i)))),
          set(address, add(get(address), splat(i32(BLOCK_BYTES)))),
        ]),
        set(blocks, i32Subtract(get(blocks), i32(1))),
      ],
      get(blocks),
    ),
    each(({ register, all }) => times(4, (i) => store(i32(CHAIN_AT), 64 * register + 16 * i, get(all + i)))),
  ]
}

const blocksAlone = (): Code => [
  times(4, (i) => set(ONE + i, i32Load(i32(CHAIN_AT), 16 * i))),
  set(AT, i32Load(i32(ADDRESS_AT), 0)),
  doWhile(
    [
      times(4, (i) => set(BEFORE + i, get(ONE + i))),
      steps.map(wordStep),
      times(4, (i) => set(ONE + i, i32Add(get(ONE + i), get(BEFORE + i)))),
      set(AT, i32Add(get(AT), i32(BLOCK_BYTES))),
      set(ALONE, i32Subtract(get(ALONE), i32(1))),
    ],
    get(ALONE),
  ),
  times(4, (i) => i32Store(i32(CHAIN_AT), 16 * i, get(ONE + i))),
]

/** run(both, first, alone): so many blocks of all lanes, of those of register 0, or of lane 0. */
const newLoop = loopOf(
  () => [
    when(get(BOTH), blocksTogether(REGISTERS, BOTH)),
    when(get(FIRST), blocksTogether(1, FIRST)),
    when(get(ALONE), blocksAlone()),
  ],
  LOCALS,
  MEMORY_PAGES,
)

/** The state of a message that is being hashed. */
export class Md5Message {
  readonly chain = Int32Array.from(INITIAL)
  /** The last bytes of the message so far, which do not fill a block yet. */
  readonly rest = Buffer.alloc(BLOCK_BYTES)
  bytes = 0

  get restBytes(): number {
    return this.bytes % BLOCK_BYTES
  }
}

/** The next bytes of a message. */
export interface Md5Update {
  readonly message: Md5Message
  /** May be over a SharedArrayBuffer, and must not change meanwhile. */
  readonly bytes: Uint8Array
}

/** Whole blocks of a message, not hashed yet. */
interface Lane {
  readonly chain: Int32Array
  readonly bytes: Uint8Array
  at: number
  blocks: number
}

export class Md5Hasher {
  readonly #run: (both: number, first: number, alone: number) => void
  readonly #bytes: Buffer
  /** The same without Buffer's `fill`, which is a call into native code. */
  readonly #plainBytes: Uint8Array
  readonly #words: Int32Array
  readonly #digest = Buffer.alloc(DIGEST_BYTES)

  constructor() {
    const { run, memory } = newLoop()
    this.#run = run
    this.#bytes = Buffer.from(memory.buffer)
    this.#plainBytes = new Uint8Array(memory.buffer)
    this.#words = new Int32Array(memory.buffer)
    constants.forEach((constant, step) =>
      this.#words.fill(constant, CONSTANTS_AT / 4 + 4 * step, CONSTANTS_AT / 4 + 4 * step + 4),
    )
    for (let i = 0; i < MD5_LANES; i++) this.#words[ADDRESS_AT / 4 + i] = pieceAt(i)
  }

  /** @param updates MD5_LANES at most, of different messages */
  update(updates: readonly Md5Update[]): void {
    assert(updates.length <= MD5_LANES && new Set(updates.map(({ message }) => message)).size === updates.length)
    let lanes = updates.map((each) => this.#begin(each))
    for (;;) {
      lanes = lanes.filter(({ blocks }) => blocks > 0)
      if (lanes.length === 0) return
      this.#piece(lanes)
    }
  }

  /** Digests of 16 bytes. Called once for each message, at its end. @param messages MD5_LANES at most */
  digests(messages: readonly Md5Message[]): Buffer[] {
    this.update(messages.map((message) => ({ message, bytes: paddingOf(message) })))
    return messages.map(({ chain }) => {
      const digest = Buffer.allocUnsafe(DIGEST_BYTES)
      chain.forEach((word, i) => digest.writeInt32LE(word, 4 * i))
      return digest
    })
  }

  /**
   * Digests of whole messages, in 32 hexadecimal digits each. Nothing is allocated for a message but its digits.
   *
   * @param messages MD5_LANES at most
   */
  ofWhole(messages: readonly Uint8Array[]): string[] {
    assert(messages.length <= MD5_LANES)
    const words = this.#words
    for (let i = 0; i < MD5_LANES; i++) for (let k = 0; k < 4; k++) words[chainAt(i, k)] = INITIAL[k]!
    const digests = messages.map(() => '')
    for (let from = 0, left = messages.length; left > 0;) {
      let to = from + PIECE_BYTES
      for (const bytes of messages) if (paddedBytes(bytes) > from) to = Math.min(to, paddedBytes(bytes))
      for (let i = 0; i < messages.length; i++) {
        if (paddedBytes(messages[i]!) > from) this.#copyPadded(messages[i]!, from, to, pieceAt(i))
      }
      this.#runLanes(messages.length, (to - from) / BLOCK_BYTES)
      for (let i = 0; i < messages.length; i++) {
        if (paddedBytes(messages[i]!) !== to) continue
        for (let k = 0; k < 4; k++) this.#digest.writeInt32LE(words[chainAt(i, k)]!, 4 * k)
        digests[i] = this.#digest.toString('hex')
        left -= 1
      }
      from = to
    }
    return digests
  }

  /** The bytes [from, to) of a message with its padding. */
  #copyPadded(bytes: Uint8Array, from: number, to: number, at: number): void {
    const length = bytes.byteLength
    if (from < length) copyBytes(bytes.subarray(from, to), this.#bytes, at)
    if (to <= length) return
    const end = at + to - from
    this.#plainBytes.fill(0, at + Math.max(0, length - from), end)
    if (length >= from) this.#bytes[at + length - from] = 0x80
    if (to !== paddedBytes(bytes)) return
    this.#words[end / 4 - 2] = length << 3
    this.#words[end / 4 - 1] = length / 2 ** 29
  }

  /** Hashes the block that began before, if it is whole now, and keeps the one that is not whole at the end. */
  #begin({ message, bytes }: Md5Update): Lane {
    const { chain, rest, restBytes } = message
    message.bytes += bytes.byteLength
    let at = 0
    if (restBytes > 0) {
      at = Math.min(BLOCK_BYTES - restBytes, bytes.byteLength)
      copyBytes(bytes.subarray(0, at), rest, restBytes)
      if (restBytes + at === BLOCK_BYTES) this.#piece([{ chain, bytes: rest, at: 0, blocks: 1 }])
    }
    const blocks = Math.floor((bytes.byteLength - at) / BLOCK_BYTES)
    const end = at + blocks * BLOCK_BYTES
    if (end < bytes.byteLength) copyBytes(bytes.subarray(end), rest, 0)
    return { chain, bytes, at, blocks }
  }

  /** Hashes as many blocks as all of the lanes have, and memory has room for. */
  #piece(lanes: readonly Lane[]): void {
    const blocks = Math.min(PIECE_BYTES / BLOCK_BYTES, ...lanes.map((each) => each.blocks))
    const words = this.#words
    for (const [i, each] of lanes.entries()) {
      const end = each.at + blocks * BLOCK_BYTES
      copyBytes(each.bytes.subarray(each.at, end), this.#bytes, pieceAt(i))
      each.chain.forEach((word, k) => (words[chainAt(i, k)] = word))
      each.at = end
      each.blocks -= blocks
    }
    this.#runLanes(lanes.length, blocks)
    for (const [i, { chain }] of lanes.entries()) for (let k = 0; k < 4; k++) chain[k] = words[chainAt(i, k)]!
  }

  #runLanes(count: number, blocks: number): void {
    if (count === 1) this.#run(0, 0, blocks) // M2
    else if (count <= WIDTH) this.#run(0, blocks, 0)
    else this.#run(blocks, 0, 0)
  }
}

/** Length of a message with its padding. */
const paddedBytes = ({ byteLength }: Uint8Array): number => BLOCK_BYTES * Math.ceil((byteLength + 9) / BLOCK_BYTES)

/** Padding up to the end of a block, with the length of the message. */
function paddingOf({ bytes, restBytes }: Md5Message): Buffer {
  const padding = Buffer.alloc(BLOCK_BYTES - restBytes + (restBytes < BLOCK_BYTES - 8 ? 0 : BLOCK_BYTES))
  padding[0] = 0x80
  padding.writeBigUInt64LE(8n * BigInt(bytes), padding.byteLength - 8)
  return padding
}

const pieceAt = (index: number): number => PIECES_AT + index * (PIECE_BYTES + GAP_BYTES)

/** In words: where word k of the chaining value of a lane is. */
const chainAt = (lane: number, k: number): number =>
  CHAIN_AT / 4 + 4 * WIDTH * Math.floor(lane / WIDTH) + WIDTH * k + (lane % WIDTH)
