import { crc32 } from 'node:zlib'

/**
 * CRC-32 over parts, one after the other.
 *
 * @param crc of what came before them
 */
export function crcOf(parts: readonly Uint8Array[], crc = 0): number {
  for (const part of parts) if (part.byteLength > 0) crc = crc32(part, crc) // node:zlib begins anew at memory of no bytes
  return crc
}
