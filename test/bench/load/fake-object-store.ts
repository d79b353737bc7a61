/** A minimal object store: objects in memory, and misbehaviour on request. */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

/**
 * What the object store does with one request.
 *
 *   lose       answered as if done, but not done
 *   unnoticed  done, then the connection is reset instead of an answer
 *   damage     the last byte is changed: put stores it so, get answers so
 */
export type Reaction =
  | { readonly kind: 'accept' | 'lose' | 'unnoticed' | 'damage' | 'reset' | 'garbage' }
  | { readonly kind: 'refuse'; readonly status: number; readonly code: string; readonly retryAfterSeconds?: number }

type Kind = 'create-bucket' | 'put' | 'get' | 'head' | 'delete' | 'list' | 'begin' | 'part' | 'complete'

export interface FakeObjectStore {
  readonly url: string
  /** By path: `/bucket/key`. */
  readonly objects: ReadonlyMap<string, Buffer>
  /** Method and target of every request, in order. */
  readonly requests: readonly string[]
}

interface Asked {
  readonly kind: Kind
  readonly path: string
  readonly query: URLSearchParams
  readonly range: string | undefined
  readonly body: Buffer
}

type Answered = readonly [status: number, body: Buffer | string]

/** @param react called with the number of the request among those of its kind, from 0 */
export async function startFakeObjectStore(
  t: TestContext,
  react: (request: number, kind: Kind) => Reaction = () => ({ kind: 'accept' }),
): Promise<FakeObjectStore> {
  const buckets = new Set<string>()
  const objects = new Map<string, Buffer>()
  const uploads = new Map<string, Map<number, Buffer>>()
  const requests: string[] = []
  const counts = new Map<Kind, number>()

  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => serve(request, Buffer.concat(chunks), response))
  })

  function serve(request: IncomingMessage, body: Buffer, response: ServerResponse): void {
    requests.push(`${request.method} ${request.url}`)
    const { pathname: path, searchParams: query } = new URL(request.url ?? '', 'http://fake')
    const kind = kindOf(request.method ?? '', path, query)
    const count = counts.get(kind) ?? 0
    counts.set(kind, count + 1)
    const reaction = react(count, kind)
    const asked: Asked = { kind, path, query, range: request.headers.range, body }
    switch (reaction.kind) {
      case 'reset':
        request.socket.resetAndDestroy()
        return
      case 'garbage':
        send(response, 200, '<Nothing/>')
        return
      case 'refuse':
        if (reaction.retryAfterSeconds !== undefined) response.setHeader('retry-after', reaction.retryAfterSeconds)
        send(response, reaction.status, refusal(reaction.code))
        return
      case 'lose':
        send(response, kind === 'delete' ? 204 : 200, '')
        return
      case 'unnoticed':
        answer(asked)
        request.socket.resetAndDestroy()
        return
      case 'damage':
        send(response, ...answer(asked, damaged))
        return
      case 'accept':
        send(response, ...answer(asked))
    }
  }

  function answer({ kind, path, query, range, body }: Asked, pass = (bytes: Buffer): Buffer => bytes): Answered {
    switch (kind) {
      case 'create-bucket':
        if (buckets.has(path)) return [409, refusal('BucketAlreadyOwnedByYou')]
        buckets.add(path)
        return [200, '']
      case 'put':
        objects.set(path, pass(body))
        return [200, '']
      case 'get':
      case 'head': {
        const object = objects.get(path)
        if (object === undefined) return [404, refusal('NoSuchKey')]
        const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? []
        if (from === undefined) return [200, pass(object)]
        return [206, object.subarray(Number(from), Number(to) + 1)]
      }
      case 'delete':
        objects.delete(path)
        return [204, '']
      case 'list':
        return [200, page(path, query)]
      case 'begin': {
        const uploadId = `upload ${uploads.size}`
        uploads.set(uploadId, new Map())
        return [200, `<InitiateMultipartUploadResult><UploadId>${uploadId}</UploadId></InitiateMultipartUploadResult>`]
      }
      case 'part':
        uploads.get(query.get('uploadId') ?? '')?.set(Number(query.get('partNumber')), body)
        return [200, '']
      case 'complete': {
        const parts = uploads.get(query.get('uploadId') ?? '') ?? new Map<number, Buffer>()
        const listed = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"(\w+)"/g)]
        const isRight = listed.every(([, part, etag]) => md5(parts.get(Number(part))) === etag)
        if (!isRight || listed.length !== parts.size) return [400, refusal('InvalidPart')]
        objects.set(path, Buffer.concat([...parts.values()]))
        return [200, '<CompleteMultipartUploadResult><ETag>"x-1"</ETag></CompleteMultipartUploadResult>']
      }
    }
  }

  function page(path: string, query: URLSearchParams): string {
    const keys = [...objects.keys()]
      .filter((object) => object.startsWith(`${path}/${query.get('prefix')}`))
      .map((object) => object.slice(path.length + 1))
      .toSorted()
    const from = keys.findIndex((key) => key > (query.get('continuation-token') ?? '').replace('&', ''))
    const shown = from < 0 ? [] : keys.slice(from, from + Number(query.get('max-keys')))
    const isLast = shown.length === 0 || shown.at(-1) === keys.at(-1)
    const next = isLast ? '' : `<NextContinuationToken>&amp;${shown.at(-1)}</NextContinuationToken>`
    const contents = shown.map((key) => `<Contents><Key>${key}</Key></Contents>`).join('')
    return `<ListBucketResult><KeyCount>${shown.length}</KeyCount>${next}${contents}</ListBucketResult>`
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP server has no other kind
  return { url: `http://127.0.0.1:${port}`, objects, requests }
}

function kindOf(method: string, path: string, query: URLSearchParams): Kind {
  const isBucket = path.split('/').length === 2
  if (method === 'POST') return query.has('uploads') ? 'begin' : 'complete'
  if (method === 'PUT') return isBucket ? 'create-bucket' : query.has('partNumber') ? 'part' : 'put'
  if (method === 'GET') return isBucket ? 'list' : 'get'
  return method === 'HEAD' ? 'head' : 'delete'
}

const md5 = (bytes: Uint8Array = Buffer.alloc(0)): string => createHash('md5').update(bytes).digest('hex')
const refusal = (code: string): string =>
  `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>no</Message></Error>`

function damaged(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes)
  copy[copy.length - 1]! ^= 1
  return copy
}

/** For HEAD, Node leaves out the body and keeps its length. */
function send(response: ServerResponse, status: number, body: Buffer | string): void {
  const bytes = Buffer.from(body)
  response.writeHead(status, status === 204 ? {} : { 'content-length': bytes.byteLength })
  response.end(bytes)
}
