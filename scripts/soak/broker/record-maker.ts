/** Records of one stream that follow from their numbers: nothing is remembered but the number, and all of it can be compared. */
import assert from 'node:assert/strict'
import { mix32 } from '../../../bench/load/random.ts'
import type { PublishBody } from '../../../src/broker/wire/requests.ts'
import type { StreamPlan } from './plan.ts'

/** As replay and claims show it. */
export interface ShownRecord {
  readonly offset: number
  readonly message_id: string
  readonly payload_hex: string
  readonly key_hex: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly event_time_ms: number
  readonly ingest_time_ms: number
}

const EVENT_TIME_FIRST_MS = 1_000_000

export class RecordMaker {
  readonly #name: string
  readonly #payloadBytes: StreamPlan['payloadBytes']

  constructor({ name, payloadBytes }: StreamPlan) {
    this.#name = name
    this.#payloadBytes = payloadBytes
  }

  body(number: number): PublishBody {
    const payload = this.#payload(number)
    const key = this.#key(number)
    return {
      message_id: this.messageId(number),
      ...(number % 5 === 0 ? { payload_hex: Buffer.from(payload).toString('hex') } : { payload }),
      ...(key !== null && { key }),
      headers: this.#headers(number),
      event_time_ms: EVENT_TIME_FIRST_MS + number,
    }
  }

  messageId(number: number): string {
    return `${this.#name}-${number}`
  }

  payloadBytesOf(number: number): number {
    const [min, max] = this.#payloadBytes
    return min + (mix32(number) % (max - min + 1))
  }

  /** The number of a record that is shown: it must be what was published under it, with these headers besides. */
  check(record: ShownRecord, moreHeaders: Readonly<Record<string, string>> = {}): number {
    const number = Number(record.message_id.slice(this.#name.length + 1))
    const key = this.#key(number)
    const expected = {
      message_id: this.messageId(number),
      payload_hex: Buffer.from(this.#payload(number)).toString('hex'),
      key_hex: key === null ? null : Buffer.from(key).toString('hex'),
      headers: { ...this.#headers(number), ...moreHeaders },
      event_time_ms: EVENT_TIME_FIRST_MS + number,
    }
    const { offset, ingest_time_ms, ...shown } = record
    assert.deepEqual(shown, expected, `record ${offset} of ${this.#name} is not as it was published`)
    assert(ingest_time_ms > 0)
    return number
  }

  #payload(number: number): string {
    return ''.padEnd(this.payloadBytesOf(number), `${number}:`)
  }

  #key(number: number): string | null {
    return number % 3 === 0 ? null : `key ${number % 7}`
  }

  #headers(number: number): Record<string, string> {
    return number % 2 === 0 ? {} : { number: String(number) }
  }
}
