/**
 * Reads and renders records: what a reader thread does. Keeps open files and frames between jobs, see frame-source.ts.
 *
 * D1  a record that cannot be read is named and left out; all others are answered
 * D2  every answer is bounded: a page ends early, and the rest of the deliveries is withheld. The first record is given unless too many bytes wait for
 *     clients (unread-answers U2)
 */
import type { Files } from '../../log/files.ts'
import { CLAIM_BYTES_MAX } from '../limits.ts'
import { AuditRecords } from './audit-records.ts'
import { FrameSource } from './frame-source.ts'
import type { Failure } from './frame-source.ts'
import { JsonText } from './json-text.ts'
import { PLACE_NUMBERS } from './places.ts'
import {
  PAGE_BEGIN,
  PAGE_CAPPED,
  PAGE_CONSIDERED,
  PAGE_END,
  PAGE_FIRST_EXCEEDS,
  PAGE_PAYLOAD_BYTES,
  PAGE_RETURNED,
  READ_DELIVERIES,
  READ_EVENTS,
  READ_ORIGINS,
  READ_PAGE,
  READ_RAW,
  READ_RECORDS,
  READ_TIMES,
  REQUEST_NUMBERS,
  answerNumbers,
} from './read-protocol.ts'
import type { ReadKind, ReadResult, ReadTask, ReadWorkerData, UnreadablePlace } from './read-protocol.ts'
import { StoredRecords } from './stored-records.ts'
import type { FoundRecord } from './stored-records.ts'
import { ANSWER_PAYLOAD_BYTES_MAX, isFullOf, pagePayloadBytesMax } from './unread-answers.ts'

/** Room for text beyond the guess from the job before. */
const TEXT_BYTES_FIRST = 4096

const COMMA = 0x2c
const NEWLINE = 0x0a

const WITHHELD: Failure = { cause: 'withheld', reason: 'the answer would become too long', frameBytes: 0 }

export class RecordReader {
  readonly #frames: FrameSource
  readonly #stored: StoredRecords
  readonly #audit: AuditRecords
  /** Bytes of text per record in the job before: a guess at how much text comes next. */
  #bytesPerRecord = 0
  // Text of the job.
  #text = new JsonText(0)
  #requests = new Float64Array()
  #numbers = new Float64Array()
  #unreadable: UnreadablePlace[] = []
  // Number of the request.
  #request = 0
  #placesAt = 0
  #count = 0
  #numbersAt = 0
  #heldBytes = 0
  #records: FoundRecord

  constructor(files: Files, { segmentsDirectory, logId }: ReadWorkerData) {
    this.#frames = new FrameSource(files, segmentsDirectory, logId)
    this.#stored = new StoredRecords(this.#frames)
    this.#audit = new AuditRecords(this.#frames)
    this.#records = this.#stored
  }

  run({ readable, requests, heldBytes = 0 }: ReadTask): ReadResult {
    this.#heldBytes = heldBytes
    this.#frames.begin(readable)
    this.#stored.begin()
    this.#begin(requests)
    let at = 0
    for (this.#request = 0; at < requests.length; this.#request++) {
      const kind = requests[at]! as ReadKind // as `ReadQueue` wrote it
      const argument = requests[at + 2]!
      this.#count = requests[at + 3]!
      this.#placesAt = at + REQUEST_NUMBERS
      this.#records = requests[at + 1] === 1 ? this.#audit : this.#stored
      this.#answer(kind, argument)
      if (this.#records === this.#audit) this.#stored.begin()
      at = this.#placesAt + PLACE_NUMBERS * this.#count
      this.#numbersAt += answerNumbers(kind, this.#count)
    }
    const { bytes, length } = this.#text
    this.#bytesPerRecord = length / Math.max(1, requests.length / PLACE_NUMBERS)
    const text = bytes.subarray(0, length) as Buffer<ArrayBuffer> // JsonText allocates it
    return { text, numbers: this.#numbers, unreadable: this.#unreadable }
  }

  close(): void {
    this.#frames.close()
  }

  #begin(requests: Float64Array<ArrayBuffer>): void {
    let numbers = 0
    for (let at = 0; at < requests.length; at += REQUEST_NUMBERS + PLACE_NUMBERS * requests[at + 3]!) {
      numbers += answerNumbers(requests[at]! as ReadKind, requests[at + 3]!)
    }
    const guess = (this.#bytesPerRecord * requests.length) / PLACE_NUMBERS
    this.#text = new JsonText(TEXT_BYTES_FIRST + Math.ceil(1.1 * guess))
    this.#requests = requests
    this.#numbers = new Float64Array(numbers)
    this.#numbersAt = 0
    this.#unreadable = []
  }

  #answer(kind: ReadKind, argument: number): void {
    switch (kind) {
      case READ_DELIVERIES:
        return this.#deliveries(false)
      case READ_RECORDS:
        return this.#deliveries(true)
      case READ_PAGE:
        return this.#page(argument)
      case READ_ORIGINS:
        return this.#page(argument, true)
      case READ_EVENTS:
        return this.#events(argument === 1)
      case READ_TIMES:
        return this.#times()
      case READ_RAW:
        return this.#raw()
    }
  }

  /** @param asStored records as they stand in their frames */
  #deliveries(asStored: boolean): void {
    const text = this.#text
    if (asStored) this.#records = this.#stored
    let payloadBytes = 0
    this.#set(0, text.length)
    for (let number = 0; number < this.#count; number++) {
      if (this.#find(number)) {
        const sum = payloadBytes + this.#records.payloadBytes
        if ((payloadBytes > 0 && sum > CLAIM_BYTES_MAX) || this.#isFull) {
          this.#leaveOut(number, WITHHELD)
        } else {
          if (asStored) this.#stored.copyWithTime(text)
          else this.#records.render(text)
          payloadBytes = sum
        }
      }
      this.#set(1 + number, text.length)
    }
  }

  /** @param maxPayloadBytes Infinity: no limit */
  #page(maxPayloadBytes: number, asOrigins = false): void {
    const text = this.#text
    let returned = 0
    let payloadBytes = 0
    let number = 0
    const limit = pagePayloadBytesMax(this.#heldBytes + text.length)
    this.#set(PAGE_BEGIN, text.length)
    for (; number < this.#count; number++) {
      if (!this.#find(number)) continue
      if (returned === 0 && !asOrigins && this.#isFull) {
        this.#leaveOut(number, WITHHELD)
        break
      }
      const sum = payloadBytes + this.#records.payloadBytes
      if (returned > 0 && sum > Math.min(maxPayloadBytes, limit)) {
        this.#set(PAGE_CAPPED, sum > maxPayloadBytes ? 1 : 0)
        break
      }
      if (sum > maxPayloadBytes) this.#set(PAGE_FIRST_EXCEEDS, 1)
      if (returned > 0) this.#separate(COMMA)
      this.#records.render(text, asOrigins)
      returned += 1
      payloadBytes = sum
    }
    this.#endPage(returned, number, payloadBytes)
  }

  #events(asLines: boolean): void {
    const text = this.#text
    let returned = 0
    let payloadBytes = 0
    this.#records = this.#audit
    this.#set(PAGE_BEGIN, text.length)
    for (let number = 0; number < this.#count; number++) {
      if (!this.#find(number)) continue
      if (returned > 0 && !asLines) this.#separate(COMMA)
      this.#audit.renderEvent(text)
      if (asLines) this.#separate(NEWLINE)
      returned += 1
      payloadBytes += this.#audit.payloadBytes
    }
    this.#endPage(returned, this.#count, payloadBytes)
  }

  #times(): void {
    const count = this.#count
    for (let number = 0; number < count; number++) {
      const found = this.#find(number)
      const { eventTimeMs, ingestTimeMs, payloadBytes } = this.#records
      this.#set(number, found ? eventTimeMs : Number.NaN)
      this.#set(count + number, found ? ingestTimeMs : Number.NaN)
      this.#set(2 * count + number, found ? payloadBytes : Number.NaN)
    }
  }

  #raw(): void {
    const text = this.#text
    const begin = text.length
    this.#records = this.#stored
    this.#set(0, begin)
    for (let number = 0; number < this.#count; number++) {
      if (this.#find(number)) {
        if (text.length > begin && text.length - begin + this.#stored.payloadBytes > ANSWER_PAYLOAD_BYTES_MAX) {
          this.#leaveOut(number, WITHHELD)
        } else {
          this.#stored.copy(text)
          this.#set(1 + this.#count + number, this.#stored.ingestTimeMs)
        }
      }
      this.#set(1 + number, text.length)
    }
  }

  /** D2 */
  get #isFull(): boolean {
    return isFullOf(this.#heldBytes + this.#text.length)
  }

  /** D1 */
  #find(number: number): boolean {
    const requests = this.#requests
    const at = this.#placesAt + PLACE_NUMBERS * number
    const failure = this.#records.find(requests[at]!, requests[at + 1]!, requests[at + 2]!)
    if (failure !== null) this.#leaveOut(number, failure)
    return failure === null
  }

  #leaveOut(number: number, failure: Failure): void {
    this.#unreadable.push({ ...failure, request: this.#request, number })
  }

  #set(number: number, value: number): void {
    this.#numbers[this.#numbersAt + number] = value
  }

  #separate(byte: number): void {
    this.#text.reserve(1)
    this.#text.byte(byte)
  }

  #endPage(returned: number, considered: number, payloadBytes: number): void {
    this.#set(PAGE_END, this.#text.length)
    this.#set(PAGE_RETURNED, returned)
    this.#set(PAGE_CONSIDERED, considered)
    this.#set(PAGE_PAYLOAD_BYTES, payloadBytes)
  }
}
