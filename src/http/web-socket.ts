/**
 * WebSockets, as services see them, over uWebSockets.js.
 *
 * W1  a socket opens once and closes once; nothing is sent after it closed
 * W2  the bytes of a message are valid only while its listener is called
 * W3  the library drops nothing: it buffers messages that the client does not read, and the listener sees by `bufferedBytes` when to stop. A
 *     client that reads nothing is disconnected when it does not answer a ping in time, or when too much is buffered
 */
import type { Exchange, RequestHead } from './exchange.ts'
import type { UwsApp, UwsRequest, UwsResponse, UwsUpgradeContext, UwsWebSocket } from './uws.ts'

/** The service's side of one client's socket. */
export interface SocketListener {
  opened(socket: MessageSocket): void
  /** W2 */
  message(bytes: Uint8Array<ArrayBuffer>, isBinary: boolean): void
  /** The client took some of what was buffered. */
  drained(): void
  closed(): void
  /** The server closes: the listener ends the socket when it has answered the messages that it took. */
  stop(): void
}

export interface MessageSocket {
  /** Bytes that the client has not taken yet. */
  readonly bufferedBytes: number
  /** Messages that are sent inside go out in one piece. */
  sendTogether(send: () => void): void
  send(message: Uint8Array | string, isBinary: boolean): void
  /** Closes the socket behind what was sent. @param reason at most 123 bytes */
  end(code: number, reason: string): void
}

export interface Accepted {
  readonly listener: SocketListener
  /** The sub-protocol that was chosen; '': the client offered none. */
  readonly protocol: string
}

export interface WebSocketEndpoint {
  /** A longer message closes the socket. */
  readonly messageBytesMax: number
  /** Null: the request was refused, and answered. */
  accept(head: RequestHead, exchange: Exchange): Accepted | null
}

/** A socket on which nothing comes for so long is closed; the library pings before, and browsers answer that by themselves. */
const SOCKET_IDLE_SECONDS = 60
/** What the library may buffer for a client that takes nothing (W3), besides BUFFERED_MESSAGES messages. */
const BUFFERED_BYTES_MIN = 64 << 20
/** So many of the longest messages, as in JSON a message is more than twice as long as it came. */
const BUFFERED_MESSAGES = 4
const COMPRESSION_OFF = 0

/** The server's side of a socket. */
export interface SocketHost {
  /** Begins an exchange for the request, and asks the endpoint to accept it. Null: it was refused. */
  accepted(route: string, endpoint: WebSocketEndpoint, response: UwsResponse, request: UwsRequest): Accepted | null
  opened(socket: OpenSocket): void
  closed(socket: OpenSocket): void
}

/** W1 */
export class OpenSocket implements MessageSocket {
  readonly listener: SocketListener
  readonly #socket: UwsWebSocket
  #isClosed = false

  constructor(socket: UwsWebSocket, listener: SocketListener) {
    this.#socket = socket
    this.listener = listener
  }

  get bufferedBytes(): number {
    return this.#isClosed ? 0 : this.#socket.getBufferedAmount()
  }

  sendTogether(send: () => void): void {
    if (!this.#isClosed) this.#socket.cork(send)
  }

  send(message: Uint8Array | string, isBinary: boolean): void {
    if (!this.#isClosed) this.#socket.send(message, isBinary)
  }

  end(code: number, reason: string): void {
    if (!this.#isClosed) this.#socket.end(code, reason)
  }

  closed(): void {
    this.#isClosed = true
    this.listener.closed()
  }
}

interface UserData {
  readonly accepted: Accepted
  socket: OpenSocket | null
}

/** Plain requests for the path are left to its other handlers. */
export function serveWebSockets(
  app: UwsApp,
  { path, route }: { readonly path: string; readonly route: string },
  endpoint: WebSocketEndpoint,
  host: SocketHost,
): void {
  const socketOf = (socket: UwsWebSocket): OpenSocket => (socket.getUserData() as UserData).socket!
  app.ws(path, {
    compression: COMPRESSION_OFF,
    maxPayloadLength: endpoint.messageBytesMax,
    idleTimeout: SOCKET_IDLE_SECONDS,
    maxBackpressure: BUFFERED_BYTES_MIN + BUFFERED_MESSAGES * endpoint.messageBytesMax,
    closeOnBackpressureLimit: true,
    sendPingsAutomatically: true,
    upgrade(response: UwsResponse, request: UwsRequest, context: UwsUpgradeContext) {
      const accepted = host.accepted(route, endpoint, response, request)
      if (accepted === null) return
      const data: UserData = { accepted, socket: null }
      const key = request.getHeader('sec-websocket-key')
      response.upgrade(data, key, accepted.protocol, request.getHeader('sec-websocket-extensions'), context)
    },
    open(socket) {
      const data = socket.getUserData() as UserData // given above
      data.socket = new OpenSocket(socket, data.accepted.listener)
      host.opened(data.socket)
      data.socket.listener.opened(data.socket)
    },
    message: (socket, bytes, isBinary) => socketOf(socket).listener.message(new Uint8Array(bytes), isBinary),
    drain: (socket) => socketOf(socket).listener.drained(),
    close(socket) {
      const open = socketOf(socket)
      open.closed()
      host.closed(open)
    },
  })
}
