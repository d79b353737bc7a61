/** A minimal broker: streams in memory, one consumer group on each, and misbehaviour on request. */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

/**
 * What the broker does with one request. Requests that create or describe are always served.
 *
 *   lose       answered as if done, but not done
 *   unnoticed  done, then the connection is reset instead of an answer
 *   misplace   publish: answered with the offset before the right one
 *   part       batches: the first record or delivery is refused
 */
export type Reaction =
  | { readonly kind: 'accept' | 'lose' | 'unnoticed' | 'misplace' | 'part' | 'reset' | 'hang' | 'garbage' }
  | { readonly kind: 'refuse'; readonly status: number; readonly code: string; readonly retryAfterSeconds?: number }

interface Stored {
  readonly message_id: string
  readonly payload: string
  readonly durability_mode?: string
  state: 'waiting' | 'leased' | 'finished'
}

export interface FakeBroker {
  readonly url: string
  readonly streams: ReadonlyMap<string, readonly Stored[]>
  /** Method and path of every request, in order. */
  readonly requests: readonly string[]
}

type Json = Record<string, unknown>

const refusal = (code: string): Json => ({ code, message: 'no', action: 'none', retryable: false })
const acknowledgement = { durability: 'local-sync', durable: true, replicas: 1 }

/** @param react called with the number of the request among those of its kind, from 0: records, replay, batch, claims, ack, batch-ack */
export async function startFakeBroker(
  t: TestContext,
  react: (request: number, kind: string) => Reaction = () => ({ kind: 'accept' }),
): Promise<FakeBroker> {
  const streams = new Map<string, Stored[]>()
  const requests: string[] = []
  const counts = new Map<string, number>()
  let subscriptions = 0

  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      serve(request, text === '' ? {} : (JSON.parse(text) as Json), response)
    })
  })

  function serve(request: IncomingMessage, body: Json, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://fake')
    const method = request.method ?? ''
    requests.push(`${method} ${pathname}`)
    const [, , , name = '', ...rest] = pathname.split('/')
    const route = rest.at(-1) ?? ''
    if (method === 'PUT') {
      const exists = streams.has(name)
      if (!exists) streams.set(name, [])
      send(response, exists ? 409 : 201, exists ? { error: refusal('stream_already_exists') } : { created: true })
      return
    }
    const stream = streams.get(name)
    if (stream === undefined) {
      send(response, 404, { error: refusal('stream_not_found') })
      return
    }
    if (method === 'GET' && route !== 'records') {
      send(response, 200, route === '' ? { record_count: stream.length } : describeGroup(stream))
      return
    }
    const kind = method === 'GET' ? 'replay' : route
    const count = counts.get(kind) ?? 0
    counts.set(kind, count + 1)
    const reaction = react(count, kind)
    switch (reaction.kind) {
      case 'hang':
        return
      case 'reset':
        request.socket.resetAndDestroy()
        return
      case 'garbage':
        send(response, 200, { api_version: 'v1' })
        return
      case 'refuse':
        if (reaction.retryAfterSeconds !== undefined) response.setHeader('retry-after', reaction.retryAfterSeconds)
        send(response, reaction.status, { error: refusal(reaction.code) })
        return
      case 'lose':
      case 'part':
      case 'misplace':
      case 'unnoticed':
      case 'accept': {
        const [status, answer] =
          method === 'GET' ? replay(stream, searchParams) : change(stream, route, rest, body, reaction.kind)
        if (reaction.kind === 'unnoticed') request.socket.resetAndDestroy()
        else send(response, status, { api_version: 'v1', stream: name, ...answer, acknowledgement })
      }
    }
  }

  function change(
    stream: Stored[],
    route: string,
    path: readonly string[],
    body: Json,
    how: Reaction['kind'],
  ): [status: number, answer: Json] {
    const append = (record: unknown): number => {
      const offset = stream.length
      if (how !== 'lose') stream.push({ ...(record as Stored), state: 'waiting' }) // the load command sends such records
      return how === 'misplace' ? offset - 1 : offset
    }
    const finish = (delivery: string): number => {
      const offset = Number(delivery.replace('dlv-', ''))
      if (how !== 'lose') stream[offset]!.state = 'finished'
      return offset
    }
    const refusesFirst = (index: number): boolean => how === 'part' && index === 0
    switch (route) {
      case 'records':
        return [201, { offset: append(body), next_offset: stream.length }]
      case 'batch': {
        const results = (body['records'] as unknown[]).map((record, index) =>
          refusesFirst(index)
            ? { error: refusal('invalid_payload') }
            : { offset: append(record), message_id: (record as Stored).message_id },
        )
        const published_count = results.filter((result) => 'offset' in result).length
        return [201, { next_offset: stream.length, published_count, results }]
      }
      case 'claims': {
        const subscription_id = `sub-${subscriptions++}`
        const deliveries = stream
          .flatMap((record, offset) => (record.state === 'waiting' ? [{ offset, record }] : []))
          .slice(0, Number(body['max_messages']))
          .map(({ offset, record }) => {
            record.state = 'leased'
            return { delivery_id: `dlv-${offset}`, subscription_id, offset, record: shown(record, offset) }
          })
        return [200, { subscription_id, deliveries, delivery_count: deliveries.length }]
      }
      case 'ack':
        return [200, { offset: finish(path.at(-2) ?? '') }]
      default: {
        const results = (body['delivery_ids'] as string[]).map((delivery_id, index) =>
          refusesFirst(index)
            ? { delivery_id, error: refusal('lease_expired') }
            : { delivery_id, offset: finish(delivery_id) },
        )
        return [200, { acknowledged_count: results.filter((result) => 'offset' in result).length, results }]
      }
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP server has no other kind
  return { url: `http://127.0.0.1:${port}`, streams, requests }
}

function describeGroup(stream: readonly Stored[]): Json {
  const finished = stream.filter((record) => record.state === 'finished').length
  return { highest_next_offset: stream.length, lag_messages: stream.length - finished }
}

function replay(stream: readonly Stored[], query: URLSearchParams): [status: number, answer: Json] {
  const start = Number(query.get('start_offset'))
  const records = stream.slice(start, start + Number(query.get('max_records')))
  const next_offset = start + records.length
  return [
    200,
    {
      records: records.map((record, index) => shown(record, start + index)),
      next_offset,
      end_of_stream: next_offset === stream.length,
      diagnostics: {
        returned_records: records.length,
        returned_payload_bytes: records.reduce((sum, record) => sum + record.payload.length, 0),
      },
    },
  ]
}

function shown({ message_id, payload }: Stored, offset: number): Json {
  return { offset, message_id, payload_hex: Buffer.from(payload).toString('hex'), key_hex: null, headers: {} }
}

function send(response: ServerResponse, status: number, body: Json): void {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.byteLength })
  response.end(bytes)
}
