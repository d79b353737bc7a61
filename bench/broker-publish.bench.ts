/**
 * What does a publish of a 200-byte payload cost the main thread in text: its body read and checked, its answer written? And all of
 * the route, with operations that answer at once? `--smoke` runs each case once, so that CI catches rot.
 */
import { crc32 } from 'node:zlib'
import fastJsonStringify from 'fast-json-stringify'
import { Bench } from 'tinybench'
import { Compile } from 'typebox/schema'
import { publish } from '../src/broker/api/records.ts'
import type { Answer } from '../src/engine/decision.ts'
import type { RouteParts } from '../src/broker/api/parts.ts'
import { parsePublish } from '../src/broker/publish-input.ts'
import { PublishReply } from '../src/broker/wire/record-answers.ts'
import { PublishBody } from '../src/broker/wire/requests.ts'
import type { BodySink, Exchange, RequestHead } from '../src/http/exchange.ts'

const smoke = process.argv.includes('--smoke')
const bench = new Bench({ name: 'publish', ...(smoke && { time: 0, iterations: 1, warmup: false }) })
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const payload = 'a "quoted" word, '.padEnd(200, 'payload ')
const record = { message_id: 'message-0000012345', payload }
const bodies = {
  text: Buffer.from(JSON.stringify(record)),
  hex: Buffer.from(
    JSON.stringify({ message_id: record.message_id, payload_hex: Buffer.from(payload).toString('hex') }),
  ),
  'text, key and two headers': Buffer.from(
    JSON.stringify({ ...record, key: 'customer-17', headers: { 'content-type': 'text/plain', 'x-source': 'web' } }),
  ),
}
const reply: PublishReply = {
  api_version: 'v1',
  stream: 'orders',
  offset: 123_456,
  next_offset: 123_457,
  message_id: record.message_id,
  ingest_time_ms: 1_700_000_000_000,
  payload_bytes: 200,
  acknowledgement: { durability: 'local-sync', durable: true, replicas: 1 },
}

const read = (body: Buffer): unknown => parsePublish(JSON.parse(utf8.decode(body)))
const validator = Compile(PublishBody)
const stringify = fastJsonStringify({ ...PublishReply })

/** An exchange that has its body at once. */
class InstantExchange implements Exchange {
  readonly id = 'bench'
  readonly route = ''
  readonly tenant = null
  readonly principal = null
  readonly ended = false
  readonly remoteAddress = '127.0.0.1'
  readonly isSecure = false
  readonly clientCertificate = ''
  readonly #body: Uint8Array
  readonly #done: (text: string) => void

  constructor(body: Uint8Array, done: (text: string) => void) {
    this.#body = body
    this.#done = done
  }

  onEnd(): void {}

  readBody(_limitBytes: number, sink: BodySink): void {
    sink.chunk(this.#body, true)
  }

  answer(_status: number, _type: string | null, body: Uint8Array | string | null): void {
    this.#done(String(body))
  }

  reserve(): void {}

  answerFrom(): void {}

  answerStream(): void {}

  pauseBody(): void {}

  resumeBody(): void {}

  slowRate(): null {
    return null
  }

  giveUp(): void {}

  fail(error: unknown): void {
    throw error
  }
}

const head: RequestHead = {
  method: 'POST',
  path: '/v1/streams/orders/records',
  query: '',
  contentLength: bodies.text.byteLength,
  param: () => 'orders',
  header: (name) => (name === 'content-type' ? 'application/json' : ''),
  headers: () => new Map(),
}
const caller = { tenant: 'local', principal: 'local' }
// What the route of a publish uses.
const parts = {
  operations: { publish: (answer: Answer<typeof reply>) => answer.answered(reply) },
  admit: () => caller,
  maxBodyBytes: 1 << 20,
} as unknown as RouteParts
const endpoint = publish(parts)
const ask = (): Promise<string> =>
  new Promise((resolve) => endpoint.begin(head, new InstantExchange(bodies.text, resolve)))

/** Same bodies, same number: an "optimisation" that reads or answers something else shows here. */
let checksum = crc32(await ask())
for (const [name, body] of Object.entries(bodies)) {
  checksum = crc32(JSON.stringify(read(body)), checksum)
  bench.add(`read and check: ${name}`, () => {
    read(body)
  })
}
bench.add('JSON.parse alone: text', () => {
  JSON.parse(utf8.decode(bodies.text))
})
bench.add('read and check by the schema: text', () => {
  validator.Check(JSON.parse(utf8.decode(bodies.text)))
})
bench.add('write the answer', () => {
  stringify(reply)
})
bench.add('write the answer by JSON.stringify', () => {
  JSON.stringify(reply)
})
bench.add('the route, from head to answer', async () => {
  await ask()
})

await bench.run()
console.table(
  bench.tasks.map(({ name, result }) => ({
    case: name,
    'ns (median)': 'latency' in result ? Math.round(result.latency.p50 * 1e6) : Number.NaN,
  })),
)
console.log({ node: process.version, checksum, bodyBytes: bodies.text.byteLength })
