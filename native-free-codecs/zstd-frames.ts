/**
 * Walks the frames of a zstd stream by their headers, without decompressing.
 *
 * Why: node:zlib's synchronous zstd decoder takes a stream that ends early for one that ended, and leaves every frame behind the
 * first. Half a batch can be a valid batch, so the frames must be known before the bytes are believed.
 *
 *   frame       magic u32 0xFD2FB528 · descriptor u8 · window u8? · dictionary id 0/1/2/4 · content size 0/1/2/4/8 · blocks · checksum 4?
 *   descriptor  bits 7-6 content size flag, bit 5 single segment, bit 2 checksum, bits 1-0 dictionary id flag
 *   block       header u24: bit 0 last, bits 2-1 type (0 raw, 1 RLE, 2 compressed), bits 23-3 size
 *   skippable   magic u32 0x184D2A50 ..= 0x184D2A5F · size u32 · that many bytes
 *
 * Source: RFC 8878, sections 3.1.1 and 3.1.2.
 */
const FRAME_MAGIC = 0xfd2fb528
const SKIPPABLE_MAGIC = 0x184d2a50
const DICTIONARY_ID_BYTES = [0, 1, 2, 4] as const
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const

/**
 * @param framesMax  more frames than this are refused like a stream that is not whole
 * @returns where each frame ends, when `bytes` is a sequence of one or more whole frames with nothing behind them, else null
 */
export function zstdFrameEnds(bytes: Uint8Array, framesMax: number): readonly number[] | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const ends: number[] = []
  let at = 0
  do {
    at = endOfFrame(view, at)
    if (at < 0 || ends.push(at) > framesMax) return null
  } while (at < view.byteLength)
  return ends
}

/** Where the frame that begins at `at` ends, or -1 when it is cut short or not a frame. */
function endOfFrame(view: DataView, at: number): number {
  if (at + 8 > view.byteLength) return -1
  const magic = view.getUint32(at, true)
  if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) return within(view, at + 8 + view.getUint32(at + 4, true))
  if (magic !== FRAME_MAGIC) return -1
  const descriptor = view.getUint8(at + 4)
  const singleSegment = (descriptor & 0x20) !== 0
  const sizeFlag = descriptor >> 6
  let next = at + 5 + (singleSegment ? 0 : 1)
  next += DICTIONARY_ID_BYTES[descriptor & 3]!
  next += sizeFlag === 0 && singleSegment ? 1 : CONTENT_SIZE_BYTES[sizeFlag]!
  for (let last = false; !last;) {
    if (next + 3 > view.byteLength) return -1
    const header = view.getUint16(next, true) | (view.getUint8(next + 2) << 16)
    const type = (header >> 1) & 3
    if (type === 3) return -1
    last = (header & 1) !== 0
    next += 3 + (type === 1 ? 1 : header >> 3)
  }
  return within(view, next + ((descriptor & 4) !== 0 ? 4 : 0))
}

const within = (view: DataView, end: number): number => (end <= view.byteLength ? end : -1)
