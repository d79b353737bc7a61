/** CRC-64/NVME. Source: NVM Express NVM Command Set Specification 1.0d, section 5.2.1.3.4. */
import { CrcCombiner } from './crc-combine.ts'
import { Crc } from './crc.ts'
import type { CrcDefinition } from './crc.ts'

export const CRC64NVME: CrcDefinition = {
  widthBits: 64,
  polynomial: 0xad93_d235_94c9_3659n,
  distances: [280, 979, 1172, 1598, 1607, 1645, 1740],
}

const crc = new Crc(CRC64NVME)
const combiner = new CrcCombiner(64, 0x9a6c_9329_ac4b_c9b5n)

/** @param before CRC of the bytes before them */
export const crc64nvme = (bytes: Uint8Array, before = 0n): bigint => crc.of(bytes, before)

/** @param secondBytes length of what `second` is the CRC of */
export const combineCrc64nvme = (first: bigint, second: bigint, secondBytes: number): bigint =>
  combiner.combine(first, second, secondBytes)
