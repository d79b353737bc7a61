/**
 * The publish requests of one connection, single or batch: one buffer, in which the digits of the stream and of every message id are
 * overwritten for the next request. Nothing is allocated.
 */
import { writeFourDigits, writeTwelveDigits } from '../digits.ts'
import type { LoadRequest } from '../workload.ts'
import { RECORD_DIGITS, streamDigitsAt, streamPath } from './names.ts'
import type { Requests } from './requests.ts'

interface RecordShape {
  readonly messageIdPrefix: string
  /** ASCII without quotes and backslashes. */
  readonly payload: string
  /** Null: that of the stream. */
  readonly durabilityMode: string | null
}

/** @param batch records in a request; null: one, on the route for one */
export interface PublishRequestOptions extends RecordShape {
  readonly requests: Requests
  readonly batch: number | null
}

export class PublishRequest implements LoadRequest {
  readonly head: Buffer
  readonly body = null
  /** Length of the JSON. */
  readonly bodyBytes: number
  readonly #records: number
  readonly #view: DataView
  readonly #firstIdAt: number
  readonly #recordBytes: number

  constructor(options: PublishRequestOptions) {
    const { requests, batch, messageIdPrefix, payload, durabilityMode } = options
    const record = JSON.stringify({
      message_id: messageIdPrefix + '0'.repeat(RECORD_DIGITS),
      payload,
      ...(durabilityMode === null ? {} : { durability_mode: durabilityMode }),
    })
    const before = batch === null ? '' : '{"records":['
    const after = batch === null ? '' : ']}'
    const body = before + Array.from({ length: batch ?? 1 }, () => record).join(',') + after
    const path = `${streamPath(0)}/records${batch === null ? '' : '/batch'}`
    this.head = requests.build('POST', path, body).head
    this.bodyBytes = body.length
    this.#records = batch ?? 1
    this.#view = new DataView(this.head.buffer, this.head.byteOffset, this.head.byteLength)
    this.#firstIdAt =
      this.head.byteLength - body.length + before.length + '{"message_id":"'.length + messageIdPrefix.length
    this.#recordBytes = record.length + 1 // and a comma
  }

  /** @param firstRecord number of the first record; the others follow it */
  stamp(stream: number, firstRecord: number): void {
    writeFourDigits(this.#view, STREAM_DIGITS_AT, stream)
    for (let record = 0, at = this.#firstIdAt; record < this.#records; record++, at += this.#recordBytes) {
      writeTwelveDigits(this.#view, at, firstRecord + record)
    }
  }
}

const STREAM_DIGITS_AT = streamDigitsAt('POST')
