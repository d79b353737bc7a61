/** CRC-32, as zlib has it. Source: RFC 1952, section 8. */
import { crc32 as crc32OfZlib } from 'node:zlib'
import { CrcCombiner } from './crc-combine.ts'
import { Crc } from './crc.ts'
import type { CrcDefinition } from './crc.ts'

export const CRC32: CrcDefinition = {
  widthBits: 32,
  polynomial: 0x04c1_1db7n,
  distances: [181, 199, 255, 263, 274],
}

/** node:zlib is faster for fewer bytes; more take half the time or less here. */
const LONG_BYTES = 4096

const crc = new Crc(CRC32)
const combiner = new CrcCombiner(32, 0xedb8_8320n)

/**
 * @param bytes  may be over a SharedArrayBuffer, and must not change meanwhile
 * @param before CRC of the bytes before them
 */
export function crc32(bytes: Uint8Array, before = 0): number {
  if (bytes.byteLength >= LONG_BYTES) return crc.ofBits32(bytes, before)
  return bytes.byteLength === 0 ? before : crc32OfZlib(bytes, before) // zlib's begins anew at memory of no bytes
}

/** @param secondBytes length of what `second` is the CRC of */
export const combineCrc32 = (first: number, second: number, secondBytes: number): number =>
  Number(combiner.combine(BigInt(first), BigInt(second), secondBytes))
