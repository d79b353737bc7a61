/**
 * An app of uWebSockets.js that listens. The library reads certificates when an app is made and never again, so new ones need a new app.
 *
 * L1  the next app listens on the very socket of the one before, to which clients connect all the time: none of them is refused or reset. Two
 *     sockets on one port would not do, because the kernel resets the clients in the queue of the one that is closed
 * L2  the app before closes its descriptor of that socket and keeps its connections
 */
import { existsSync, readdirSync } from 'node:fs'
import { StoreError } from '../errors.ts'
import { isListening, localPort, replaceDescriptor } from '../libc.ts'
import type { TlsFiles } from '../tls-files.ts'
import type { Uws, UwsApp, UwsListenSocket } from './uws.ts'

const OPEN_FILES = '/proc/self/fd'

/** @throws StoreError when the files cannot be used */
export function createApp(uws: Uws, tls: TlsFiles | null): UwsApp {
  if (tls === null) return uws.App()
  try {
    return uws.SSLApp({
      cert_file_name: tls.certFile,
      key_file_name: tls.keyFile,
      ...(tls.clientCaFile !== null && { ca_file_name: tls.clientCaFile }),
    })
  } catch (error) {
    throw new StoreError('invalid', 'tls_files_refused', 'the certificate, its key or the authorities cannot be used', {
      cause: error, // the library's error says no more
    })
  }
}

export class UwsListener {
  readonly port: number
  readonly #uws: Uws
  readonly #socket: UwsListenSocket
  readonly #descriptor: number | null

  /** @returns null when the address cannot be bound */
  static listen(uws: Uws, app: UwsApp, host: string, port: number): UwsListener | null {
    const before = new Set(listening())
    const socket = socketOf(app, host, port)
    if (socket === null) return null
    const bound = uws.us_socket_local_port(socket)
    const descriptor = listening().find((each) => !before.has(each) && localPort(each) === bound) ?? null
    return new UwsListener(uws, socket, bound, descriptor)
  }

  private constructor(uws: Uws, socket: UwsListenSocket, port: number, descriptor: number | null) {
    this.port = port
    this.#uws = uws
    this.#socket = socket
    this.#descriptor = descriptor
  }

  /** L1, L2. @throws StoreError where this process cannot see its descriptors */
  handOver(app: UwsApp, host: string): UwsListener {
    // Listens on a separate port, which no client knows, until its descriptor has taken the place of the old socket.
    const next = UwsListener.listen(this.#uws, app, host, 0)
    if (next === null || next.#descriptor === null || this.#descriptor === null) {
      next?.close()
      throw new StoreError(
        'unavailable',
        'no_second_listener',
        'the open files of this process cannot be listed: restart it to read the certificates',
      )
    }
    // Still in the turn in which `next` began to listen: the event loop watches it only afterwards (listening-socket.ts).
    replaceDescriptor(next.#descriptor, this.#descriptor)
    this.close()
    return new UwsListener(this.#uws, next.#socket, this.port, next.#descriptor)
  }

  close(): void {
    this.#uws.us_listen_socket_close(this.#socket)
  }
}

/** The library calls back at once. */
function socketOf(app: UwsApp, host: string, port: number): UwsListenSocket | null {
  const bound: UwsListenSocket[] = []
  app.listen(host, port, (socket) => socket && bound.push(socket))
  return bound[0] ?? null
}

const listening = (): number[] =>
  existsSync(OPEN_FILES) ? readdirSync(OPEN_FILES).map(Number).filter(isListening) : []
