/** Audited frames as records of the audit stream: the event's id is the message id, its JSON the payload. */
import { auditEventOf } from './audit-event.ts'
import { damaged } from './frame-source.ts'
import type { Failure, FrameSource } from './frame-source.ts'
import type { JsonText } from './json-text.ts'
import type { FoundRecord } from './stored-records.ts'

const NO_EVENT = damaged('the frame does not hold the audit event', 0)

export class AuditRecords implements FoundRecord {
  /** JSON of the event found last. */
  event: Buffer = Buffer.alloc(0)
  eventTimeMs = 0
  readonly #frames: FrameSource
  #offset = 0
  #eventId = ''

  constructor(frames: FrameSource) {
    this.#frames = frames
  }

  get payloadBytes(): number {
    return this.event.byteLength
  }

  get ingestTimeMs(): number {
    return this.eventTimeMs
  }

  find(offset: number, segmentBase: number, place: number): Failure | null {
    const failure = this.#frames.read(segmentBase, place)
    if (failure !== null) return failure
    const event = auditEventOf(this.#frames.type, segmentBase + place, this.#frames.payload)
    if (event?.offset !== offset) return NO_EVENT
    this.event = Buffer.from(JSON.stringify(event))
    this.eventTimeMs = event.at_ms
    this.#offset = offset
    this.#eventId = event.event_id
    return null
  }

  render(text: JsonText): void {
    const record = {
      offset: this.#offset,
      message_id: this.#eventId,
      payload_hex: this.event.toString('hex'),
      key_hex: null,
      headers: {},
      event_time_ms: this.eventTimeMs,
      ingest_time_ms: this.eventTimeMs,
    }
    const json = Buffer.from(JSON.stringify(record))
    text.reserve(json.byteLength)
    text.raw(json, 0, json.byteLength)
  }

  renderEvent(text: JsonText): void {
    text.reserve(this.event.byteLength)
    text.raw(this.event, 0, this.event.byteLength)
  }
}
