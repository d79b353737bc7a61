/**
 * One HTTP/2 connection that carries one gRPC call at a time, built for sending cheaply, as HttpConnection is (its C1 and C2 hold here too). It speaks
 * as much of HTTP/2 as a unary call needs, and does not decode headers: a call succeeded when its answer has a message.
 *
 * W1  no more is sent than the windows of stream and connection allow
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { ConnectionError, fromSocketError } from './http-connection.ts'
import type { HttpConnectionOptions, TimedResponse } from './http-connection.ts'

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const FRAME_HEAD_BYTES = 9
const MESSAGE_HEAD_BYTES = 5
/** What every server takes, and what most clients send. */
const FRAME_BYTES_MAX = 16_384
const WINDOW_DEFAULT = 65_535

const DATA = 0
const HEADERS = 1
const RST_STREAM = 3
const SETTINGS = 4
const PING = 6
const GOAWAY = 7
const WINDOW_UPDATE = 8

const END_STREAM = 1
const ACK = 1
const END_HEADERS = 4

const INITIAL_WINDOW_SIZE = 4

export interface GrpcConnectionOptions extends HttpConnectionOptions {
  readonly isCompressed: boolean
}

interface Call {
  readonly id: number
  readonly body: Buffer
  readonly resolve: (response: TimedResponse) => void
  readonly reject: (error: ConnectionError) => void
  readonly timer: NodeJS.Timeout
  sent: number
  window: number
  hasMessage: boolean
}

export class GrpcConnection {
  readonly #options: GrpcConnectionOptions
  #socket: Socket | null = null
  #opening: { resolve: () => void; reject: (error: ConnectionError) => void } | null = null
  #call: Call | null = null
  #nextId = 1
  #window = WINDOW_DEFAULT
  #initialWindow = WINDOW_DEFAULT
  #received: Buffer = Buffer.alloc(0)

  constructor(options: GrpcConnectionOptions) {
    this.#options = options
  }

  get isOpen(): boolean {
    return this.#socket !== null
  }

  /** Resolves with the settings of the server. @throws ConnectionError */
  open(): Promise<void> {
    const { target, timeoutMs } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const socket = connect({ ...target, noDelay: true })
    const timer = setTimeout(() => {
      this.#fail(socket, new ConnectionError('timeout', `no connection within ${timeoutMs} ms`))
    }, timeoutMs)
    this.#socket = socket
    this.#opening = {
      resolve: () => {
        clearTimeout(timer)
        resolve()
      },
      reject,
    }
    this.#nextId = 1
    this.#window = this.#initialWindow = WINDOW_DEFAULT
    this.#received = Buffer.alloc(0)
    socket.write(Buffer.concat([PREFACE, frameHead(SETTINGS, 0, 0, 0)]))
    socket.on('data', (bytes) => this.#read(socket, bytes))
    socket.on('error', (error) => this.#fail(socket, fromSocketError(error)))
    socket.on('close', () => {
      clearTimeout(timer)
      this.#fail(socket, new ConnectionError('connection_reset', 'the server closed the connection'))
    })
    return promise
  }

  /** @param head a block of headers @throws ConnectionError */
  send(head: Buffer, body: Buffer | null): Promise<TimedResponse> {
    const socket = this.#socket
    if (socket === null) return Promise.reject(new ConnectionError('connection_reset', 'the connection is closed'))
    const { timeoutMs, isCompressed } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<TimedResponse>()
    const timer = setTimeout(() => {
      this.#fail(socket, new ConnectionError('timeout', `no answer within ${timeoutMs} ms`))
    }, timeoutMs)
    const id = this.#nextId
    this.#nextId += 2
    const message = body ?? Buffer.alloc(0)
    const messageHead = Buffer.alloc(MESSAGE_HEAD_BYTES)
    messageHead[0] = isCompressed ? 1 : 0
    messageHead.writeUInt32BE(message.byteLength, 1)
    this.#call = { id, body: message, resolve, reject, timer, sent: 0, window: this.#initialWindow, hasMessage: false }
    this.#window -= MESSAGE_HEAD_BYTES
    this.#call.window -= MESSAGE_HEAD_BYTES
    socket.cork()
    socket.write(frameHead(HEADERS, END_HEADERS, id, head.byteLength))
    socket.write(head)
    socket.write(frameHead(DATA, message.byteLength === 0 ? END_STREAM : 0, id, MESSAGE_HEAD_BYTES))
    socket.write(messageHead)
    this.#sendBody(socket)
    socket.uncork()
    return promise
  }

  /** Closes at once; a call in flight fails with kind `aborted`. */
  destroy(): void {
    if (this.#socket !== null) this.#fail(this.#socket, new ConnectionError('aborted', 'the run ended'))
  }

  /** W1 */
  #sendBody(socket: Socket): void {
    const call = this.#call
    if (call === null) return
    socket.cork()
    while (call.sent < call.body.byteLength) {
      const bytes = Math.min(FRAME_BYTES_MAX, this.#window, call.window, call.body.byteLength - call.sent)
      if (bytes <= 0) break
      const isLast = call.sent + bytes === call.body.byteLength
      socket.write(frameHead(DATA, isLast ? END_STREAM : 0, call.id, bytes))
      socket.write(call.body.subarray(call.sent, call.sent + bytes))
      call.sent += bytes
      call.window -= bytes
      this.#window -= bytes
    }
    socket.uncork()
  }

  #read(socket: Socket, bytes: Buffer): void {
    if (socket !== this.#socket) return
    let left = this.#received.byteLength === 0 ? bytes : Buffer.concat([this.#received, bytes])
    while (left.byteLength >= FRAME_HEAD_BYTES) {
      const end = FRAME_HEAD_BYTES + left.readUIntBE(0, 3)
      if (left.byteLength < end) break
      this.#take(socket, left[3]!, left[4]!, left.readUInt32BE(5), left.subarray(FRAME_HEAD_BYTES, end))
      left = left.subarray(end)
    }
    this.#received = left
  }

  #take(socket: Socket, type: number, flags: number, id: number, payload: Buffer): void {
    const isOfCall = this.#call !== null && id === this.#call.id
    switch (type) {
      case SETTINGS:
        if ((flags & ACK) === 0) this.#takeSettings(socket, payload)
        return
      case PING:
        if ((flags & ACK) === 0) socket.write(Buffer.concat([frameHead(PING, ACK, 0, payload.byteLength), payload]))
        return
      case WINDOW_UPDATE:
        if (id === 0) this.#window += payload.readUInt32BE(0)
        else if (isOfCall) this.#call!.window += payload.readUInt32BE(0)
        return this.#sendBody(socket)
      case DATA:
        if (isOfCall) this.#call!.hasMessage = true
        return
      case HEADERS:
        if (isOfCall && (flags & END_STREAM) !== 0) this.#answered(socket)
        return
      case RST_STREAM:
        if (isOfCall) this.#fail(socket, new ConnectionError('connection_reset', 'the server reset the stream'))
        return
      case GOAWAY:
        this.#fail(socket, new ConnectionError('connection_reset', 'the server goes away'))
    }
  }

  #takeSettings(socket: Socket, payload: Buffer): void {
    for (let at = 0; at < payload.byteLength; at += 6) {
      if (payload.readUInt16BE(at) === INITIAL_WINDOW_SIZE) this.#initialWindow = payload.readUInt32BE(at + 2)
    }
    socket.write(frameHead(SETTINGS, ACK, 0, 0))
    this.#opening?.resolve()
    this.#opening = null
  }

  #answered(socket: Socket): void {
    const { resolve, timer, hasMessage, sent, body } = this.#call!
    clearTimeout(timer)
    this.#call = null
    resolve({
      status: hasMessage ? 200 : 503, // whether a refusal left something behind is not known here
      contentType: 'application/grpc',
      retryAfterSeconds: null,
      keepAlive: true,
      body: Buffer.alloc(0),
      completedAtMs: this.#options.nowMs(),
    })
    if (sent < body.byteLength) this.#fail(socket, new ConnectionError('connection_reset', 'answered early'))
  }

  #fail(socket: Socket, error: ConnectionError): void {
    if (socket !== this.#socket) return
    socket.destroy()
    this.#socket = null
    this.#opening?.reject(error)
    this.#opening = null
    const call = this.#call
    this.#call = null
    if (call === null) return
    clearTimeout(call.timer)
    call.reject(error)
  }
}

function frameHead(type: number, flags: number, id: number, payloadBytes: number): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES)
  head.writeUIntBE(payloadBytes, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(id, 5)
  return head
}

/** A block of headers without compression: literal ones that are not indexed. */
export function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  return Buffer.concat(
    Object.entries(headers).flatMap(([name, value]) => [Buffer.of(0), lengthAndText(name), lengthAndText(value)]),
  )
}

/** Integers of HPACK with a prefix of 7 bits (RFC 7541, 5.1). */
function lengthAndText(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const length: number[] = []
  if (bytes.byteLength < 0x7f) length.push(bytes.byteLength)
  else {
    let rest = bytes.byteLength - 0x7f
    length.push(0x7f)
    for (; rest >= 0x80; rest >>>= 7) length.push((rest & 0x7f) | 0x80)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), bytes])
}
