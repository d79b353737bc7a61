/**
 * BLAKE2s-256 of all records of a batch in one call: four messages at a time, one in each 32-bit lane of a SIMD register.
 *
 *   message of a record = head (exactly one block of 64 bytes, shared by many records) · bytes of the record
 *   id                  = the first 16 bytes of its digest
 *
 * A digest of node:crypto costs as much in the call as in the hashing when a record has some hundred bytes. Here the records
 * are hashed where they stand in the batch, a head only once, and the rounds are WebAssembly, written below with the assembler
 * of wasm-assembler.ts. Linear memory of the loop, integers little-endian:
 *
 *   offset  bytes  area     meaning
 *        0    128  chain    8 vectors: word i of the chaining value of each lane
 *      128     16  address  u32 a lane: where its next block begins
 *      144     16  left     u32 a lane: bytes of its message not hashed yet
 *      160     16  hashed   u32 a lane: bytes of its message hashed so far, head included
 *      176     32  initial  8 words: the chaining value before the first block
 *      208    128  masks    64 bytes of ones, then 64 zeros
 *      384      …  heads    64 bytes each; once hashed, its chaining value stands in the first 32 bytes
 *        …      …  body     the batch as it came, then at least 64 bytes that may be read and do not matter
 *
 * B1  a block takes min(64, left) bytes, and is the last of its lane exactly when left <= 64.
 * B2  what a block reads beyond its bytes is masked to zero: padding is never copied, and what an earlier batch left in
 *     memory never reaches a digest.
 * B3  a lane is read after exactly ceil(left / 64) blocks and then takes the next record: lanes never wait for each other.
 *     A lane without a record has left = 0, so it stays where it is and what it computes is thrown away.
 * B4  the bytes hashed fit one word of the counter, as a message is shorter than the memory.
 *
 * Source: RFC 7693, section 3; without key, salt or personalization. The digest is that of 'blake2s256' in node:crypto, which
 * hashes whatever does not fit here.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { copyBytes } from './copy-bytes.ts'
import { RECORDS_PER_BATCH_MAX } from './otlp-batch.ts'
import {
  add,
  and,
  atMost,
  constant,
  doWhile,
  get,
  i32,
  i32Subtract,
  lane,
  load,
  loopOf,
  minimum,
  or,
  set,
  shiftLeft,
  shiftRight,
  splat,
  store,
  subtract,
  swizzle,
  times,
  transpose,
  xor,
} from './wasm-assembler.ts'
import type { Code, Local } from './wasm-assembler.ts'

export const HEAD_BYTES = 64
const BLOCK_BYTES = 64
const LANES = 4

const CHAIN_AT = 0
const ADDRESS_AT = 128
const LEFT_AT = 144
const HASHED_AT = 160
const INITIAL_AT = 176
const MASKS_AT = 208
const HEADS_AT = 384
const MEMORY_PAGES = 18
const MEMORY_BYTES = MEMORY_PAGES * 64 * 1024

/** Heads and body together: room for 1 MiB of body with 2000 heads. The records of a larger batch go to node:crypto. */
export const BATCH_BYTES_MAX = MEMORY_BYTES - HEADS_AT - BLOCK_BYTES

/** A longer record goes to node:crypto: its call costs little beside the hashing, and one lane alone, the others empty, is slower. */
export const RECORD_BYTES_MAX = 16 * 1024
const RECORD_BLOCKS_MAX = RECORD_BYTES_MAX / BLOCK_BYTES

const IV = [
  0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
] as const
/** Word 0 of the parameter block: a digest of 32 bytes, no key, fan-out 1, depth 1. The other words are 0. */
const PARAMETERS = 0x0101_0020

/** Per round: which word of the message goes in, two for each of the eight mixings. */
const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
] as const
/** Which words of the working vector are mixed: columns of the 4 × 4 matrix, then its diagonals. */
const MIXINGS = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
] as const

// ---- the loop: locals hold a vector each, lane i of which belongs to message i

const BLOCKS: Local = 0 // the parameter: blocks to go
const WORKING: Local = 1 // 16 vectors, v[0..15] of the RFC
const MESSAGE: Local = 17 // 16 vectors, m[0..15]
const ROW: Local = 33 // 4 vectors: 16 bytes of each message
const PAIR: Local = 37 // 4 vectors: half-way from rows to words
const ADDRESS: Local = 41
const LEFT: Local = 42
const HASHED: Local = 43
const TAKEN: Local = 44 // bytes in this block
const MASK: Local = 45 // where the block's mask begins
const ORDER_16: Local = 46 // swizzles that rotate by 16 and by 8 bits
const ORDER_8: Local = 47
const V128_LOCALS = 47

const word = (value: number): Code => splat(i32(value | 0))

const rotation = (bytes: number): Code => constant(Array.from({ length: 16 }, (_, i) => (i & ~3) | ((i + bytes) & 3)))
const rotateBy = (local: Local, bits: number): Code =>
  set(local, or(shiftRight(get(local), bits), shiftLeft(get(local), 32 - bits)))
const addTo = (local: Local, value: Code): Code => set(local, add(value, get(local)))
const xorTo = (local: Local, value: Code): Code => set(local, xor(value, get(local)))

/** The function G: x and y are the two words of the message. */
const mix = (a: Local, b: Local, c: Local, d: Local, x: Local, y: Local): Code => [
  set(a, add(add(get(a), get(x)), get(b))), // b comes last out of the step before
  xorTo(d, get(a)),
  set(d, swizzle(get(d), get(ORDER_16))),
  addTo(c, get(d)),
  xorTo(b, get(c)),
  rotateBy(b, 12),
  set(a, add(add(get(a), get(y)), get(b))),
  xorTo(d, get(a)),
  set(d, swizzle(get(d), get(ORDER_8))),
  addTo(c, get(d)),
  xorTo(b, get(c)),
  rotateBy(b, 7),
]

const rounds = (): Code =>
  SIGMA.map((sigma) =>
    MIXINGS.map(([a, b, c, d], i) =>
      mix(WORKING + a, WORKING + b, WORKING + c, WORKING + d, MESSAGE + sigma[2 * i]!, MESSAGE + sigma[2 * i + 1]!),
    ),
  )

/** Words 4 · quarter to 4 · quarter + 3 of the four messages: 16 masked bytes of each (B2), then a 4 × 4 transposition. */
const loadQuarter = (quarter: number): Code => [
  times(LANES, (i) =>
    set(ROW + i, and(load(lane(get(ADDRESS), i), 16 * quarter), load(lane(get(MASK), i), 16 * quarter))),
  ),
  transpose(ROW, PAIR, MESSAGE + 4 * quarter),
]

const chain = (i: number): Code => load(i32(CHAIN_AT), 16 * i)

/** One block of each lane, the function F. */
const compress = (): Code => [
  set(TAKEN, minimum(get(LEFT), word(BLOCK_BYTES))), // B1
  set(MASK, subtract(word(MASKS_AT + BLOCK_BYTES), get(TAKEN))),
  addTo(HASHED, get(TAKEN)),
  times(4, loadQuarter),
  times(8, (i) => set(WORKING + i, chain(i))),
  times(8, (i) => set(WORKING + 8 + i, word(IV[i]!))),
  xorTo(WORKING + 12, get(HASHED)), // word 13 takes the high half of the counter, which is 0 (B4)
  xorTo(WORKING + 14, atMost(get(LEFT), word(BLOCK_BYTES))), // ones in the last block (B1)
  rounds(),
  times(8, (i) => store(i32(CHAIN_AT), 16 * i, xor(chain(i), xor(get(WORKING + i), get(WORKING + 8 + i))))),
  addTo(ADDRESS, get(TAKEN)),
  set(LEFT, subtract(get(LEFT), get(TAKEN))),
]

/** run(n): the next n blocks of each lane, n >= 1. */
const newLoop = loopOf(
  () => [
    set(ADDRESS, load(i32(ADDRESS_AT), 0)),
    set(LEFT, load(i32(LEFT_AT), 0)),
    set(HASHED, load(i32(HASHED_AT), 0)),
    set(ORDER_16, rotation(2)),
    set(ORDER_8, rotation(1)),
    doWhile([compress(), set(BLOCKS, i32Subtract(get(BLOCKS), i32(1)))], get(BLOCKS)),
    store(i32(ADDRESS_AT), 0, get(ADDRESS)),
    store(i32(LEFT_AT), 0, get(LEFT)),
    store(i32(HASHED_AT), 0, get(HASHED)),
  ],
  { parameters: 1, v128: V128_LOCALS },
  MEMORY_PAGES,
)

// ---- a batch: which record is in which lane

const NO_RECORD = -1
const MORE_TO_COME = BLOCK_BYTES + 1 // as `left` of a head: it is never the last block (B1)

export class BatchHasher {
  readonly #run: (blocks: number) => void
  readonly #bytes: Buffer
  readonly #words: Int32Array
  /** Per lane. */
  readonly #record = new Int32Array(LANES)
  readonly #blocksLeft = new Int32Array(LANES)
  /** The records to hash here, see #sortByBlocks. */
  readonly #order = new Uint16Array(RECORDS_PER_BATCH_MAX)
  readonly #placeOfBlocks = new Uint32Array(RECORD_BLOCKS_MAX + 1)

  constructor() {
    const { run, memory } = newLoop()
    this.#run = run
    this.#bytes = Buffer.from(memory.buffer)
    this.#words = new Int32Array(memory.buffer)
    this.#bytes.fill(0xff, MASKS_AT, MASKS_AT + BLOCK_BYTES)
    this.#words.set(IV, INITIAL_AT / 4)
    this.#words[INITIAL_AT / 4] = IV[0] ^ PARAMETERS
  }

  /**
   * Writes the id of each record as four big-endian words: that of record i into ids[4i .. 4i + 4).
   *
   * @param ids          room for recordCount of them, at most RECORDS_PER_BATCH_MAX
   * @param body         the batch; may be over a SharedArrayBuffer, and must not change meanwhile
   * @param recordStart  per record, offset of its first byte in the body
   * @param recordEnd    per record, offset after its last byte; may be equal to the start
   * @param recordHead   per record, index of its head
   * @param heads        headCount of them, 64 bytes each, back to back
   */
  idsInto(
    ids: Uint32Array,
    body: Uint8Array,
    recordStart: Uint32Array,
    recordEnd: Uint32Array,
    recordHead: Uint16Array,
    heads: Uint8Array,
    headCount: number,
    recordCount: number,
  ): void {
    assert(heads.length >= HEAD_BYTES * headCount)
    assert(ids.length >= 4 * recordCount)
    assert(recordCount <= RECORDS_PER_BATCH_MAX)
    const bodyAt = HEADS_AT + HEAD_BYTES * headCount
    const batchFits = HEAD_BYTES * headCount + body.length <= BATCH_BYTES_MAX
    for (let record = 0; record < recordCount; record++) {
      const start = recordStart[record]!
      const end = recordEnd[record]!
      if (start > end || end > body.length || recordHead[record]! >= headCount) assert.fail(`record ${record}`)
      if (!batchFits || !recordFits(end - start)) {
        digestIdInto(ids, 4 * record, heads, HEAD_BYTES * recordHead[record]!, body, start, end)
      }
    }
    if (!batchFits) return
    this.#bytes.set(heads.subarray(0, HEAD_BYTES * headCount), HEADS_AT)
    copyBytes(body, this.#bytes, bodyAt)
    this.#hashHeads(headCount)

    const orderCount = this.#sortByBlocks(recordStart, recordEnd, recordCount)
    let next = 0
    this.#record.fill(NO_RECORD)
    this.#blocksLeft.fill(0)
    for (;;) {
      let blocks = 0 // until the first lane has ended; 0: no lane has a record
      for (let lane = 0; lane < LANES; lane++) {
        if (this.#blocksLeft[lane] === 0) {
          if (this.#record[lane] !== NO_RECORD) this.#readId(lane, ids, 4 * this.#record[lane]!)
          if (next === orderCount) {
            this.#record[lane] = NO_RECORD
            this.#words[LEFT_AT / 4 + lane] = 0 // B3
            continue
          }
          const record = this.#order[next++]!
          const start = recordStart[record]!
          const bytes = recordEnd[record]! - start
          this.#begin(lane, HEADS_AT + HEAD_BYTES * recordHead[record]!, bodyAt + start, bytes, HEAD_BYTES)
          this.#blocksLeft[lane] = blocksOf(bytes)
          this.#record[lane] = record
        }
        if (blocks === 0 || this.#blocksLeft[lane]! < blocks) blocks = this.#blocksLeft[lane]!
      }
      if (blocks === 0) return
      this.#run(blocks)
      for (let lane = 0; lane < LANES; lane++) {
        if (this.#record[lane] !== NO_RECORD) this.#blocksLeft[lane]! -= blocks
      }
    }
  }

  /**
   * Puts the records that fit in order, most blocks first: lanes then mostly end together, which saves calls of the loop, and
   * few are without a record at the end. Counting sort.
   *
   * @returns number of records in order
   */
  #sortByBlocks(recordStart: Uint32Array, recordEnd: Uint32Array, recordCount: number): number {
    const places = this.#placeOfBlocks.fill(0)
    for (let record = 0; record < recordCount; record++) {
      const bytes = recordEnd[record]! - recordStart[record]!
      if (recordFits(bytes)) places[blocksOf(bytes)]!++
    }
    let place = 0
    for (let blocks = RECORD_BLOCKS_MAX; blocks > 0; blocks--) {
      const count = places[blocks]!
      places[blocks] = place
      place += count
    }
    for (let record = 0; record < recordCount; record++) {
      const bytes = recordEnd[record]! - recordStart[record]!
      if (recordFits(bytes)) this.#order[places[blocksOf(bytes)]!++] = record
    }
    return place
  }

  /** Puts the chaining value of each head where the head was. */
  #hashHeads(headCount: number): void {
    for (let first = 0; first < headCount; first += LANES) {
      const count = Math.min(LANES, headCount - first)
      for (let lane = 0; lane < LANES; lane++) {
        const head = first + Math.min(lane, count - 1)
        this.#begin(lane, INITIAL_AT, HEADS_AT + HEAD_BYTES * head, MORE_TO_COME, 0)
      }
      this.#run(1)
      for (let lane = 0; lane < count; lane++) {
        const at = (HEADS_AT + HEAD_BYTES * (first + lane)) / 4
        for (let i = 0; i < 8; i++) this.#words[at + i] = this.#words[LANES * i + lane]!
      }
    }
  }

  /** @param chainAt address of the chaining value to begin with; address, left and hashed as in the table above */
  #begin(lane: number, chainAt: number, address: number, left: number, hashed: number): void {
    const words = this.#words
    const at = chainAt / 4
    for (let i = 0; i < 8; i++) words[LANES * i + lane] = words[at + i]!
    words[ADDRESS_AT / 4 + lane] = address
    words[LEFT_AT / 4 + lane] = left
    words[HASHED_AT / 4 + lane] = hashed
  }

  #readId(lane: number, ids: Uint32Array, at: number): void {
    for (let i = 0; i < 4; i++) {
      const word = this.#words[LANES * i + lane]!
      ids[at + i] = (word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24)
    }
  }
}

/** An empty record does not fit, as its head would be the last block. */
const recordFits = (bytes: number): boolean => bytes > 0 && bytes <= RECORD_BYTES_MAX

const blocksOf = (bytes: number): number => (bytes + BLOCK_BYTES - 1) >>> 6

/** One id through node:crypto: of heads[headAt .. headAt + 64) and body[start .. end) into ids[at .. at + 4). */
function digestIdInto(
  ids: Uint32Array,
  at: number,
  heads: Uint8Array,
  headAt: number,
  body: Uint8Array,
  start: number,
  end: number,
): void {
  const head = heads.subarray(headAt, headAt + HEAD_BYTES)
  const digest = createHash('blake2s256').update(head).update(body.subarray(start, end)).digest()
  for (let i = 0; i < 4; i++) ids[at + i] = digest.readUInt32BE(4 * i)
}
