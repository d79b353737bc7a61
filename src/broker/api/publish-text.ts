/**
 * The answer to a publish as JSON, from a template: it is the most frequent answer, and most of its values are those of the answer before.
 *
 * T1  the text is that of the schema's serializer
 */
import { serializer } from '../../http/serializer.ts'
import type { Acknowledgement } from '../durability.ts'
import { PublishReply } from '../wire/record-answers.ts'

const bySchema = serializer(PublishReply)

/** Remembers the text of the last value, for values that come again and again. */
class LastText<Value> {
  #value: Value | null = null
  #text = ''
  readonly #make: (value: Value) => string

  constructor(make: (value: Value) => string) {
    this.#make = make
  }

  of(value: Value): string {
    if (value === this.#value) return this.#text
    this.#text = this.#make(value)
    this.#value = value
    return this.#text
  }
}

const streams = new LastText<string>((stream) => JSON.stringify(stream))
const times = new LastText<number>(String)
const acknowledgements = new LastText<Acknowledgement>(
  ({ durability, durable, replicas }) =>
    `{"durability":${JSON.stringify(durability)},"durable":${durable},"replicas":${replicas}}`,
)

/** Printable ASCII except quote and backslash. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

export function publishText(reply: PublishReply): string {
  if (reply.replication_receipt !== undefined) return bySchema(reply)
  const { offset, next_offset: nextOffset, message_id: id, payload_bytes: payloadBytes } = reply
  const messageId = PLAIN.test(id) ? `"${id}"` : JSON.stringify(id)
  const stream = streams.of(reply.stream)
  const ingestTime = times.of(reply.ingest_time_ms)
  const acknowledgement = acknowledgements.of(reply.acknowledgement)
  return `{"api_version":"v1","stream":${stream},"offset":${offset},"next_offset":${nextOffset},"message_id":${messageId},"ingest_time_ms":${ingestTime},"payload_bytes":${payloadBytes},"acknowledgement":${acknowledgement}}`
}
