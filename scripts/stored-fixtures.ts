/**
 * Writes the fixtures of test/fixtures/stored anew: `node scripts/stored-fixtures.ts [SERVICE…]`, then `npm run format`. Each is a data directory of this release with at
 * least one of everything that the service stores. To be run when a release adds a kind, under a new name: what older releases wrote stays.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import release from '../package.json' with { type: 'json' }
import type { RunningService } from '../test/support/process.ts'
import {
  FIXTURES,
  STORED_SERVICES,
  packDirectory,
  see,
  startStored,
  unpackDirectory,
} from '../test/support/stored-fixture.ts'
import type { Look, SeenLook, StoredService } from '../test/support/stored-fixture.ts'

/** Fills a segment of 1 MiB with one more, and costs nothing when it is compressed. */
const LONG = 'x'.repeat(600_000)

type Ask = (method: string, path: string, body?: object | string, headers?: Record<string, string>) => Promise<Response>

const askOf =
  ({ url }: RunningService): Ask =>
  async (method, path, body, headers = {}) => {
    const isText = typeof body === 'string' || body === undefined
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...(!isText && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    })
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`)
    return response
  }

interface Scene {
  /** @returns what is looked at afterwards */
  play(ask: Ask): Promise<readonly Look[]>
}

const get = (path: string, headers?: Record<string, string>): Look => ({
  method: 'GET',
  path,
  ...(headers && { headers }),
})

// The log store: a sealed segment with its index, an active one, logs and traces, JSON and protobuf.

const TENANT = { 'x-logstore-tenant': 'local', authorization: 'Bearer local-dev-token' }
const attribute = (key: string, value: string): object => ({ key, value: { stringValue: value } })
const resource = (service: string): object => ({
  attributes: [attribute('service.name', service), attribute('tenant_id', 'local')],
})
const logs = (service: string, ...logRecords: object[]): object => ({
  resourceLogs: [{ resource: resource(service), scopeLogs: [{ scope: { name: 'shop' }, logRecords }] }],
})
const log = (second: number, text: string, more: object = {}): object => ({
  timeUnixNano: String(1_790_000_000_000_000_000n + BigInt(second) * 1_000_000_000n),
  severityNumber: 9,
  body: { stringValue: text },
  ...more,
})
const TRACE = '5b8efff798038103d269b633813fc60c'
const SPAN = 'eee19b7ec3c1b174'

/** ExportLogsServiceRequest with one record: its body is `text`. */
function protobufLog(service: string, text: string): Buffer {
  const field = (tag: number, value: Buffer): Buffer =>
    Buffer.concat([Buffer.from([(tag << 3) | 2, value.byteLength]), value])
  const string = (tag: number, value: string): Buffer => field(tag, Buffer.from(value))
  const keyValue = (key: string, value: string): Buffer =>
    field(1, Buffer.concat([string(1, key), field(2, string(1, value))]))
  const time = Buffer.alloc(9)
  time[0] = (1 << 3) | 1
  time.writeBigUInt64LE(1_790_000_100_000_000_000n, 1)
  const record = Buffer.concat([time, field(5, string(1, text))])
  const ofResource = Buffer.concat([keyValue('service.name', service), keyValue('tenant_id', 'local')])
  return field(1, Buffer.concat([field(1, ofResource), field(2, field(2, record))]))
}

const logStore: Scene = {
  async play(ask) {
    const json = { ...TENANT, 'content-type': 'application/json' }
    await ask('POST', '/v1/otlp/logs', logs('checkout', log(0, 'order 1 placed'), log(1, 'order 2 placed')), json)
    for (const second of [2, 3]) await ask('POST', '/v1/otlp/logs', logs('checkout', log(second, LONG)), json)
    await ask('POST', '/v1/otlp/logs', logs('cart', log(4, 'cart emptied', { traceId: TRACE, spanId: SPAN })), json)
    const span = { traceId: TRACE, spanId: SPAN, name: 'POST /orders', startTimeUnixNano: '1790000005000000000' }
    const traces = { resourceSpans: [{ resource: resource('checkout'), scopeSpans: [{ spans: [span] }] }] }
    await ask('POST', '/v1/otlp/traces', traces, json)
    const headers = { ...TENANT, 'content-type': 'application/x-protobuf' }
    const sent = await fetch(await ask('GET', '/livez').then(({ url }) => url.replace('/livez', '/v1/logs')), {
      method: 'POST',
      headers,
      body: new Uint8Array(protobufLog('native', 'from an exporter')),
    })
    assert.equal(sent.status, 200)
    await ask('POST', '/v1/endpoint/a-1', { url: 'http://x', latency: 1.5, activation_id: 'a-1' })
    const query = (body: object): Look => ({ method: 'POST', path: '/v1/query', headers: TENANT, body })
    return [
      query({ dataset: 'checkout' }),
      query({ dataset: 'checkout', order: 'desc', page: { limit: 1 } }),
      query({ dataset: 'checkout', filter: { search: 'order 2' } }),
      query({ dataset: 'checkout', filter: { trace_id: TRACE } }),
      query({ dataset: 'cart' }),
      query({ dataset: 'native' }),
      get('/v1/endpoint/a-1'),
    ]
  },
}

// The object store: an object in one frame and one in extents, tags, documents, a deleted key. In the checkpoint and behind it an upload under way and one completed.

const objectStore: Scene = {
  async play(ask) {
    await ask('PUT', '/bucket')
    await ask('PUT', '/bucket/before', 'in the first segment', { 'x-obj-meta-author': 'somebody' })
    const begin = async (key: string): Promise<string> =>
      /<UploadId>([^<]+)/.exec(await (await ask('POST', `/bucket/${key}?uploads`)).text())![1]!
    const complete = async (key: string): Promise<void> => {
      const done = await begin(key)
      const part = await ask('PUT', `/bucket/${key}?partNumber=1&uploadId=${done}`, 'z'.repeat(100_000))
      const xml = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.headers.get('etag')}</ETag></Part></CompleteMultipartUpload>`
      await ask('POST', `/bucket/${key}?uploadId=${done}`, xml)
    }
    await complete('in-checkpoint')
    const older = await begin('under-way-in-checkpoint')
    const olderPart = `/bucket/under-way-in-checkpoint?partNumber=2&uploadId=${older}`
    await ask('PUT', olderPart, 'w'.repeat(70_000))
    for (const key of ['long-1', 'long-2']) await ask('PUT', `/bucket/${key}`, LONG)
    await ask('PUT', '/bucket/small', 'a small body', { 'content-type': 'text/plain', 'x-obj-tagging': 'colour=blue' })
    await ask('PUT', '/bucket/over', 'written once')
    await ask('PUT', '/bucket/over', 'written twice')
    await ask('PUT', '/bucket/gone', 'deleted')
    await ask('DELETE', '/bucket/gone')
    await ask('PUT', '/bucket/extents', 'y'.repeat(200_000))
    await complete('in-parts')
    const open = await begin('under-way')
    await ask('PUT', `/bucket/under-way?partNumber=7&uploadId=${open}`, 'part of it')
    await ask('POST', '/v1/endpoint/a-1', { url: 'http://x', latency: 1.5, activation_id: 'a-1' })
    const rule =
      '<CORSRule><AllowedOrigin>https://app.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>'
    await ask('PUT', '/bucket?cors', `<CORSConfiguration>${rule}</CORSConfiguration>`)
    return [
      get('/bucket?list-type=2'),
      get('/bucket?cors'),
      ...['before', 'small', 'over', 'extents', 'in-checkpoint', 'in-parts', 'long-1', 'small?tagging'].map((key) =>
        get(`/bucket/${key}`),
      ),
      { method: 'HEAD', path: '/bucket/gone' },
      get(`/bucket/under-way?uploadId=${open}`),
      get(`/bucket/under-way-in-checkpoint?uploadId=${older}`),
      get('/v1/endpoint/a-1/recent'),
    ]
  },
}

// The broker: every kind of frame in the second segment, which a start applies one by one, and a sealed one before it.

const broker: Scene = {
  async play(ask) {
    const failure_policy = { max_attempts: 3, dead_letter_stream: 'dead' }
    await ask('PUT', '/v1/streams/orders', { failure_policy })
    await ask('PUT', '/v1/streams/dead', {})
    await ask('PUT', '/v1/streams/filler', {})
    for (const message_id of ['long-1', 'long-2'])
      await ask('POST', '/v1/streams/filler/records', { message_id, payload: LONG })
    const records = Array.from({ length: 8 }, (_, i) => ({
      message_id: `m-${i}`,
      payload: `order ${i}`,
      key: `k-${i % 2}`,
    }))
    await ask('POST', '/v1/streams/orders/records/batch', { records })
    const group = '/v1/streams/orders/consumer-groups/workers'
    const claim = async (
      max_messages: number,
    ): Promise<{ subscription_id: string; deliveries: { delivery_id: string }[] }> => {
      const reply = await ask('POST', `${group}/claims`, { max_messages, lease_timeout_millis: 600_000 })
      return (await reply.json()) as Awaited<ReturnType<typeof claim>>
    }
    const { subscription_id, deliveries } = await claim(5)
    const of = (index: number, verb: string): string =>
      `/v1/streams/orders/subscriptions/${subscription_id}/deliveries/${deliveries[index]!.delivery_id}/${verb}`
    await ask('POST', of(0, 'ack'), {})
    await ask('POST', of(1, 'nack'), { reason: 'not now', requeue: false })
    await ask('POST', of(2, 'retry'), { reason: 'again', delay_millis: 0 })
    await ask('POST', of(3, 'renew'), { extend_by_millis: 1000 })
    await ask('POST', of(3, 'ack'), {})
    await ask('POST', of(4, 'dead-letter'), { dead_letter_stream: 'dead', reason: 'cannot be parsed' })
    await ask('POST', '/v1/streams/dead/dead-letters/redrive', { offsets: [0] })
    await ask('PUT', `${group}/cursors/main`, { offset: 4 })
    await ask('POST', `${group}/cursors/main/rewind`, { offset: 2, reason: 'looked again' })
    await ask('POST', '/v1/replication/target/apply', {
      source_site: 'a',
      target_site: 'b',
      policy: 'dr',
      stream: 'copied',
      records: [{ origin_offset: 0, message_id: 'r-0', payload_hex: '00ff', event_time_ms: 1, ingest_time_ms: 2 }],
    })
    return [
      get('/v1/streams/orders'),
      ...['orders', 'dead', 'copied', 'filler'].map((stream) => get(`/v1/streams/${stream}/records`)),
      get(group),
      get(`${group}/cursors`),
      get('/v1/audit/events?start_offset=0&max_records=3'),
    ]
  },
}

const SCENES: Readonly<Record<StoredService, Scene>> = { logstore: logStore, objectstore: objectStore, broker }

async function write(name: StoredService, scene: Scene): Promise<void> {
  const directory = mkdtempSync(`${tmpdir()}/trilog-fixture-`)
  const first = await startStored(name, `${directory}/first`)
  const looks = await scene.play(askOf(first))
  await first.stop()
  const files = packDirectory(`${directory}/first`)
  unpackDirectory({ files }, `${directory}/again`)
  const again = await startStored(name, `${directory}/again`)
  const seen: SeenLook[] = []
  for (const look of looks) seen.push(await see(again.url, look))
  await again.stop()
  mkdirSync(FIXTURES, { recursive: true })
  const text = JSON.stringify({ made_by: release.version, looks: seen, files }, null, 2)
  writeFileSync(`${FIXTURES}/${name}-${release.version}.json`, `${text}\n`)
  console.log(`${name}: ${text.length} bytes`)
  rmSync(directory, { recursive: true })
}

const chosen = process.argv.slice(2)
for (const name of STORED_SERVICES) if (chosen.length === 0 || chosen.includes(name)) await write(name, SCENES[name])
