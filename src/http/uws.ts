/**
 * Loads uWebSockets.js and types the part of it that is in use (the surface common to 20.51 and 20.69).
 *
 * The binaries come as `@uwsjs/<platform>-<arch>-<Node major>`; if there is none, an installed `uWebSockets.js` (the
 * upstream package, for other platforms) is used.
 */
import { requirePackage } from '../require-package.ts'
import { StoreError } from '../errors.ts'
import { HEADER_SECTION_BYTES_MAX } from './limits.ts'

/** Dead after the handler returned. */
export interface UwsRequest {
  /**
   * Value of a header by its lower-case name; '' when absent, the first one when repeated. Read as Latin-1, while `forEach` reads UTF-8. Bytes above
   * 0x7f at either end of a value are trimmed like white space (20.51).
   */
  getHeader(lowerCaseName: string): string
  /** Raw path segment of the pattern's n-th `:name`; never empty. */
  getParameter(index: number): string
  /** Raw path: not percent-decoded, keeps `//` and `..`, without the query. */
  getUrl(): string
  getMethod(): string
  /** Headers in their order, names in lower case. */
  forEach(visit: (name: string, value: string) => void): void
  /** Raw, without the question mark. */
  getQuery(): string | undefined
}

/** Dead once answered in full or aborted: any call then throws. */
export interface UwsResponse {
  /** IPv4 in four decimal groups, IPv6 in eight of hexadecimal digits; the buffer is the caller's. */
  getRemoteAddressAsText(): ArrayBuffer
  /** Certificate of the client, in PEM; '' if it showed none. Must not be called over plain HTTP. */
  getX509Certificate(): string
  writeStatus(status: string): void
  writeHeader(name: string, value: string): void
  end(body: string | Uint8Array, closeConnection?: boolean): void
  /** Its optional arguments are left out on purpose: see UwsExchange. */
  endWithoutBody(): void
  /** Writes a chunk. False: the library buffers some of it. Inside `cork` it returns true for a short chunk. */
  write(chunk: Uint8Array): boolean
  tryEnd(body: Uint8Array, totalBytes: number): [ok: boolean, done: boolean]
  onWritable(handler: (offset: number) => boolean): void
  /** Bytes of the body that tryEnd took so far. */
  getWriteOffset(): number
  onAborted(handler: () => void): void
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): void
  cork(write: () => void): void
  pause(): void
  resume(): void
  /** Closes the connection at once; the request ends as aborted. */
  close(): void
  /** Turns the request into a WebSocket; only in the `upgrade` handler. */
  upgrade(data: unknown, key: string, protocol: string, extensions: string, context: UwsUpgradeContext): void
}

export type UwsUpgradeContext = { readonly uwsUpgradeContext: never }

/** Dead once it closed: any call then throws. */
export interface UwsWebSocket {
  /** What the upgrade was given. */
  getUserData(): unknown
  /** Sent bytes that the client has not read yet. */
  getBufferedAmount(): number
  send(message: Uint8Array | string, isBinary: boolean): number
  cork(send: () => void): void
  /** Sends a close frame behind everything else. */
  end(code: number, reason: string): void
}

interface UwsWebSocketBehavior {
  readonly compression: number
  readonly maxPayloadLength: number
  /** Seconds. */
  readonly idleTimeout: number
  readonly maxBackpressure: number
  readonly closeOnBackpressureLimit: boolean
  readonly sendPingsAutomatically: boolean
  readonly upgrade: (response: UwsResponse, request: UwsRequest, context: UwsUpgradeContext) => void
  readonly open: (socket: UwsWebSocket) => void
  readonly message: (socket: UwsWebSocket, bytes: ArrayBuffer, isBinary: boolean) => void
  readonly drain: (socket: UwsWebSocket) => void
  readonly close: (socket: UwsWebSocket) => void
}

export type UwsHandler = (response: UwsResponse, request: UwsRequest) => void

export interface UwsApp {
  get(pattern: string, handler: UwsHandler): void
  head(pattern: string, handler: UwsHandler): void
  post(pattern: string, handler: UwsHandler): void
  put(pattern: string, handler: UwsHandler): void
  patch(pattern: string, handler: UwsHandler): void
  del(pattern: string, handler: UwsHandler): void
  options(pattern: string, handler: UwsHandler): void
  any(pattern: string, handler: UwsHandler): void
  /** Takes upgrades; other requests for the pattern go to its other handlers. */
  ws(pattern: string, behavior: UwsWebSocketBehavior): void
  /** Called for every connection: with 1 while it is accepted, with -1 when it is closed. */
  filter(handler: (response: UwsResponse, change: 1 | -1) => void): void
  /** Calls back with false when it cannot bind. */
  listen(host: string, port: number, callback: (socket: UwsListenSocket | false) => void): void
  /** Closes the listening socket and every connection at once. */
  close(): void
}

export type UwsListenSocket = { readonly uwsListenSocket: never }

export interface Uws {
  App(): UwsApp
  /**
   * TLS 1.2 and 1.3. With authorities it asks for the client's certificate, refuses one that is not of theirs in the handshake, and serves a
   * request without one. Throws when it cannot read the files, or they do not fit each other.
   */
  SSLApp(files: { cert_file_name: string; key_file_name: string; ca_file_name?: string }): UwsApp
  us_listen_socket_close(socket: UwsListenSocket): void
  us_socket_local_port(socket: UwsListenSocket): number
  /** 'silent' leaves out the header that names the library. */
  _cfg(setting: 'silent'): void
}

let loaded: Uws | null = null

/** @throws StoreError in one line when no binary fits this platform and Node */
export function loadUws(): Uws {
  if (loaded) return loaded
  // Read by the library once, while it loads; its default of 4 KiB is less than the specifications allow.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HEADER_SECTION_BYTES_MAX)
  loaded = findUws(requirePackage)
  loaded._cfg('silent') // oxlint-disable-line no-underscore-dangle -- the library's own name
  return loaded
}

/** The first package that loads. */
export function findUws(load: (name: string) => unknown): Uws {
  const platformPackage = `@uwsjs/${process.platform}-${process.arch}-${process.versions.node.split('.')[0]}`
  const reasons: string[] = []
  for (const name of [platformPackage, 'uWebSockets.js']) {
    try {
      return load(name) as Uws // the addon has no types
    } catch (error) {
      reasons.push(error instanceof Error ? error.message.split('\n')[0]! : String(error))
    }
  }
  throw new StoreError(
    'unavailable',
    'http_library_missing',
    `no uWebSockets.js for ${process.platform} ${process.arch} and Node ${process.versions.node} (${reasons.join('; ')})`,
  )
}
