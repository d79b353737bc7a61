/** Requests to a running service, and its answers. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { LIMIT_MS, eventually } from './waiting.ts'

export const JSON_TYPE = 'application/json'

/** Bytes and texts are sent as they are, other objects as JSON. */
export type RequestBody = Uint8Array | string | object | null

export class HttpReply {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Buffer

  constructor(status: number, headers: Headers, bytes: Buffer) {
    this.status = status
    this.headers = headers
    this.bytes = bytes
  }

  get text(): string {
    return this.bytes.toString()
  }

  json(): unknown {
    assert.equal(this.headers.get('content-type'), JSON_TYPE, this.text)
    return JSON.parse(this.text)
  }
}

/** Class of a service's answers. */
export type ReplyClass<Reply> = new (status: number, headers: Headers, bytes: Buffer) => Reply

export async function send<Reply>(
  replyClass: ReplyClass<Reply>,
  method: string,
  url: string,
  body: RequestBody,
  headers: Headers,
): Promise<Reply> {
  const bytes =
    body === null || body instanceof Uint8Array
      ? body
      : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const ask = (): Promise<Response> =>
    fetch(url, {
      method,
      headers,
      body: bytes as Uint8Array<ArrayBuffer> | null, // no test sends shared memory
      signal: AbortSignal.timeout(LIMIT_MS),
    })
  const response = await ask().catch((error: unknown) => {
    if (wasIdle(error)) return ask()
    throw error
  })
  return new replyClass(response.status, response.headers, Buffer.from(await response.arrayBuffer()))
}

/**
 * Whether the service had closed the idle connection that the request was sent on. fetch measures idle time in its own turns, so a process that
 * had to wait for the machine uses connections that the service has given up.
 */
function wasIdle(error: unknown): boolean {
  const { code, socket } = ((error as Error).cause ?? {}) as {
    readonly code?: string
    readonly socket?: { readonly bytesRead: number }
  }
  return code === 'UND_ERR_SOCKET' && socket !== undefined && socket.bytesRead > 0
}

/** A socket of its own, to send what no HTTP client sends. */
export class Connection<Reply> {
  readonly socket: Socket
  readonly #replyClass: ReplyClass<Reply>
  #received = Buffer.alloc(0)
  #closed = false

  /** @param address host:port */
  static async open<Reply>(address: string, replyClass: ReplyClass<Reply>): Promise<Connection<Reply>> {
    const [host, port] = address.split(':')
    const socket = connect(Number(port), host)
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
    return new Connection(socket, replyClass)
  }

  private constructor(socket: Socket, replyClass: ReplyClass<Reply>) {
    this.socket = socket
    this.#replyClass = replyClass
    socket.setNoDelay()
    socket.on('data', (bytes) => (this.#received = Buffer.concat([this.#received, bytes])))
    socket.on('error', () => {}) // a reset is a close
    socket.on('close', () => (this.#closed = true))
  }

  get closed(): boolean {
    return this.#closed
  }

  write(bytes: Uint8Array | string): void {
    this.socket.write(bytes)
  }

  /** The next answer on the connection. */
  async reply(): Promise<Reply> {
    let headEnd = -1
    await eventually(() => (headEnd = this.#received.indexOf('\r\n\r\n')) >= 0 || this.#closed)
    assert(headEnd >= 0, 'the connection was closed without an answer')
    const [statusLine, ...lines] = this.#received.subarray(0, headEnd).toString('latin1').split('\r\n')
    const headers = new Headers(
      lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
    )
    const end = headEnd + 4 + Number(headers.get('content-length') ?? 0)
    await eventually(() => this.#received.byteLength >= end || this.#closed)
    const body = this.#received.subarray(headEnd + 4, end)
    this.#received = this.#received.subarray(end)
    return new this.#replyClass(Number(statusLine!.split(' ')[1]), headers, body)
  }

  close(): void {
    this.socket.destroy()
  }
}
