/** A minimal log store: keeps what it accepts in memory, answers queries, and misbehaves on request. */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { readBatch, statusType } from './otlp-types.ts'

/** What the log store does with one ingest request. `lose`: acknowledged, but not kept. */
export type Reaction =
  | { readonly kind: 'accept' }
  | { readonly kind: 'lose' }
  | { readonly kind: 'reset' }
  | { readonly kind: 'hang' }
  | { readonly kind: 'refuse'; readonly status: number; readonly reason: string; readonly retryAfterSeconds?: number }

interface Stored {
  readonly record_id: string
  readonly span_id: string
  readonly traceId: string
  readonly dataset: string
  readonly timeNs: bigint
}

export interface FakeLogStore {
  readonly url: string
  readonly records: readonly Stored[]
  readonly ingestRequests: readonly { readonly path: string; readonly headers: IncomingMessage['headers'] }[]
}

/** @param react called with the number of the ingest request, from 0 */
export async function startFakeLogStore(
  t: TestContext,
  react: (request: number) => Reaction = () => ({ kind: 'accept' }),
): Promise<FakeLogStore> {
  const records: Stored[] = []
  const ingestRequests: { path: string; headers: IncomingMessage['headers'] }[] = []

  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      if (request.url === '/v1/query') answerQuery(body, response)
      else ingest(request, body, response)
    })
  })

  function ingest(request: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const path = request.url ?? ''
    const reaction = react(ingestRequests.length)
    ingestRequests.push({ path, headers: request.headers })
    const format = path.includes('/otlp/') ? 'json' : 'protobuf'
    if (reaction.kind === 'hang') return
    if (reaction.kind === 'reset') {
      request.socket.resetAndDestroy()
      return
    }
    if (reaction.kind === 'refuse') {
      const { status, reason, retryAfterSeconds } = reaction
      if (retryAfterSeconds !== undefined) response.setHeader('retry-after', retryAfterSeconds)
      if (format === 'json') send(response, status, { status: 'rejected', error: { kind: reason, message: 'no' } })
      else send(response, status, Buffer.from(statusType.encode({ code: 8, message: `${reason}: no` }).finish()))
      return
    }
    const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
    const signal = path.endsWith('logs') ? 'logs' : 'traces'
    const { dataset, records: received } = readBatch(signal, format, plain)
    const stored = received.map(({ spanId, traceId, timeNs }) => ({
      record_id: `logstore_${spanId}`,
      span_id: spanId,
      traceId,
      dataset,
      timeNs,
    }))
    if (reaction.kind === 'accept') records.push(...stored)
    const record_ids = stored.map((record) => record.record_id)
    send(response, 200, format === 'json' ? { status: 'accepted', record_ids } : Buffer.alloc(0))
  }

  function answerQuery(body: Buffer, response: ServerResponse): void {
    const { dataset, filter } = JSON.parse(body.toString()) as { dataset: string; filter: Record<string, string> } // the load command sends such queries
    const from = BigInt(filter['start_time_unix_nano'] ?? 0)
    const to = BigInt(filter['end_time_unix_nano'] ?? 2n ** 64n)
    const matches = records.filter(
      (record) =>
        record.dataset === dataset &&
        record.timeNs >= from &&
        record.timeNs < to &&
        (filter['trace_id'] ?? record.traceId) === record.traceId &&
        (filter['record_id'] ?? record.record_id) === record.record_id,
    )
    const results = matches.slice(0, 500).map(({ record_id, span_id }) => ({ record: { record_id, span_id } }))
    send(response, 200, { status: 'ok', matched_records: matches.length, results })
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP server has no other kind
  return { url: `http://127.0.0.1:${port}`, records, ingestRequests }
}

function send(response: ServerResponse, status: number, body: Buffer | object): void {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    'content-type': Buffer.isBuffer(body) ? 'application/x-protobuf' : 'application/json',
    'content-length': bytes.byteLength,
  })
  response.end(bytes)
}
