/**
 * What the decode lane does on a follower: it copies the leader's frames into this log, indexes their records and remembers them as stored. So this node
 * can begin to lead without reading anything again.
 *
 * K1  main sends frames again to the lane that replaces a dead one: those before the end of the log were copied already and are skipped
 * K2  a frame is copied before it is indexed. No query sees the state in between: this node answers nothing, and a segment becomes a bundle only when
 *     the next one has a frame
 */
import assert from 'node:assert/strict'
import {
  FRAME_HEADER_BYTES,
  decodeFrameHeader,
  emptyFrameHeader,
  frameBytes,
} from '../../../native-free-codecs/frame.ts'
import type { FrameHeader } from '../../../native-free-codecs/frame.ts'
import { messageOf } from '../../errors.ts'
import { BATCH_FRAME_TYPE } from '../batch-frame.ts'
import { FrameIndexer } from '../index/index-frame.ts'
import type { DecodeLaneMessage, LeaderFrames } from './lane-data.ts'
import { openSegment } from './open-segment.ts'
import type { SegmentParts } from './open-segment.ts'

/** The journals are woken after this many bytes, which a disk writes in about the time of a sync. */
const WAKE_BYTES = 256 << 10
/** Milliseconds before a log without room is asked again. */
const ROOM_MS = 20

export interface FrameCopiesParts extends SegmentParts {
  readonly tell: (message: DecodeLaneMessage) => void
}

export class FrameCopies {
  readonly #parts: FrameCopiesParts
  readonly #indexer = new FrameIndexer()
  readonly #header = emptyFrameHeader()
  #waiting: LeaderFrames[] = []
  #unwokenBytes = 0

  constructor(parts: FrameCopiesParts) {
    this.#parts = parts
  }

  add(frames: LeaderFrames): void {
    this.#waiting.push(frames)
  }

  /** Copies what waits. Ends early when the lane is to stop. */
  run(): void {
    const { stopping, tell } = this.#parts
    for (let frames = this.#waiting.shift(); frames && !stopping(); frames = this.#waiting.shift()) {
      try {
        if (!this.#copyAll(frames)) return
      } catch (error) {
        this.#waiting = []
        return tell({ kind: 'follow-failed', reason: messageOf(error) })
      }
      tell({ kind: 'followed', number: frames.number })
    }
  }

  /** @returns false: the lane is to stop */
  #copyAll({ bytes: given }: LeaderFrames): boolean {
    const bytes = Buffer.from(given.buffer, given.byteOffset, given.byteLength)
    const header = this.#header
    for (let at = 0; at < bytes.byteLength;) {
      assert(decodeFrameHeader(bytes, at, header), 'frames of the leader are verified')
      const frame = bytes.subarray(at, at + frameBytes(header.payloadBytes))
      at += frame.byteLength
      if (header.position < this.#parts.writer.tail) continue // K1
      if (!this.#copy(frame, header)) return false
    }
    this.#wake()
    return true
  }

  #copy(frame: Buffer, header: FrameHeader): boolean {
    const { writer, seen } = this.#parts
    if (!this.#append(frame, header)) return false
    if (writer.opensSegment && !openSegment(this.#parts)) return false
    if (header.type !== BATCH_FRAME_TYPE) return true
    const payload = frame.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + header.payloadBytes)
    this.#indexer.add(seen.active.index, writer.segmentOffset, payload) // K2
    return true
  }

  #append(frame: Buffer, header: FrameHeader): boolean {
    const { writer, stopping } = this.#parts
    for (;;) {
      switch (writer.tryCopy(frame, header)) {
        case 'ok':
          this.#unwokenBytes += frame.byteLength
          if (this.#unwokenBytes >= WAKE_BYTES) this.#wake()
          return true
        case 'full':
          this.#wake()
          writer.waitForSpace(header.payloadBytes, ROOM_MS)
          break
        default: // the disk is full, or the log restarts, which ends this lane
          this.#wake()
          Atomics.wait(NEVER, 0, 0, ROOM_MS)
      }
      if (stopping()) return false
    }
  }

  #wake(): void {
    this.#unwokenBytes = 0
    this.#parts.writer.wakeJournals()
  }
}

/** No thread notifies it, so a wait on it ends only by its timeout. */
const NEVER = new Int32Array(new SharedArrayBuffer(4))
