/** A WebSocket written by hand over a TCP connection: it sends what no client sends, cut where a test wants, and reads when the test wants. */
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { eventually } from './waiting.ts'

export const TEXT = 1
export const BINARY = 2
const CLOSE = 8
const PING = 9
const PONG = 10

export interface UpgradeOptions {
  readonly path?: string
  readonly host?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Certificate of the server's authority; with it, the connection uses TLS. */
  readonly ca?: string
}

/** A frame as a client sends it: with a mask, here of zeros. */
export function clientFrame(opcode: number, payload: Uint8Array | string): Buffer {
  const bytes = Buffer.from(payload as string)
  const { byteLength } = bytes
  const isLong = byteLength > 0xffff
  const head = Buffer.alloc(byteLength < 126 ? 6 : isLong ? 14 : 8)
  head[0] = 0x80 | opcode
  head[1] = 0x80 | (byteLength < 126 ? byteLength : isLong ? 127 : 126)
  if (isLong) head.writeUInt32BE(byteLength, 6)
  else if (byteLength >= 126) head.writeUInt16BE(byteLength, 2)
  return Buffer.concat([head, bytes])
}

export class RawWebSocket {
  readonly socket: Socket
  /** Status of the answer to the upgrade. */
  status = 0
  headers = new Map<string, string>()
  body = ''
  readonly messages: Buffer[] = []
  /** Bytes received after the upgrade: messages with their frame headers. */
  receivedBytes = 0
  /** Code and reason of the close frame. */
  closing: readonly [number, string] | null = null
  isClosed = false
  #rest = Buffer.alloc(0)
  #isOpen = false

  static async open(address: string, options: UpgradeOptions = {}): Promise<RawWebSocket> {
    const [host, port] = address.split(':')
    const { ca } = options
    const tls = ca === undefined ? null : { host: host!, port: Number(port), ca, servername: 'localhost' }
    const opened = new RawWebSocket(tls ? connectTls(tls) : connect(Number(port), host))
    opened.#upgrade(options, address)
    await eventually(() => opened.status !== 0 || opened.isClosed)
    return opened
  }

  constructor(socket: Socket) {
    this.socket = socket
    socket.setNoDelay()
    socket.on('error', () => {}) // a reset is a close
    socket.on('close', () => (this.isClosed = true))
    socket.on('data', (bytes) => this.#take(bytes))
  }

  text(value: unknown): void {
    this.socket.write(clientFrame(TEXT, JSON.stringify(value)))
  }

  binary(bytes: Uint8Array): void {
    this.socket.write(clientFrame(BINARY, bytes))
  }

  /** Text messages, parsed as JSON. */
  get said(): readonly Readonly<Record<string, unknown>>[] {
    return this.messages.map((each) => JSON.parse(each.toString()) as Record<string, unknown>)
  }

  async answer(id: number): Promise<Readonly<Record<string, unknown>>> {
    const found = (): Readonly<Record<string, unknown>> | undefined => this.said.find((each) => each['id'] === id)
    await eventually(() => found() !== undefined || this.isClosed)
    const answer = found()
    if (answer === undefined) throw new Error(`closed without an answer to ${id}: ${String(this.closing)}`)
    return answer
  }

  destroy(): void {
    this.socket.destroy()
  }

  #upgrade({ path = '/v1/connection', host, headers = {} }: UpgradeOptions, address: string): void {
    const all = {
      host: host ?? address,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
      ...headers,
    }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  }

  #take(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes])
    if (this.#isOpen) this.receivedBytes += bytes.byteLength
    if (!this.#isOpen && !this.#head()) return
    while (this.#frame());
  }

  #head(): boolean {
    const end = this.#rest.indexOf('\r\n\r\n')
    if (end < 0) return false
    const [first, ...lines] = this.#rest.toString('latin1', 0, end).split('\r\n')
    for (const line of lines) {
      const colon = line.indexOf(':')
      this.headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim())
    }
    const status = Number(first!.split(' ')[1])
    const length = Number(this.headers.get('content-length') ?? 0)
    const behind = this.#rest.subarray(end + 4)
    if (status !== 101 && behind.byteLength < length) return false
    this.status = status
    this.#isOpen = status === 101
    if (!this.#isOpen) this.body = behind.toString()
    this.#rest = behind
    return this.#isOpen
  }

  /** Takes one frame; false: no whole one is there. */
  #frame(): boolean {
    const rest = this.#rest
    if (rest.byteLength < 2) return false
    const short = rest[1]! & 0x7f
    const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10
    if (rest.byteLength < headBytes) return false
    const length = short < 126 ? short : short === 126 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2))
    if (rest.byteLength < headBytes + length) return false
    const payload = rest.subarray(headBytes, headBytes + length)
    const opcode = rest[0]! & 0x0f
    if (opcode === CLOSE) this.closing = [payload.readUInt16BE(0), payload.toString('utf8', 2)]
    else if (opcode === PING) this.socket.write(clientFrame(PONG, payload))
    else if (opcode === TEXT || opcode === BINARY) this.messages.push(Buffer.from(payload))
    this.#rest = rest.subarray(headBytes + length)
    return true
  }
}
