import { gunzipSync, inflateRawSync, inflateSync, zstdDecompressSync } from 'node:zlib'
import { isWholeZstdStream } from '../../../native-free-codecs/zstd-frames.ts'
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
        return gunzipSync(body, options)
      case 'deflate':
        return hasZlibHeader(body) ? inflateSync(body, options) : inflateRawSync(body, options)
      case 'zstd':
        return isWholeZstdStream(body) ? zstdDecompressSync(body, options) : invalid(encoding)
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') {
      return refusal('payload_too_large', `the decompressed body is larger than ${maxOutputBytes} bytes`)
    }
    return invalid(encoding)
  }
}

const invalid = (encoding: Encoding): Refusal => refusal('malformed_batch', `the body is not valid ${encoding}`)
