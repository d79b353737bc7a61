/** CRC-32C, Castagnoli's. Source: RFC 3720, appendix B.4. */
import { CrcCombiner } from './crc-combine.ts'
import { Crc } from './crc.ts'
import type { CrcDefinition } from './crc.ts'

export const CRC32C: CrcDefinition = {
  widthBits: 32,
  polynomial: 0x1edc_6f41n,
  distances: [260, 261, 266, 379, 437],
}

const crc = new Crc(CRC32C)
const combiner = new CrcCombiner(32, 0x82f6_3b78n)

/** @param before CRC of the bytes before them */
export const crc32c = (bytes: Uint8Array, before = 0): number => crc.ofBits32(bytes, before)

/** @param secondBytes length of what `second` is the CRC of */
export const combineCrc32c = (first: number, second: number, secondBytes: number): number =>
  Number(combiner.combine(BigInt(first), BigInt(second), secondBytes))
