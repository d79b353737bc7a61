/** trilog's broker: frames over its streaming connection, and one request after the other over HTTP. */
import { randomBytes } from 'node:crypto'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import {
  CONNECTION_PATH,
  FrameReader,
  FrameWriter,
  PROTOCOL,
  PUBLISH,
  PUBLISHED,
} from '../../../src/broker/wire/connection-frames.ts'
import { startServer, until } from '../server.ts'
import type { Server } from '../server.ts'
import { Pipe, Repeated, Unread } from './pipe.ts'
import type { Piped, Protocol } from './pipe.ts'

const READY = /^ready (\{.*\})$/m
const STREAM = 'load'
const BATCH_RECORDS_MAX = 1000
const HEAD_END = '\r\n\r\n'
const BINARY = 2
const PING = 9
const PONG = 10

/** One node, over both ways. @param tree of its sources */
export async function pipedTrilog(directory: string, payloadBytes: number, tree: URL): Promise<[Piped, Piped]> {
  const { server, url } = await startBroker(directory, [], tree)
  const created = await fetch(`${url}/v1/streams/${STREAM}`, { method: 'PUT' })
  if (!created.ok) throw new Error(await created.text())
  const port = Number(new URL(url).port)
  return [
    pipedOver('trilog, connection', server, () => Pipe.open(port, framesOf(payloadBytes))),
    pipedOver('trilog, HTTP', server, () => Pipe.open(port, requestsOf(payloadBytes))),
  ]
}

export interface HttpOptions {
  readonly directory: string
  readonly payloadBytes: number
  readonly flags?: readonly string[]
  readonly apiKey?: string
  /** The authority of its certificate, when it speaks TLS. */
  readonly ca?: Buffer
}

export type HttpPiped = Omit<Piped, 'version'>

/** A node of some mode, over HTTP. */
export async function pipedHttp(name: string, options: HttpOptions): Promise<HttpPiped> {
  const { directory, payloadBytes, flags = [], apiKey, ca = null } = options
  const { server, url } = await startBroker(directory, flags)
  const port = Number(new URL(url).port)
  const header = apiKey === undefined ? '' : `authorization: Bearer ${apiKey}\r\n`
  const open = (protocol: Protocol): Promise<Pipe> => Pipe.open(port, protocol, ca)
  const creating = await open(oneRequest(`PUT /v1/streams/${STREAM} HTTP/1.1\r\nhost: localhost\r\n${header}`, ''))
  await creating.publish(1, 1)
  creating.close()
  return { name, server, open: () => open(requestsOf(payloadBytes, header)) }
}

export async function startBroker(
  directory: string,
  flags: readonly string[] = [],
  tree: URL = new URL('../../../', import.meta.url),
): Promise<{ readonly server: Server; readonly url: string }> {
  const main = fileURLToPath(new URL('src/cli/mq.js', tree))
  const place = ['--http-bind', '127.0.0.1:0', '--data-dir', `${directory}/data`]
  const server = startServer(process.execPath, ['--v8-pool-size=0', main, ...place, ...flags])
  await until(server, () => READY.test(server.stdout()))
  const { http } = JSON.parse(READY.exec(server.stdout())![1]!) as { http: string } // as the contract says
  return { server, url: `http://${http}` }
}

const pipedOver = (name: string, server: Server, open: () => Promise<Pipe>): Piped => ({
  name,
  version: 'local-sync',
  server,
  open,
})

/** One request at a time: the next begins when the one before is answered, so a window of 1 is all there is. */
function requestsOf(payloadBytes: number, header = ''): Protocol {
  const body = JSON.stringify({ message_id: 'message-0000012345', payload: 'x'.repeat(payloadBytes) })
  return oneRequest(`POST /v1/streams/${STREAM}/records HTTP/1.1\r\nhost: localhost\r\n${header}`, body)
}

/** @param head its lines, each with its end */
function oneRequest(head: string, body: string): Protocol {
  const messages = new Repeated(Buffer.from(`${head}content-length: ${body.length}${HEAD_END}${body}`))
  const unread = new Unread()
  return {
    encode: (records) => messages.times(records),
    count(chunk) {
      const bytes = unread.add(chunk)
      const headEnd = bytes.indexOf(HEAD_END)
      if (headEnd < 0) return 0
      const text = bytes.toString('latin1', 0, headEnd)
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      if (bytes.byteLength < headEnd + HEAD_END.length + length) return 0
      if (!text.startsWith('HTTP/1.1 201')) throw new Error(bytes.toString())
      unread.keepFrom(headEnd + HEAD_END.length + length)
      return 1
    },
  }
}

function framesOf(payloadBytes: number): Protocol {
  const writer = new FrameWriter()
  const record = {
    messageId: 'message-0000012345',
    payload: 'x'.repeat(payloadBytes),
    key: null,
    headers: {},
    eventTimeMs: null,
  }
  const unread = new Unread()
  let socket: Socket | null = null
  return {
    encode(records) {
      writer.clear()
      for (let left = records; left > 0; left -= BATCH_RECORDS_MAX) {
        const count = Math.min(left, BATCH_RECORDS_MAX)
        writer.begin(PUBLISH, 0, 0, STREAM)
        for (let i = 0; i < count; i += 1) writer.record(record)
        writer.end(count)
      }
      return message(BINARY, Buffer.from(writer.written))
    },
    count(chunk) {
      const bytes = unread.add(chunk)
      let stored = 0
      let at = 0
      for (let next = messageAt(bytes, at); next !== null; next = messageAt(bytes, at)) {
        if (next.opcode === PING) socket!.write(message(PONG, next.payload))
        else if (next.opcode === BINARY) stored += countStored(next.payload)
        else throw new Error(`a message of kind ${next.opcode}: ${next.payload.toString()}`)
        at = next.end
      }
      unread.keepFrom(at)
      return stored
    },
    greet(opened) {
      socket = opened
      const lines = [
        `GET ${CONNECTION_PATH} HTTP/1.1`,
        'host: localhost',
        'upgrade: websocket',
        'connection: upgrade',
        `sec-websocket-key: ${randomBytes(16).toString('base64')}`,
        'sec-websocket-version: 13',
        `sec-websocket-protocol: ${PROTOCOL}`,
      ]
      opened.write(`${lines.join('\r\n')}${HEAD_END}`)
      return new Promise((resolve, reject) => {
        opened.once('data', (answer: Buffer) => {
          if (answer.toString('latin1').startsWith('HTTP/1.1 101')) resolve()
          else reject(new Error(answer.toString()))
        })
      })
    },
  }
}

function countStored(frames: Buffer): number {
  const frame = new FrameReader(frames)
  let stored = 0
  while (frame.next()) {
    if (frame.type !== PUBLISHED) throw new Error(frame.text())
    stored += frame.count
  }
  return stored
}

/** A message of the client: masked, as it must be, with zeros, which change nothing. */
function message(opcode: number, payload: Buffer): Buffer {
  const length = payload.byteLength
  const head = Buffer.alloc(length < 126 ? 6 : length < 65_536 ? 8 : 14)
  head[0] = 0x80 | opcode
  if (length < 126) head[1] = 0x80 | length
  else if (length < 65_536) {
    head[1] = 0x80 | 126
    head.writeUInt16BE(length, 2)
  } else {
    head[1] = 0x80 | 127
    head.writeBigUInt64BE(BigInt(length), 2)
  }
  return Buffer.concat([head, payload])
}

/** A message of the server, which is not masked. Null: it is not complete. */
function messageAt(bytes: Buffer, at: number): { opcode: number; payload: Buffer; end: number } | null {
  if (bytes.byteLength < at + 10 && bytes.byteLength < at + 2 + (bytes[at + 1] ?? 127)) return null
  const short = bytes[at + 1]!
  const from = short < 126 ? at + 2 : short === 126 ? at + 4 : at + 10
  if (bytes.byteLength < from) return null
  const length =
    short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
  const end = from + length
  return end > bytes.byteLength ? null : { opcode: bytes[at]! & 15, payload: bytes.subarray(from, end), end }
}
