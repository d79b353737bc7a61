/**
 * Just enough of a WebAssembly assembler to write numeric loops by hand, without a toolchain and without a binary in the tree.
 *
 * Code is a list of bytes, and of lists in it, and an expression is a function from the code of its operands to its own: `add(get(a), get(b))`
 * is "push a, push b, add", the order in which the stack machine wants it. The engine validates the result when it compiles it, so
 * a wrong type or an unbalanced stack is an error at load, never at run time.
 *
 * Source: https://webassembly.github.io/spec/core/binary/
 */

/** Bytes of instructions, or of any other piece of a module; nested, as copying them into every whole they are part of took longer than the compiler. */
export type Code = readonly (number | Code)[]

/** Index of a local of the function; the parameters come first. */
export type Local = number

const TYPE_I32 = 0x7f
const TYPE_I64 = 0x7e
const TYPE_V128 = 0x7b
const END = 0x0b
const MAGIC_AND_VERSION: Code = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]

/** LEB128 of a number in 0 .. 2^31 - 1. */
function unsigned(value: number): Code {
  const bytes: number[] = []
  for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80)
  return [...bytes, value]
}

/** Signed LEB128 of a 32-bit integer. */
function signed(value: number): Code {
  const bytes: number[] = []
  for (; value < -0x40 || value > 0x3f; value >>= 7) bytes.push((value & 0x7f) | 0x80)
  return [...bytes, value & 0x7f]
}

function bytesOf(code: Code, bytes: number[] = []): number[] {
  for (const each of code) {
    if (typeof each === 'number') bytes.push(each)
    else bytesOf(each, bytes)
  }
  return bytes
}

const vector = (items: readonly Code[]): Code => [unsigned(items.length), items]
function sized(code: Code): Code {
  const bytes = bytesOf(code)
  return [unsigned(bytes.length), bytes]
}
const name = (text: string): Code => sized([...Buffer.from(text)])
const section = (id: number, items: readonly Code[]): Code => [id, sized(vector(items))]

export const get = (local: Local): Code => [0x20, unsigned(local)]
export const set = (local: Local, value: Code): Code => [value, 0x21, unsigned(local)]
export const i32 = (value: number): Code => [0x41, signed(value)]

const scalar =
  (opcode: number) =>
  (a: Code, b: Code): Code => [a, b, opcode]

export const i32Add = scalar(0x6a)
export const i32Subtract = scalar(0x6b)
export const i32Multiply = scalar(0x6c)
export const i32And = scalar(0x71)
export const i32Or = scalar(0x72)
export const i32Xor = scalar(0x73)
export const i32ShiftLeft = (value: Code, bits: number): Code => [value, i32(bits), 0x74]
/** By as many bits as the other expression says; zeros come in. */
export const i32ShiftLeftBy = scalar(0x74)
export const i32ShiftRightBy = scalar(0x76)
export const i32RotateLeft = (value: Code, bits: number): Code => [value, i32(bits), 0x77]
/** How many zeros the number has below its lowest one. */
export const i32TrailingZeros = (value: Code): Code => [value, 0x68]
/** Unsigned; 1 or 0. */
export const i32Less = scalar(0x49)

export const i64 = (value: number): Code => [0x42, signed(value)]
export const i64Xor = scalar(0x85)
/** Zeros come in. */
export const i64ShiftRight = (value: Code, bits: number): Code => [value, i64(bits), 0x88]
/** The low half. */
export const i32Of = (value: Code): Code => [value, 0xa7]

const loadOf =
  (opcode: number) =>
  (address: Code, offset: number): Code => [address, opcode, 0, unsigned(offset)]
const storeOf =
  (opcode: number) =>
  (address: Code, offset: number, value: Code): Code => [address, value, opcode, 0, unsigned(offset)]

/** Addresses of all loads and stores need no alignment; the offset, in bytes, is added to the address. */
export const i32Load = loadOf(0x28)
export const i32Store = storeOf(0x36)
/** One byte. */
export const i32Load8 = loadOf(0x2d)
export const i32Store8 = storeOf(0x3a)
export const i64Load = loadOf(0x29)
/** One byte. */
export const i64Load8 = loadOf(0x31)
export const i64Store = storeOf(0x37)

/** Runs the body if the condition is not 0. */
export const when = (condition: Code, body: Code): Code => [condition, 0x04, 0x40, body, END]
/** Runs the body, then again for as long as the condition is not 0. */
export const doWhile = (body: Code, condition: Code): Code => [0x03, 0x40, body, condition, 0x0d, 0x00, END]
/** Ends the function. */
export const leave: Code = [0x0f]

const simd = (opcode: number): Code => [0xfd, unsigned(opcode)]
const binary =
  (opcode: number) =>
  (a: Code, b: Code): Code => [a, b, simd(opcode)]

/** Sixteen bytes. */
export const load = (address: Code, offset: number): Code => [address, simd(0), 0, unsigned(offset)]
export const store = (address: Code, offset: number, value: Code): Code => [
  address,
  value,
  simd(11),
  0,
  unsigned(offset),
]

/** @param bytes 16 of them */
export const constant = (bytes: Code): Code => [simd(12), bytes]
export const splat = (value: Code): Code => [value, simd(17)]
export const lane = (value: Code, index: number): Code => [value, simd(27), index]

/** Lane arithmetic is on four 32-bit integers, modulo 2^32; comparisons are signed and give all ones or zero. */
export const atMost = binary(61)
export const not = (value: Code): Code => [value, simd(77)]
export const and = binary(78)
/** a and not b */
export const andNot = binary(79)
export const or = binary(80)
export const xor = binary(81)
export const add = binary(174)
export const subtract = binary(177)
export const minimum = binary(182)
export const shiftLeft = (value: Code, bits: number): Code => [value, i32(bits), simd(171)]
export const shiftRight = (value: Code, bits: number): Code => [value, i32(bits), simd(173)]

/** The lowest byte of a number in each of sixteen, of which the comparisons below give all ones or zero. */
export const splatByte = (value: Code): Code => [value, simd(15)]
export const bytesEqual = binary(35)
export const bytesDiffer = binary(36)
/** Unsigned. */
export const bytesAtMost = binary(42)
export const bytesSubtract = binary(113)
/** 1 when any bit is set, else 0. */
export const anyTrue = (value: Code): Code => [value, simd(83)]
/** Bit i of the number is the highest of byte i. */
export const highBits = (value: Code): Code => [value, simd(100)]

/** Byte i of the result is byte order[i] of the value, both of 16 bytes. */
export const swizzle: (value: Code, order: Code) => Code = binary(14)

/** @param lanes four 32-bit lanes of the result: 0 to 3 are those of a, 4 to 7 those of b */
const shuffle = (a: Code, b: Code, lanes: readonly number[]): Code => [
  a,
  b,
  simd(13),
  lanes.flatMap((index) => [4 * index, 4 * index + 1, 4 * index + 2, 4 * index + 3]),
]

/** Code for i = 0 … count - 1, one after the other. */
export const times = (count: number, code: (i: number) => Code): Code =>
  Array.from({ length: count }, (_, i) => code(i))

/**
 * A 4 × 4 transposition of 32-bit words.
 *
 * @param rows    the first of 4 vectors
 * @param between the first of 4 vectors that are written over
 * @param columns the first of 4 vectors: the one with number i gets word i of each row
 */
export const transpose = (rows: Local, between: Local, columns: Local): Code => [
  set(between, shuffle(get(rows), get(rows + 1), [0, 4, 1, 5])),
  set(between + 1, shuffle(get(rows + 2), get(rows + 3), [0, 4, 1, 5])),
  set(between + 2, shuffle(get(rows), get(rows + 1), [2, 6, 3, 7])),
  set(between + 3, shuffle(get(rows + 2), get(rows + 3), [2, 6, 3, 7])),
  set(columns, shuffle(get(between), get(between + 1), [0, 1, 4, 5])),
  set(columns + 1, shuffle(get(between), get(between + 1), [2, 3, 6, 7])),
  set(columns + 2, shuffle(get(between + 2), get(between + 3), [0, 1, 4, 5])),
  set(columns + 3, shuffle(get(between + 2), get(between + 3), [2, 3, 6, 7])),
]

/** The part of the engine that is used here. Only the type library for browsers declares it. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array<ArrayBuffer>) => object
  Instance: new (module: object) => { readonly exports: WasmLoop }
}

/** One function and the memory it works on. */
interface WasmLoop {
  readonly run: (...operands: number[]) => void
  readonly memory: { readonly buffer: ArrayBuffer }
}

/** How many locals of each type a function has. Their indices come in this order; the parameters are i32. */
interface Locals {
  readonly parameters: number
  readonly i32?: number
  readonly i64?: number
  readonly v128?: number
}

/**
 * One function that takes some i32 and returns nothing. It is compiled with its first instance, as that may take as long as loading a
 * dozen modules.
 *
 * @param memoryPages  of 64 KiB, all zero at first; the memory never grows, so views of it stay valid
 * @returns makes an instance with a memory of its own; throws WebAssembly.CompileError when the body is not valid code
 */
export function loopOf(body: () => Code, locals: Locals, memoryPages: number): () => WasmLoop {
  let instantiate: (() => WasmLoop) | null = null
  return () => (instantiate ??= compile(body(), locals, memoryPages))()
}

function compile(body: Code, locals: Locals, memoryPages: number): () => WasmLoop {
  const { parameters, i32 = 0, i64 = 0, v128 = 0 } = locals
  const localTypes = vector([
    [unsigned(i32), TYPE_I32],
    [unsigned(i64), TYPE_I64],
    [unsigned(v128), TYPE_V128],
  ])
  const parameterTypes = vector(Array.from({ length: parameters }, () => [TYPE_I32]))
  const compiled = new WebAssembly.Module(
    Uint8Array.from(
      bytesOf([
        MAGIC_AND_VERSION,
        section(1, [[0x60, parameterTypes, vector([])]]), // type 0: (i32, …) -> ()
        section(3, [unsigned(0)]), // function 0 is of type 0
        section(5, [[0x01, unsigned(memoryPages), unsigned(memoryPages)]]), // memory 0: least and most pages
        section(7, [
          [name('run'), 0x00, 0],
          [name('memory'), 0x02, 0],
        ]),
        section(10, [sized([localTypes, body, END])]),
      ]),
    ),
  )
  return () => new WebAssembly.Instance(compiled).exports
}
