/**
 * What does the streaming connection carry? Durable publishes of 200 bytes from four connections, and deliveries that are pushed and
 * acknowledged, by raw frames and by the client library; and one publisher alone, beside the same over HTTP. The load runs in this process, beside the node. Shown are operations per second,
 * the processor time of the node for each, and medians of one alone. `--smoke` runs each once, so that CI catches rot.
 *
 *   npm run bench:connection
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import {
  ACK,
  ACKED,
  DELIVERIES,
  FrameReader,
  FrameWriter,
  ID_BYTES,
  PUBLISH,
  PUBLISHED,
  REFUSED,
  REQUEST,
} from '../src/broker/wire/connection-frames.ts'
import { HttpNativeClient } from '../src/client/index.ts'
import { Service } from './support/service.ts'

const smoke = process.argv.includes('--smoke')
const CONNECTIONS = 4
const RECORDS = smoke ? 400 : 400_000
/** Records in flight on one connection. */
const WINDOW = smoke ? 50 : 2000
const BATCH = smoke ? 25 : 500
const ALONE = smoke ? 5 : 2000
const ROUNDS = smoke ? 1 : 3
const PAYLOAD = new TextEncoder().encode('payload '.repeat(25))
const STREAM = 'bench'
const TICKS_PER_SECOND = 100

const dataDirectory = mkdtempSync(`${tmpdir()}/trilog-bench-connection-`)
const service = await Service.start('broker', { MQ_DATA_DIR: dataDirectory, MQ_HTTP_BIND: '127.0.0.1:0' })
const http = await HttpNativeClient.connect(service.url, { producerId: 'bench' })
await http.createStream(STREAM)

/** Processor time of the node so far. */
function cpuMicros(): number {
  const fields = readFileSync(`/proc/${service.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1e6) / TICKS_PER_SECOND
}

class Raw {
  readonly writer = new FrameWriter()
  onFrame: (frame: FrameReader) => void = () => {}
  readonly #socket: WebSocket

  static open(): Promise<Raw> {
    const socket = new WebSocket(`${service.url.replace('http', 'ws')}/v1/connection`, ['trilog.v1'])
    socket.binaryType = 'arraybuffer'
    return new Promise((resolve, reject) => {
      socket.addEventListener('open', () => resolve(new Raw(socket)))
      socket.addEventListener('error', () => reject(new Error('the connection failed')))
    })
  }

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => {
      const frame = new FrameReader(new Uint8Array(data as ArrayBuffer)) // asked for above
      while (frame.next()) {
        if (frame.type === REFUSED) throw new Error(frame.text())
        this.onFrame(frame)
      }
    })
  }

  send(): void {
    this.#socket.send(this.writer.written)
    this.writer.clear()
  }

  close(): void {
    this.#socket.close()
  }
}

function publishOn(raw: Raw, records: number): Promise<void> {
  let sent = 0
  let done = 0
  const record = { messageId: 'message-0000012345', payload: PAYLOAD, key: null, headers: {}, eventTimeMs: null }
  const more = (): void => {
    while (sent < records && sent - done + BATCH <= WINDOW) {
      const count = Math.min(BATCH, records - sent)
      raw.writer.begin(PUBLISH, 0, 0, STREAM)
      for (let i = 0; i < count; i++) raw.writer.record(record)
      raw.writer.end(count)
      raw.send()
      sent += count
    }
  }
  return new Promise((resolve) => {
    raw.onFrame = ({ type, count }) => {
      if (type !== PUBLISHED) return
      done += count
      if (done >= records) resolve()
      else more()
    }
    more()
  })
}

/** Shared by all connections of a group: so many are to come. */
class Remaining {
  count: number

  constructor(count: number) {
    this.count = count
  }
}

function consumeOn(raw: Raw, group: string, left: Remaining): Promise<void> {
  let acked = 0
  const request = (message: object): void => {
    raw.writer.begin(REQUEST, 0, 1, '')
    raw.writer.text(JSON.stringify(message))
    raw.writer.end(1)
  }
  return new Promise((resolve) => {
    raw.onFrame = (frame) => {
      const { type, count, bodyAt, bytes, view } = frame
      if (type === ACKED) {
        acked -= count
        left.count -= count
      } else if (type === DELIVERIES) {
        acked += count
        raw.writer.begin(ACK, 0, 100, STREAM)
        const subscription = bytes.subarray(bodyAt + 32, bodyAt + 32 + ID_BYTES)
        let at = bodyAt + 32 + ID_BYTES
        for (let i = 0; i < count; i++) {
          raw.writer.raw(subscription)
          raw.writer.raw(bytes.subarray(at, at + ID_BYTES))
          at += ID_BYTES + 20
          at += view.getUint32(at, true)
        }
        raw.writer.end(count)
        request({ op: 'credit', subscription: 0, credit: count })
        raw.send()
      }
      if (left.count <= 0 && acked <= 0) resolve()
    }
    raw.writer.begin(REQUEST, 0, 0, '')
    raw.writer.text(
      JSON.stringify({
        op: 'subscribe',
        stream: STREAM,
        consumer_group: group,
        credit: WINDOW,
        lease_timeout_millis: 600_000,
      }),
    )
    raw.writer.end(1)
    raw.send()
    const looking = setInterval(() => {
      if (left.count > 0) return
      clearInterval(looking)
      resolve()
    }, 5)
  })
}

const rows: object[] = []
async function measured(what: string, records: number, run: () => Promise<unknown>): Promise<void> {
  const beganCpu = cpuMicros()
  const beganMs = performance.now()
  await run()
  const ms = performance.now() - beganMs
  rows.push({
    what,
    'per second': Math.round((1000 * records) / ms),
    'CPU µs of the node': Number(((cpuMicros() - beganCpu) / records).toPrecision(3)),
  })
}

const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => Raw.open()))
const streaming = await HttpNativeClient.connect(service.url, { producerId: 'bench', streaming: true })

for (let round = 0; round < ROUNDS; round += 1) {
  await measured('publish, raw frames, 4 connections', RECORDS, () =>
    Promise.all(connections.map((each) => publishOn(each, RECORDS / CONNECTIONS))),
  )
  const left = new Remaining(RECORDS * (round + 1))
  const pushed = await Promise.all(Array.from({ length: CONNECTIONS }, () => Raw.open()))
  await measured('push with ack, raw frames, 4 connections', left.count, () =>
    Promise.all(pushed.map((each) => consumeOn(each, `round-${round}`, left))),
  )
  for (const each of pushed) each.close()
}

const record = { message_id: 'message-0000012345', payload: PAYLOAD }
const loops = async (client: HttpNativeClient, records: number, inFlight: number): Promise<void> => {
  let next = 0
  const loop = async (): Promise<void> => {
    while (next++ < records) await client.publish(STREAM, record)
  }
  await Promise.all(Array.from({ length: inFlight }, loop))
}
await measured('publish, client library, 1 connection', RECORDS / 2, () => loops(streaming, RECORDS / 2, WINDOW))
let handled = 0
const ended = new AbortController()
const consumed = streaming.subscribeQueue(STREAM, 'library', {
  prefetch: 1000,
  concurrency: smoke ? 10 : 500,
  signal: ended.signal,
})
await measured('push with ack, client library, 1 connection', RECORDS / 4, () =>
  consumed.handle(() => {
    handled += 1
    if (handled >= RECORDS / 4) ended.abort()
  }),
)

const medianOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
async function alone(client: HttpNativeClient): Promise<number> {
  const micros: number[] = []
  for (let i = 0; i < ALONE; i += 1) {
    const beganMs = performance.now()
    await client.publish(STREAM, record)
    micros.push(1000 * (performance.now() - beganMs))
  }
  return Math.round(medianOf(micros))
}
const lone: object[] = []
for (let round = 0; round < ROUNDS; round += 1) {
  lone.push({ 'alone, HTTP, p50 µs': await alone(http), 'alone, streaming, p50 µs': await alone(streaming) })
}

console.table(rows)
console.table(lone)
console.log({ node: process.version })
for (const each of connections) each.close()
await streaming.close()
await http.close()
await service.stop()
rmSync(dataDirectory, { recursive: true })
