/**
 * One keep-alive HTTP/1.1 connection that carries one request at a time, built for sending cheaply: the caller brings head and
 * body as bytes, both leave in one writev, answers are read into one buffer that is reused.
 *
 * C1  a request is over when its answer is complete *and* its last byte left our buffers: only then may the caller
 *     change the bytes it sent, even when the server answers early
 * C2  every failure (refused, reset, closed early, timed out, unreadable answer) closes the socket and rejects with a
 *     ConnectionError; whether the server acted on that request is then unknown
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { HttpResponseParser, ProtocolError } from './http-response-parser.ts'
import type { HttpResponse } from './http-response-parser.ts'

export interface Target {
  readonly host: string
  readonly port: number
}

/** `kind` is what a summary counts: connection_refused, connection_reset, connection_failed, timeout, bad_response, aborted. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  readonly kind: string

  constructor(kind: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}

export type TimedResponse = HttpResponse & { readonly completedAtMs: number }

/** No other method begins with it. */
const FIRST_BYTE_OF_HEAD = 'H'.charCodeAt(0)

interface Exchange {
  readonly resolve: (response: TimedResponse) => void
  readonly reject: (error: ConnectionError) => void
  readonly timer: NodeJS.Timeout
  response: TimedResponse | null
  flushed: boolean
}

export interface HttpConnectionOptions {
  readonly target: Target
  /** For connecting, and for each request from its first byte out to its last byte back. */
  readonly timeoutMs: number
  readonly nowMs: () => number
}

export class HttpConnection {
  readonly #options: HttpConnectionOptions
  readonly #readBuffer = Buffer.allocUnsafe(64 * 1024)
  #socket: Socket | null = null
  #parser = new HttpResponseParser()
  #exchange: Exchange | null = null
  #rejectOpen: ((error: ConnectionError) => void) | null = null

  constructor(options: HttpConnectionOptions) {
    this.#options = options
  }

  get isOpen(): boolean {
    return this.#socket !== null
  }

  /** @throws ConnectionError */
  open(): Promise<void> {
    const { target, timeoutMs } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const socket = connect({
      ...target,
      noDelay: true,
      onread: {
        buffer: this.#readBuffer,
        callback: (byteCount) => {
          this.#received(socket, this.#readBuffer.subarray(0, byteCount))
          return true
        },
      },
    })
    const timer = setTimeout(() => {
      this.#fail(socket, new ConnectionError('timeout', `no connection within ${timeoutMs} ms`))
    }, timeoutMs)
    this.#socket = socket
    this.#parser = new HttpResponseParser()
    this.#rejectOpen = reject
    socket.once('connect', () => {
      clearTimeout(timer)
      this.#rejectOpen = null
      resolve()
    })
    socket.on('error', (error) => {
      this.#fail(socket, fromSocketError(error))
    })
    socket.on('close', () => {
      clearTimeout(timer)
      this.#fail(socket, new ConnectionError('connection_reset', 'the server closed the connection'))
    })
    return promise
  }

  /**
   * Sends one request and waits for its answer. `head` and `body` must not change until then (C1).
   *
   * @param body null: there is none, or it is in `head` already
   * @throws ConnectionError
   */
  send(head: Buffer, body: Buffer | null): Promise<TimedResponse> {
    const socket = this.#socket
    if (socket === null) return Promise.reject(new ConnectionError('connection_reset', 'the connection is closed'))
    const { timeoutMs } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<TimedResponse>()
    const timer = setTimeout(() => {
      this.#fail(socket, new ConnectionError('timeout', `no answer within ${timeoutMs} ms`))
    }, timeoutMs)
    const exchange: Exchange = { resolve, reject, timer, response: null, flushed: false }
    this.#exchange = exchange
    this.#parser.isToHead = head[0] === FIRST_BYTE_OF_HEAD
    const onFlushed = (): void => {
      exchange.flushed = true
      this.#settle(exchange)
    }
    if (body === null) socket.write(head, onFlushed)
    else {
      socket.cork()
      socket.write(head)
      socket.write(body, onFlushed)
      socket.uncork()
    }
    return promise
  }

  /** Closes at once; a request in flight fails with kind `aborted`. */
  destroy(): void {
    if (this.#socket !== null) this.#fail(this.#socket, new ConnectionError('aborted', 'the run ended'))
  }

  #received(socket: Socket, chunk: Buffer): void {
    if (socket !== this.#socket) return
    try {
      if (this.#exchange === null) throw new ProtocolError('a response to no request')
      const response = this.#parser.push(chunk)
      if (response === null) return
      this.#exchange.response = { ...response, completedAtMs: this.#options.nowMs() }
      this.#settle(this.#exchange)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#fail(socket, new ConnectionError('bad_response', error.message, { cause: error }))
    }
  }

  #settle(exchange: Exchange): void {
    if (exchange !== this.#exchange || exchange.response === null || !exchange.flushed) return // C1
    clearTimeout(exchange.timer)
    this.#exchange = null
    if (!exchange.response.keepAlive) this.#close()
    exchange.resolve(exchange.response)
  }

  #fail(socket: Socket, error: ConnectionError): void {
    if (socket !== this.#socket) return
    this.#close()
    this.#rejectOpen?.(error)
    this.#rejectOpen = null
    const exchange = this.#exchange
    this.#exchange = null
    if (exchange === null) return
    clearTimeout(exchange.timer)
    // A server may refuse early, answer and close without reading the rest: that answer counts.
    if (exchange.response !== null) exchange.resolve(exchange.response)
    else exchange.reject(error)
  }

  #close(): void {
    this.#socket?.destroy()
    this.#socket = null
  }
}

export function fromSocketError(error: Error): ConnectionError {
  const code = 'code' in error ? String(error.code) : ''
  const kind =
    code === 'ECONNREFUSED'
      ? 'connection_refused'
      : code === 'ECONNRESET' || code === 'EPIPE'
        ? 'connection_reset'
        : 'connection_failed'
  return new ConnectionError(kind, error.message, { cause: error })
}
