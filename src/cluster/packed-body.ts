/**
 * Compresses the bodies of messages. Each NATS server writes a message twice and forwards it, so a byte costs more there than its compression costs here.
 *
 *   Trilog-Packed  zstd/<bytes>   the body is one frame of zstd, and has so many bytes when it is unpacked
 *
 * K1  a body without this header is not packed. A version that does not know the header finds no frames in a packed body, and stops
 * K2  a body that cannot be unpacked becomes an empty one, which then counts as damaged, as its frames are missing
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

export const PACKED_HEADER = 'Trilog-Packed'

/** Packing a smaller body would save little, compared with what the message itself costs a server. */
const LEAST_BYTES = 32 << 10
/** Limit for an unpacked body: more than a message may have. */
const MOST_BYTES = 2 << 20
/** A body that keeps more than this share of its bytes is sent as it is. */
const SHARE_MAX = 7 / 8
/** After a body that did not pack well, so many are sent as they are: the bodies of one service are alike. */
const PASSED_OVER = 15
/** Level -5 takes 40 % less time here, but leaves more bytes, which cost the servers as much time. */
const LEVEL = 1
const HOW = { params: { [constants.ZSTD_c_compressionLevel]: LEVEL } }
const NOTHING = new Uint8Array(0)

export interface PackedBody {
  readonly body: Uint8Array
  /** Value of `PACKED_HEADER`. */
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

/** @param header value of `PACKED_HEADER`; empty: there is none */
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
