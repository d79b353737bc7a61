import { gunzipSync, inflateRawSync, inflateSync, zstdDecompressSync } from 'node:zlib'
import type { ZlibOptions } from 'node:zlib'
import { decompressSnappy } from '../../../native-free-codecs/snappy.ts'
import { zstdFrameEnds } from '../../../native-free-codecs/zstd-frames.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { Encoding } from './messages.ts'

/** RFC 9110 names the zlib format `deflate`; some clients send the bare stream. A zlib header is a multiple of 31 with method 8. */
const hasZlibHeader = (body: Uint8Array): boolean =>
  body.byteLength >= 2 && (body[0]! & 0x0f) === 8 && ((body[0]! << 8) | body[1]!) % 31 === 0

/** The decompressed body, or why it is refused. The decompressor stops at `maxOutputBytes`. */
export function decompress(body: Uint8Array, encoding: Encoding, maxOutputBytes: number): Uint8Array | Refusal {
  const options = { maxOutputLength: maxOutputBytes }
  try {
    switch (encoding) {
      case 'identity':
        return body
      case 'gzip':
        return decompressWhole(gunzipSync, body, encoding, options)
      case 'deflate':
        return decompressWhole(hasZlibHeader(body) ? inflateSync : inflateRawSync, body, encoding, options)
      case 'zstd':
        return decompressZstd(body, maxOutputBytes)
      // Over HTTP `snappy` is a block, over gRPC a stream, and Collectors have sent streams by either name.
      case 'snappy':
      case 'x-snappy-framed':
        return snappyOrRefusal(body, encoding, maxOutputBytes)
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE')
      return tooLarge(maxOutputBytes)
    return invalid(encoding)
  }
}

/**
 * Refuses bytes behind the stream: node:zlib ignores all of them behind deflate, and behind gzip those that begin with a zero.
 *
 * @throws what node:zlib throws
 */
function decompressWhole(
  read: typeof inflateSync,
  body: Uint8Array,
  encoding: Encoding,
  options: ZlibOptions,
): Uint8Array | Refusal {
  // The types of node:zlib do not know what `info` adds.
  const { buffer, engine } = read(body, { ...options, info: true }) as unknown as Decompressed
  return engine.bytesWritten === body.byteLength ? buffer : invalid(encoding)
}

interface Decompressed {
  readonly buffer: Buffer
  /** bytesWritten: bytes of the body that were read */
  readonly engine: { readonly bytesWritten: number }
}

/** Parallel compressors write a frame for every megabyte or so; each frame costs a call. */
const ZSTD_FRAMES_MAX = 1024

/** @throws what node:zlib throws */
function decompressZstd(body: Uint8Array, maxOutputBytes: number): Uint8Array | Refusal {
  const ends = zstdFrameEnds(body, ZSTD_FRAMES_MAX)
  if (ends === null) return invalid('zstd')
  let left = maxOutputBytes
  const pieces: Uint8Array[] = []
  for (let i = 0; i < ends.length; i++) {
    const frame = body.subarray(ends[i - 1] ?? 0, ends[i])
    const piece = zstdDecompressSync(frame, { maxOutputLength: Math.max(1, left) }) // node:zlib refuses 0
    left -= piece.byteLength
    if (left < 0) return tooLarge(maxOutputBytes)
    pieces.push(piece)
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
}

function snappyOrRefusal(body: Uint8Array, encoding: Encoding, maxOutputBytes: number): Uint8Array | Refusal {
  const read = decompressSnappy(body, maxOutputBytes)
  if (typeof read !== 'string') return read
  return read === 'too large' ? tooLarge(maxOutputBytes) : invalid(encoding)
}

const tooLarge = (maxOutputBytes: number): Refusal =>
  refusal('payload_too_large', `the decompressed body is larger than ${maxOutputBytes} bytes`)

const invalid = (encoding: Encoding): Refusal => refusal('malformed_batch', `the body is not valid ${encoding}`)
