/**
 * Bodies of messages in fewer bytes. Each NATS server writes a message twice and hands it on, so a byte costs more there than it costs to pack it here.
 *
 *   Trilog-Packed  zstd/<bytes>   the body is one frame of zstd, and has so many bytes when it is unpacked
 *
 * K1  a body without this header stands as it is. A version that does not know the header finds no frames in a packed body, and stops
 * K2  a body that cannot be unpacked comes out empty: it is damaged then, as any in which frames are missing
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

export const PACKED_HEADER = 'Trilog-Packed'

/** Less costs a server little beside the message itself. */
const LEAST_BYTES = 32 << 10
/** More than a message may have. */
const MOST_BYTES = 2 << 20
/** Packed, a body has at most this share of its bytes, or stays as it is. */
const SHARE_MAX = 7 / 8
/** So many bodies stay as they are after one that could not be packed: those of one service are alike. */
const PASSED_OVER = 15
/** Level -5 takes 40 % less time here, and leaves bytes that the servers need as long for. */
const LEVEL = 1
const HOW = { params: { [constants.ZSTD_c_compressionLevel]: LEVEL } }
const NOTHING = new Uint8Array(0)

export interface PackedBody {
  readonly body: Uint8Array
  /** Of `PACKED_HEADER`. */
  readonly header: string
}

export class BodyPacker {
  #passOver = 0

  /** @returns null: it stays as it is */
  pack(body: Uint8Array): PackedBody | null {
    if (body.byteLength < LEAST_BYTES) return null
    if (this.#passOver > 0) {
      this.#passOver -= 1
      return null
    }
    const packed = zstdCompressSync(body, HOW)
    if (packed.byteLength <= SHARE_MAX * body.byteLength) return { body: packed, header: `zstd/${body.byteLength}` }
    this.#passOver = PASSED_OVER
    return null
  }
}

/** @param header of `PACKED_HEADER`; empty: there is none */
export function unpacked(header: string, body: Uint8Array): Uint8Array {
  if (header === '') return body // K1
  const bytes = Number(/^zstd\/([1-9]\d*)$/.exec(header)?.[1] ?? MOST_BYTES + 1)
  if (bytes > MOST_BYTES) return NOTHING // K2
  try {
    return zstdDecompressSync(body, { maxOutputLength: bytes })
  } catch {
    return NOTHING // K2
  }
}
