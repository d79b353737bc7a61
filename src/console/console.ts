/**
 * The console: a listener that serves one page, and forwards what the page asks to the services.
 *
 *   GET  /                        the page; so does every path below that is none of the others, so that a link into the page can be reloaded
 *   GET  /assets/…                its files
 *   GET  /console.json            the services that there are, and the credentials that each asks for
 *   any  /logstore/…  /objectstore/…  /broker/…   forwarded, without that prefix
 *
 * C1 [no-rights]   the console has no credentials and keeps none: services judge each request by what the page sends with it
 * C2 [own-page]    visitors.ts decides who is answered at all
 * C3 [bounded]     at most CONNECTIONS_MAX connections, each with the buffers of its two sockets
 * C4 [certified]   with authorities for clients, a handshake without a certificate of theirs fails, so no request comes without one
 *
 * It is Node's own HTTP server, unlike those of the services: a few visitors, and answers of unknown length that end when they end.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Server as SecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TlsOptions } from 'node:tls'
import { CONSOLE_TLS_NAMES } from '../config/console.ts'
import type { ConsoleConfig } from '../config/console.ts'
import { readTls } from '../config/tls.ts'
import { StoreError } from '../errors.ts'
import { hostPort } from '../http/host-port.ts'
import { renewTls } from '../http/tls.ts'
import type { TlsListener } from '../http/tls.ts'
import { WebGuard } from '../http/web-guard.ts'
import type { TlsMaterial } from '../tls-files.ts'
import { OWN_HEADERS, answerJson, answerProblem } from './answers.ts'
import { HEADER_BYTES_MAX, forward } from './forward.ts'
import type { Target } from './forward.ts'
import { loadPage } from './page-files.ts'
import type { Encoding, Page, PageFile } from './page-files.ts'
import { dataProblem, hostProblem } from './visitors.ts'

/** C3 */
const CONNECTIONS_MAX = 256
/** A handshake that takes longer ends its connection, which is then free for other visitors. */
const HANDSHAKE_MS = 10_000

export const CONSOLE_SERVICES = ['logstore', 'objectstore', 'broker'] as const
type ServiceName = (typeof CONSOLE_SERVICES)[number]

/**
 * Credentials that a service asks of a visitor. `development`: the public token of the log store; `unknown`: the service is elsewhere, so the page
 * asks it; `elsewhere`: certificates or a proxy identify callers, and the console can be neither.
 */
export type Access = 'none' | 'development' | 'tenant-token' | 'access-key' | 'api-key' | 'unknown' | 'elsewhere'

export interface ServicePlace {
  readonly target: Target
  readonly access: Access
  /** Region of signatures; null: the service needs none, or is elsewhere. */
  readonly region: string | null
}

export interface ConsoleDependencies {
  readonly version: string
  readonly logger: {
    info(details: object, message: string): void
    warn(details: object, message: string): void
    error(details: object, message: string): void
  }
  /** Null: there is no such service. */
  readonly services: Readonly<Record<ServiceName, ServicePlace | null>>
}

export interface OpenConsole {
  /** Null: it does not listen, as the default address is taken. */
  readonly http: string | null
  /** Whether it speaks TLS. */
  readonly isSecure: boolean
  /** Reads the files of the certificates again. */
  reload(): void
  close(options: { readonly withinMs: number }): Promise<void>
}

/**
 * A second process on a machine goes without a console when the default address is taken.
 *
 * @throws StoreError when the address that was asked for cannot be bound, or a certificate cannot be used
 */
export async function openConsole(config: ConsoleConfig, dependencies: ConsoleDependencies): Promise<OpenConsole> {
  for (const name of config.unknownSettings) dependencies.logger.warn({ setting: name }, 'unknown setting')
  const visitors = new Console(config, dependencies)
  const { tls } = config
  const readFiles = tls === null ? null : () => readTls(tls, CONSOLE_TLS_NAMES)
  const { server, listener } = serverFor(visitors, readFiles?.() ?? null)
  server.maxConnections = CONNECTIONS_MAX
  const isSecure = readFiles !== null
  const reload = (): void => {
    if (readFiles !== null) renewTls(readFiles, [listener], dependencies.logger)
  }
  const problem = await listen(server, config)
  if (problem === null) return { http: addressOf(server), isSecure, reload, close: () => close(server) }
  const { bind, isAsked } = config
  const message = `TRILOG_CONSOLE_BIND: cannot listen on ${hostPort(bind)}, ${problem}`
  if (isAsked) throw new StoreError('invalid', 'http_bind_failed', message)
  dependencies.logger.warn(
    {},
    `${message}: this process has no console; set TRILOG_CONSOLE_BIND to another address to get one`,
  )
  return { http: null, isSecure, reload: () => {}, close: async () => {} }
}

/** @param tls null: it speaks plain HTTP */
function serverFor(
  visitors: Console,
  tls: TlsMaterial | null,
): { readonly server: Server | SecureServer; readonly listener: TlsListener } {
  const options: ServerOptions = { maxHeaderSize: HEADER_BYTES_MAX, requestTimeout: 0 }
  const serve = (visit: IncomingMessage, answer: ServerResponse): void => visitors.serve(visit, answer)
  if (tls === null) return { server: createServer(options, serve), listener: { renewTls: () => {} } }
  const server = createSecureServer({ ...options, ...tlsOptions(tls), handshakeTimeout: HANDSHAKE_MS }, serve)
  return { server, listener: { renewTls: (material) => server.setSecureContext(tlsOptions(material)) } }
}

/** C4 */
const tlsOptions = ({ cert, key, clientCa }: TlsMaterial): TlsOptions => ({
  cert,
  key,
  ...(clientCa !== null && { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
})

/** Why it does not listen; null: it does. */
function listen(server: Server, { bind: { host, port } }: ConsoleConfig): Promise<string | null> {
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code === 'EADDRINUSE' ? 'the port is taken' : error.message),
    )
    server.listen({ host, port }, () => resolve(null))
  })
}

function addressOf(server: Server): string {
  const { address, port } = server.address() as AddressInfo // it listens on a port
  return hostPort({ host: address, port })
}

/** Requests under way are given up: the service continues as if its client had left. */
function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

class Console {
  readonly #guard: WebGuard
  readonly #isSecure: boolean
  readonly #services: ConsoleDependencies['services']
  readonly #about: object
  readonly #logger: ConsoleDependencies['logger']
  #page: Promise<Page> | null = null

  constructor({ bind, tls, allowedHosts }: ConsoleConfig, { services, version, logger }: ConsoleDependencies) {
    this.#guard = new WebGuard({ bindHost: bind.host, allowedHosts })
    this.#isSecure = tls !== null
    this.#services = services
    this.#logger = logger
    const about = CONSOLE_SERVICES.map((name) => {
      const place = services[name]
      return [name, place && { url: place.target.url, access: place.access, region: place.region }]
    })
    this.#about = { version, services: Object.fromEntries(about) }
  }

  /** An error that is thrown from here would end the process, and the services with it. */
  serve(visit: IncomingMessage, answer: ServerResponse): void {
    try {
      this.#serve(visit, answer)
    } catch (error) {
      this.#failed(answer, error)
    }
  }

  #failed(answer: ServerResponse, error: unknown): void {
    this.#logger.error({ err: error }, 'a request to the console failed')
    if (answer.headersSent) answer.destroy()
    else answerProblem(answer, 500, 'the console failed: the log has the cause')
  }

  #serve(visit: IncomingMessage, answer: ServerResponse): void {
    const { method = '', url = '', headers } = visit
    const asked = { method, headers, isSecure: this.#isSecure }
    const foreign = hostProblem(this.#guard, asked)
    if (foreign !== null) return answerProblem(answer, 403, foreign)
    if (!url.startsWith('/')) return answerProblem(answer, 400, 'the target must be a path')
    const [, first = '', rest = ''] = /^\/([^/?]*)(.*)$/s.exec(url) ?? []
    const name = CONSOLE_SERVICES.find((each) => each === first)
    const isData = name !== undefined || first === 'console.json'
    const problem = isData ? dataProblem(asked) : null
    if (problem !== null) return answerProblem(answer, 403, problem)
    if (name !== undefined) return this.#forward(name, rest, visit, answer)
    if (method !== 'GET' && method !== 'HEAD') {
      answer.setHeader('allow', 'GET, HEAD')
      return answerProblem(answer, 405, 'the console has only pages, which take GET and HEAD')
    }
    if (first === 'console.json') return answerJson(answer, 200, this.#about)
    void this.#servePage(visit, answer, url.split('?')[0]!)
  }

  #forward(name: ServiceName, rest: string, visit: IncomingMessage, answer: ServerResponse): void {
    const place = this.#services[name]
    if (place === null) return answerProblem(answer, 404, `the console has no ${name}: it does not run in this process`)
    forward(place.target, rest.startsWith('/') ? rest : `/${rest}`, visit, answer)
  }

  async #servePage(visit: IncomingMessage, answer: ServerResponse, path: string): Promise<void> {
    try {
      this.#page ??= loadPage()
      const { indexAt, assets } = await this.#page
      if (!path.startsWith('/assets/')) return await answerFile(visit, answer, indexAt(path), 'no-cache')
      const file = assets.get(path)
      if (file === undefined) return answerProblem(answer, 404, 'there is no such file: load the page again')
      await answerFile(visit, answer, file, 'public, max-age=31536000, immutable')
    } catch (error) {
      this.#page = null // the next visitor may find the files
      this.#failed(answer, error)
    }
  }
}

async function answerFile(
  visit: IncomingMessage,
  answer: ServerResponse,
  file: PageFile,
  cacheControl: string,
): Promise<void> {
  const { contentType, etag } = file
  const headers = { ...OWN_HEADERS, 'cache-control': cacheControl, etag, vary: 'accept-encoding' }
  if (visit.headers['if-none-match'] === etag) {
    answer.writeHead(304, headers)
    answer.end()
    return
  }
  const encoding = encodingFor(visit.headers['accept-encoding'] ?? '')
  const bytes = encoding === null ? file.plain : await file.compressed(encoding)
  answer.writeHead(200, {
    ...headers,
    'content-type': contentType,
    'content-length': bytes.byteLength,
    ...(encoding !== null && { 'content-encoding': encoding }),
  })
  answer.end(visit.method === 'HEAD' ? undefined : bytes)
}

function encodingFor(accepted: string): Encoding | null {
  const words = new Set(accepted.split(',').map((each) => each.trim()))
  if (words.has('br')) return 'br'
  return words.has('gzip') ? 'gzip' : null
}
