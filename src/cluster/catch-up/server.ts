/**
 * What a node answers to other nodes and to `trilog cluster`, on a listener of its own.
 *
 *   GET  /v1/nodes                                  what this node knows of its clusters, by service
 *   POST /v1/hand-over?service=…&to=…               the lead of a service goes to another node; both may be left out
 *   GET  /v1/logs/<service>                         a listing
 *   GET  /v1/logs/<service>/pieces                  upgraded to a connection that gives pieces of files (piece-line.ts)
 *
 * V1  nothing is answered without the secret, which is compared in constant time
 * V2  pieces leave no faster than allowed, all of them together (even-reads.ts)
 * V3  a connection reuses the memory of its pieces: V8's threads, which other work needs, too, would have to collect a new buffer for each
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { StoreError, messageOf } from '../../errors.ts'
import type { Files } from '../../log/files.ts'
import type { Anchor } from '../history.ts'
import { PIECE_BYTES_MAX, listLog, readPiece } from './listing.ts'
import type { LogLocation, ReadPart } from './listing.ts'
import { PIECE_PROTOCOL, servePieces } from './piece-line.ts'

/** What the service's own thread has to answer. */
export type Question =
  | { readonly kind: 'nodes' }
  /** @see ClusterNode.handOver. `service` null: each service that this node leads; `to` null: the first node that stands */
  | { readonly kind: 'hand over'; readonly service: string | null; readonly to: string | null }

export interface ServerParts {
  readonly files: Files
  /** By service. */
  readonly logs: Readonly<Record<string, LogLocation>>
  readonly readAnchor: (files: Files, directory: string) => Anchor | null
  readonly secret: string
  /** V2 */
  readonly readPart: ReadPart
  /** Rejects with a StoreError. */
  readonly ask: (question: Question) => Promise<unknown>
}

const STATUS: Readonly<Record<string, number>> = { invalid: 400, notFound: 404, unavailable: 503, conflict: 409 }

/** @returns a function that ends the connections that serve pieces */
export function answerOn(server: Server, parts: ServerParts): () => void {
  const secret = digestOf(parts.secret)
  const lines = new Set<Duplex>()
  const knowsSecret = ({ headers }: IncomingMessage): boolean => {
    const [, given = ''] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? []
    return timingSafeEqual(digestOf(given), secret) // V1
  }
  server.on('request', (request, response) => {
    request.resume()
    if (!knowsSecret(request)) return sendJson(response, ...SECRET_WRONG)
    answer(parts, request, response).catch((error: unknown) => sendJson(response, ...refusalOf(error)))
  })
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => {}) // servePieces sees it when it reads or writes
    if (!knowsSecret(request)) return endWith(socket, ...SECRET_WRONG)
    try {
      const log = logOfPieces(parts, request)
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${PIECE_PROTOCOL}\r\n\r\n`)
      socket.unshift(head)
      lines.add(socket)
      socket.on('close', () => lines.delete(socket))
      void servePieces(socket, piecesOf(parts, log))
    } catch (error) {
      endWith(socket, ...refusalOf(error))
    }
  })
  return () => lines.forEach((line) => line.destroy())
}

const SECRET_WRONG = [401, { error: 'the secret is wrong' }] as const

function refusalOf(error: unknown): [status: number, body: { readonly error: string }] {
  const status = error instanceof StoreError ? (STATUS[error.kind] ?? 500) : 500
  return [status, { error: messageOf(error) }]
}

const digestOf = (secret: string): Buffer => createHash('sha256').update(secret).digest()

async function answer(parts: ServerParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { files, readAnchor, ask } = parts
  const { key, searchParams } = routeOf(request)
  if (key === 'GET /v1/nodes') return sendJson(response, 200, await ask({ kind: 'nodes' }))
  if (key === 'POST /v1/hand-over') {
    const reply = await ask({ kind: 'hand over', service: searchParams.get('service'), to: searchParams.get('to') })
    return sendJson(response, 202, reply)
  }
  const log = logAt(parts, /^GET \/v1\/logs\/([a-z]+)$/, key)
  sendJson(response, 200, listLog(files, log, readAnchor(files, log.directory)))
}

function logOfPieces(parts: ServerParts, request: IncomingMessage): LogLocation {
  if (request.headers.upgrade !== PIECE_PROTOCOL)
    throw new StoreError('invalid', 'upgrade_unknown', `the only protocol to upgrade to is ${PIECE_PROTOCOL}`)
  return logAt(parts, /^GET \/v1\/logs\/([a-z]+)\/pieces$/, routeOf(request).key)
}

function routeOf({ method, url = '/' }: IncomingMessage): {
  readonly key: string
  readonly searchParams: URLSearchParams
} {
  const { pathname, searchParams } = new URL(url, 'http://node')
  return { key: `${method} ${pathname}`, searchParams }
}

/** @throws StoreError when there is no such log */
function logAt({ logs }: ServerParts, route: RegExp, key: string): LogLocation {
  const [, service = ''] = route.exec(key) ?? []
  const log = Object.hasOwn(logs, service) ? logs[service] : undefined
  if (log === undefined) throw new StoreError('notFound', 'not_found', 'there is no such route')
  return log
}

/** Answers the questions of one connection, one after the other. */
function piecesOf({ files, readPart }: ServerParts, { directory }: LogLocation): Parameters<typeof servePieces>[1] {
  const memory = Buffer.allocUnsafeSlow(PIECE_BYTES_MAX) // V3
  const memoryFor = (bytes: number): Buffer => memory.subarray(0, bytes)
  return async (question) => {
    const number = (name: string): number => wholeNumber(question.get(name))
    const asked = { path: question.get('path') ?? '', from: number('from'), bytes: number('bytes') }
    return readPiece({ files, directory }, asked, readPart, memoryFor)
  }
}

function endWith(socket: Duplex, status: number, body: unknown): void {
  const text = `${JSON.stringify(body)}\n`
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\ncontent-type: application/json`
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(`${JSON.stringify(body)}\n`)
}

function wholeNumber(text: string | null): number {
  if (text !== null && /^[0-9]{1,15}$/.test(text)) return Number(text)
  throw new StoreError('invalid', 'catch_up_request_invalid', 'from and bytes must be whole numbers')
}
