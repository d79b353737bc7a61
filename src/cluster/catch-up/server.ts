/**
 * What a node answers to other nodes and to `trilog cluster`, on a listener of its own.
 *
 *   GET  /v1/nodes                                  what this node knows of its clusters, by service
 *   POST /v1/hand-over?service=…&to=…               the lead of a service goes to another node; both may be left out
 *   GET  /v1/logs/<service>                         a listing
 *   GET  /v1/logs/<service>/piece?path=&from=&bytes=   a piece, with its checksum in a header
 *
 * V1  nothing is answered without the secret, which is compared in constant time
 * V2  pieces leave no faster than allowed, all of them together (even-reads.ts)
 * V3  their memory is freed by hand: left to V8, each 64 MiB would be a full collection, by threads of the process that do not give way to those that
 *     answer clients
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { StoreError, messageOf } from '../../errors.ts'
import { freeMemory } from '../../free-memory.ts'
import type { Files } from '../../log/files.ts'
import type { Anchor } from '../history.ts'
import { checksumOf, listLog, readPiece } from './listing.ts'
import type { GivenLog, ReadPart } from './listing.ts'

/** What the service's own thread has to answer. */
export type Question =
  | { readonly kind: 'nodes' }
  /** @see ClusterNode.handOver. Null: each service, and whoever stands first */
  | { readonly kind: 'hand over'; readonly service: string | null; readonly to: string | null }

export interface ServerParts {
  readonly files: Files
  /** By service. */
  readonly logs: Readonly<Record<string, GivenLog>>
  readonly readAnchor: (files: Files, directory: string) => Anchor | null
  readonly secret: string
  /** V2 */
  readonly readPart: ReadPart
  /** Rejects with a StoreError. */
  readonly ask: (question: Question) => Promise<unknown>
}

export const CHECKSUM_HEADER = 'x-trilog-crc32'

const STATUS: Readonly<Record<string, number>> = { invalid: 400, notFound: 404, unavailable: 503, conflict: 409 }

export function answererOf(parts: ServerParts): (request: IncomingMessage, response: ServerResponse) => void {
  const secret = digestOf(parts.secret)
  return (request, response) => {
    request.resume()
    const [, given = ''] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? []
    if (!timingSafeEqual(digestOf(given), secret)) return sendJson(response, 401, { error: 'the secret is wrong' }) // V1
    answer(parts, request, response).catch((error: unknown) => {
      const status = error instanceof StoreError ? (STATUS[error.kind] ?? 500) : 500
      sendJson(response, status, { error: messageOf(error) })
    })
  }
}

const digestOf = (secret: string): Buffer => createHash('sha256').update(secret).digest()

async function answer(parts: ServerParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { files, logs, readAnchor, ask, readPart } = parts
  const url = new URL(request.url ?? '/', 'http://node')
  const query = (name: string): string | null => url.searchParams.get(name)
  const key = `${request.method} ${url.pathname}`
  if (key === 'GET /v1/nodes') return sendJson(response, 200, await ask({ kind: 'nodes' }))
  if (key === 'POST /v1/hand-over') {
    const reply = await ask({ kind: 'hand over', service: query('service'), to: query('to') })
    return sendJson(response, 202, reply)
  }
  const [, service = '', piece] = /^GET \/v1\/logs\/([a-z]+)(\/piece)?$/.exec(key) ?? []
  const log = Object.hasOwn(logs, service) ? logs[service] : undefined
  if (log === undefined) throw new StoreError('notFound', 'not_found', 'there is no such route')
  if (piece === undefined) return sendJson(response, 200, listLog(files, log, readAnchor(files, log.directory)))
  const asked = { path: query('path') ?? '', from: wholeNumber(query('from')), bytes: wholeNumber(query('bytes')) }
  const found = await readPiece({ files, directory: log.directory }, asked, readPart)
  if (found === null) return sendJson(response, 410, { error: 'the file is gone' })
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    'content-length': found.byteLength,
    [CHECKSUM_HEADER]: checksumOf(found),
  })
  response.on('finish', () => freeMemory(found)) // V3
  response.end(found)
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(`${JSON.stringify(body)}\n`)
}

function wholeNumber(text: string | null): number {
  if (text !== null && /^[0-9]{1,15}$/.test(text)) return Number(text)
  throw new StoreError('invalid', 'catch_up_request_invalid', 'from and bytes must be whole numbers')
}
