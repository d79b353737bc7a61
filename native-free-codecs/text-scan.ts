/**
 * Finds an ASCII text in bytes, whatever the case of either, sixteen places at a time: where four bytes of the text match, the rest is
 * compared.
 *
 *   offset  bytes  area    meaning
 *        0      4  at      u32, address of the sixteen places that were looked at last
 *        4      4  places  u32, bit i: the text may begin at place i
 *       16      …  window  a piece of the bytes, and room for what is loaded behind it
 *
 * An instance keeps nothing between calls, so one serves all texts of a thread.
 */
import { copyBytes } from './copy-bytes.ts'
import {
  and,
  anyTrue,
  bytesEqual,
  doWhile,
  get,
  highBits,
  i32,
  i32Add,
  i32Less,
  i32ShiftRightBy,
  i32Store,
  leave,
  load,
  loopOf,
  or,
  set,
  splatByte,
  when,
} from './wasm-assembler.ts'
import type { Code, Local } from './wasm-assembler.ts'

const AT_AT = 0
const PLACES_AT = 4
const WINDOW_AT = 16
const VECTOR_BYTES = 16
/** The window should stay in the first-level cache beside what is copied. */
export const SCANNED_BYTES_MAX = 16 * 1024
export const SCANNED_TEXT_MAX = 32
const PAGES = 1
/** The bit in which the two cases of a letter differ. */
const CASE_BIT = 0x20

// The parameters: addresses [AT, END), four bytes of the text from the lowest to the highest, their case bits, and where the last three are in the text.
const AT: Local = 0
const END: Local = 1
const BYTES: Local = 2
const CASES: Local = 3
const OFFSETS: Local = 4
const FOUND: Local = 7
const WANTED: Local = 8
const CASE: Local = 12
const LOCALS = { parameters: 7, v128: 9 }

const four = (code: (i: number) => Code): readonly Code[] => [0, 1, 2, 3].map(code)
const at = (i: number): Code => (i === 0 ? get(AT) : i32Add(get(AT), get(OFFSETS + i - 1)))
const equals = (i: number): Code => bytesEqual(or(load(at(i), 0), get(CASE + i)), get(WANTED + i))
const storePlaces = (places: Code): Code => [i32Store(i32(AT_AT), 0, get(AT)), i32Store(i32(PLACES_AT), 0, places)]

const code = (): Code => [
  four((i) => set(WANTED + i, splatByte(i32ShiftRightBy(get(BYTES), i32(8 * i))))),
  four((i) => set(CASE + i, splatByte(i32ShiftRightBy(get(CASES), i32(8 * i))))),
  doWhile(
    [
      set(FOUND, four(equals).reduce(and)),
      when(anyTrue(get(FOUND)), [storePlaces(highBits(get(FOUND))), leave]),
      set(AT, i32Add(get(AT), i32(VECTOR_BYTES))),
    ],
    i32Less(get(AT), get(END)),
  ),
  storePlaces(i32(0)),
]

const instantiate = loopOf(code, LOCALS, PAGES)
let shared: {
  readonly run: (...operands: number[]) => void
  readonly window: Buffer
  readonly words: Uint32Array
} | null = null

function instance(): NonNullable<typeof shared> {
  if (shared === null) {
    const { run, memory } = instantiate()
    shared = { run, window: Buffer.from(memory.buffer), words: new Uint32Array(memory.buffer) }
  }
  return shared
}

export class TextScan {
  readonly #text: Uint8Array
  readonly #bytes: number
  readonly #cases: number
  readonly #offsets: readonly number[]

  /** @param text ASCII in lower case, 1 to SCANNED_TEXT_MAX bytes */
  constructor(text: Uint8Array) {
    this.#text = text
    const last = text.length - 1
    this.#offsets = [0, last, Math.floor(last / 3), Math.floor((2 * last) / 3)]
    const inFour = (byteOf: (byte: number) => number): number =>
      this.#offsets.reduce((all, offset, i) => all | (byteOf(text[offset]!) << (8 * i)), 0)
    this.#bytes = inFour((byte) => byte)
    this.#cases = inFour((byte) => (byte >= 0x61 && byte <= 0x7a ? CASE_BIT : 0))
  }

  /** Where the text begins first, or -1. @param bytes SCANNED_BYTES_MAX at most */
  next(bytes: Uint8Array): number {
    const { run, window, words } = instance()
    copyBytes(bytes, window, WINDOW_AT)
    const [, second, third, fourth] = this.#offsets
    const end = WINDOW_AT + bytes.byteLength - this.#text.length + 1
    for (let at = WINDOW_AT; at < end; at += VECTOR_BYTES) {
      run(at, end, this.#bytes, this.#cases, second!, third!, fourth!)
      at = words[AT_AT / 4]!
      for (let places = words[PLACES_AT / 4]!; places !== 0; places &= places - 1) {
        const place = at + 31 - Math.clz32(places & -places)
        if (place < end && this.#isAt(window, place)) return place - WINDOW_AT
      }
    }
    return -1
  }

  #isAt(window: Uint8Array, place: number): boolean {
    const text = this.#text
    for (let i = 0; i < text.length; i++) {
      const wanted = text[i]!
      const byte = window[place + i]!
      if (byte !== wanted && (wanted < 0x61 || wanted > 0x7a || (byte | CASE_BIT) !== wanted)) return false
    }
    return true
  }
}
