import { crc32 } from '../../native-free-codecs/crc32.ts'

/**
 * CRC-32 over parts, one after the other.
 *
 * @param crc of what came before them
 */
export function crcOf(parts: readonly Uint8Array[], crc = 0): number {
  for (const part of parts) crc = crc32(part, crc)
  return crc
}
