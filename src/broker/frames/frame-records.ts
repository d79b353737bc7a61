/**
 * The records that a frame of any type brings into a stream: all of RECORDS, RECORDS_REPLICATED and REDRIVE, the copy of DEAD_LETTER.
 * Pointed at one frame after the other, and in it at one record after the other: going forward costs one step a record.
 */
import { readU32, readU64 } from '../../../native-free-codecs/frame.ts'
import { decodeDeadLetterHead } from './dead-letter.ts'
import { FRAME_DEAD_LETTER, FRAME_RECORDS, FRAME_RECORDS_REPLICATED, FRAME_REDRIVE } from './frame-types.ts'
import { RECORD_BYTES_MIN, RecordCursor } from './record.ts'
import { recordsBegin } from './records-frame.ts'
import { redriveRecordsBegin } from './redrive.ts'

export class FrameRecords {
  streamNumber = 0
  firstOffset = 0
  count = 0
  ingestTimeMs = 0
  readonly record = new RecordCursor()
  #payload: Uint8Array = new Uint8Array()
  #firstAt = 0
  /** Number of the record that `record` points at; -1: none. */
  #number = -1

  get number(): number {
    return this.#number
  }

  /** False when the frame is not one of records. The payload's checksum was verified; the records are looked at by `seek`. */
  open(type: number, payload: Uint8Array): boolean {
    this.#payload = payload
    this.#number = -1
    this.#firstAt = -1
    if (type === FRAME_DEAD_LETTER) this.#openCopy(payload)
    else if (type === FRAME_RECORDS || type === FRAME_RECORDS_REPLICATED)
      this.#openRecords(recordsBegin(type, payload), payload)
    else if (type === FRAME_REDRIVE) this.#openRecords(redriveRecordsBegin(payload), payload)
    return (
      this.#firstAt >= 0 &&
      this.firstOffset <= Number.MAX_SAFE_INTEGER &&
      this.ingestTimeMs <= Number.MAX_SAFE_INTEGER &&
      this.#firstAt + RECORD_BYTES_MIN * this.count <= payload.byteLength
    )
  }

  /** Points `record` at record `number` of the frame; false when the frame has no such record, or it is not whole. */
  seek(number: number): boolean {
    if (number === this.#number) return true
    if (number < 0 || number >= this.count) return false
    if (number < this.#number) this.#number = -1
    while (this.#number < number) {
      const at = this.#number < 0 ? this.#firstAt : this.record.end
      if (!this.record.read(this.#payload, at)) {
        this.#number = -1
        return false
      }
      this.#number += 1
    }
    return true
  }

  #openRecords(firstAt: number, payload: Uint8Array): void {
    this.#firstAt = firstAt
    if (this.#firstAt < 0) return
    this.streamNumber = readU32(payload, 4)
    this.firstOffset = readU64(payload, 8)
    this.ingestTimeMs = readU64(payload, 16)
    this.count = readU32(payload, 24)
  }

  #openCopy(payload: Uint8Array): void {
    const head = decodeDeadLetterHead(payload)
    if (head === null) return
    this.#firstAt = head.recordAt
    this.streamNumber = head.targetNumber
    this.firstOffset = head.targetOffset
    this.ingestTimeMs = head.ingestTimeMs
    this.count = 1
  }
}
