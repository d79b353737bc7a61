/**
 * The frames that the log's producer put into the ring of the cluster's lane.
 *
 * R1  a frame whose external part has changed since the producer gave it is not sent: a damaged frame in the stream would stop every follower
 */
import assert from 'node:assert/strict'
import { crc32 } from '../../../native-free-codecs/crc32.ts'
import {
  FRAME_HEADER_BYTES,
  decodeFrameHeader,
  emptyFrameHeader,
  paddedBytes,
  readU32,
  readU64,
} from '../../../native-free-codecs/frame.ts'
import { MESSAGE_HEAD_BYTES } from '../../log/journal-message.ts'
import type { SpscRing } from '../../pipeline/spsc-ring.ts'
import type { WholeFrame } from '../groups.ts'

export class RingFrames {
  readonly #ring: SpscRing
  readonly #words: Uint32Array
  readonly #arena: Uint8Array
  readonly #header = emptyFrameHeader()

  /** @param arena external parts of frames; empty when the log has none */
  constructor(ring: SpscRing, arena: Uint8Array) {
    this.#ring = ring
    this.#arena = arena
    this.#words = new Uint32Array(ring.bytes.buffer, ring.bytes.byteOffset, ring.capacityBytes >>> 2)
  }

  /**
   * The waiting frames, up to about so many bytes. Their bytes may be the ring's, and are valid until `release`.
   *
   * @param generation of the log: frames of other generations are skipped
   */
  take(generation: number, bytesMax: number): readonly WholeFrame[] {
    const frames: WholeFrame[] = []
    let bytes = 0
    for (let at = this.#ring.next(); at >= 0; at = bytes < bytesMax ? this.#ring.next() : -1) {
      if (this.#words[at >>> 2] !== generation) continue
      const frame = this.#frameAt(at)
      frames.push(frame)
      bytes += frame.bytes.byteLength
    }
    return frames
  }

  release(): void {
    this.#ring.release()
  }

  #frameAt(at: number): WholeFrame {
    const { bytes: ring, messageBytes } = this.#ring
    const headerAt = at + MESSAGE_HEAD_BYTES
    const inline = ring.subarray(headerAt, at + messageBytes)
    const externalBytes = this.#words[(at >>> 2) + 3]!
    const wholeBytes = paddedBytes(inline.byteLength + externalBytes)
    const end = { position: readU64(ring, headerAt + POSITION_AT) + wholeBytes, chain: readU32(ring, headerAt) }
    if (wholeBytes === inline.byteLength) return { bytes: inline, end }
    const whole = Buffer.alloc(wholeBytes)
    whole.set(inline)
    const externalAt = this.#words[(at >>> 2) + 2]!
    if (externalBytes > 0) whole.set(this.#arena.subarray(externalAt, externalAt + externalBytes), inline.byteLength)
    assert(this.#isWhole(whole), 'the arena keeps a frame until the lane has taken it') // R1
    return { bytes: whole, end }
  }

  #isWhole(frame: Uint8Array): boolean {
    const header = this.#header
    if (!decodeFrameHeader(frame, 0, header)) return false
    return crc32(frame.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + header.payloadBytes)) === header.payloadCrc
  }
}

/** In a frame's header. */
const POSITION_AT = 8
