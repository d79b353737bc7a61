/**
 * The frames of a group commit as messages, and back.
 *
 * G1  a message has at most `bytesMax` bytes: a larger group is cut between frames, a larger frame into parts
 * G2  frames from messages are verified like frames from a disk: header, payload, log, epoch, and that each begins where the one before ended, in the
 *     same segment or as the first of the next one
 */
import { crc32 } from '../../native-free-codecs/crc32.ts'
import { FRAME_HEADER_BYTES, decodeFrameHeader, emptyFrameHeader, frameBytes } from '../../native-free-codecs/frame.ts'
import { SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES } from '../log/segment-format.ts'
import { isSamePlace } from './message.ts'
import type { LogPlace } from './message.ts'
import type { Offered } from './node.ts'

/** One frame, whole, and where the log ends with it. */
export interface WholeFrame {
  readonly bytes: Uint8Array
  readonly end: LogPlace
}

/** G1. @param begin where the log ends before the first of the frames */
export function* messagesOf(
  frames: readonly WholeFrame[],
  begin: LogPlace,
  bytesMax: number,
): Generator<Offered<Uint8Array>, void, undefined> {
  let place = begin
  for (let first = 0; first < frames.length;) {
    const count = countThatFits(frames, first, bytesMax)
    if (count === 0) {
      const { bytes, end } = frames[first]!
      yield* partsOf(bytes, place, end, bytesMax)
      place = end
      first += 1
      continue
    }
    const group = frames.slice(first, first + count)
    const body = count === 1 ? group[0]!.bytes : Buffer.concat(group.map(({ bytes }) => bytes))
    const { end } = group.at(-1)!
    yield { begin: place, end, part: null, body, bytes: body.byteLength }
    place = end
    first += count
  }
}

function countThatFits(frames: readonly WholeFrame[], first: number, bytesMax: number): number {
  let bytes = 0
  for (let next = first; next < frames.length; next += 1) {
    bytes += frames[next]!.bytes.byteLength
    if (bytes > bytesMax) return next - first
  }
  return frames.length - first
}

function* partsOf(
  frame: Uint8Array,
  begin: LogPlace,
  end: LogPlace,
  bytesMax: number,
): Generator<Offered<Uint8Array>, void, undefined> {
  const count = Math.ceil(frame.byteLength / bytesMax)
  for (let index = 0; index < count; index += 1) {
    const body = frame.subarray(index * bytesMax, (index + 1) * bytesMax)
    yield { begin, end, part: { index, count }, body, bytes: body.byteLength }
  }
}

/** A frame that came out of a message. */
export interface CheckedFrame {
  readonly position: number
  /** The first of a segment, SEGMENT_HEADER_BYTES behind its base. */
  readonly opensSegment: boolean
  /** Header, payload and padding. */
  readonly bytes: Uint8Array
  readonly end: LogPlace
}

/** G2. @returns the frames, or what is wrong with them */
export function framesOf(
  bodies: readonly Uint8Array[],
  { begin, end }: { readonly begin: LogPlace; readonly end: LogPlace },
  { logId, epoch }: { readonly logId: number; readonly epoch: number },
): readonly CheckedFrame[] | string {
  const bytes = bodies.length === 1 ? bodies[0]! : Buffer.concat(bodies)
  const frames: CheckedFrame[] = []
  const header = emptyFrameHeader()
  let place = begin
  for (let at = 0; at < bytes.byteLength;) {
    if (at + FRAME_HEADER_BYTES > bytes.byteLength || !decodeFrameHeader(bytes, at, header))
      return `no frame at byte ${at}`
    const { position, payloadBytes, headerCrc } = header
    const wholeBytes = frameBytes(payloadBytes)
    const opensSegment = position !== place.position
    if (at + wholeBytes > bytes.byteLength) return `the frame at position ${position} is not whole`
    if (header.logId !== logId) return `the frame at position ${position} is of another log`
    if (header.epoch !== epoch) return `the frame at position ${position} is of epoch ${header.epoch}, not ${epoch}`
    if (opensSegment && position !== nextSegmentAt(place))
      return `the next frame begins at ${position}, but the log ends at ${place.position}`
    if (header.previousHeaderCrc !== place.chain)
      return `the frame at position ${position} does not follow the one before`
    const payloadAt = at + FRAME_HEADER_BYTES
    if (crc32(bytes.subarray(payloadAt, payloadAt + payloadBytes)) !== header.payloadCrc)
      return `the payload of the frame at position ${position} is damaged`
    place = { position: position + wholeBytes, chain: headerCrc }
    frames.push({ position, opensSegment, bytes: bytes.subarray(at, at + wholeBytes), end: place })
    at += wholeBytes
  }
  return isSamePlace(place, end) ? frames : `the frames end at ${place.position}, not at ${end.position}`
}

/** Where the first frame of the next segment begins. The log begins with a segment at 0. */
const nextSegmentAt = ({ position }: LogPlace): number =>
  (position === 0 ? 0 : position + SEGMENT_FOOTER_BYTES) + SEGMENT_HEADER_BYTES
