/** Damaged batches against the real process: each is answered, soon and rightly, and the service stays well. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { LOGS, PROTOBUF_TYPE, TRACES, find, logRecordsOf, spansOf } from './batches.ts'
import type { QueryReply } from './batches.ts'
import { LogStoreServer, policyTenant } from '../../support/logstore.ts'
import type { Reply } from '../../support/logstore.ts'
import {
  LOGS_REQUEST,
  TRACES_REQUEST,
  encode,
  logsRequest,
  logsRequests,
  spans,
  toOtlpJson,
  tracesRequest,
} from '../../support/otlp.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { snappyBlock, snappyStream } from '../../support/snappy.ts'

const BATCHES = 250
/** What may be wrong with a batch after bytes of it changed; the claim of its tenant may be what changed. */
const KINDS = new Set(['malformed_batch', 'empty_batch', 'batch_too_large', 'payload_too_large', 'tenant_mismatch'])

let server: LogStoreServer
before(async () => {
  const unlimited = { records: null, bytes: null, concurrent_requests: null }
  server = await LogStoreServer.start({
    env: { LOGSTORE_MAX_BODY_BYTES: '1000000', LOGSTORE_GATEWAY_MAX_RECORDS: 'none' },
    policy: [policyTenant('local', 'local-dev-token', unlimited)],
  })
})
after(() => server.stop())

/** A change of bytes; positions are taken modulo what is there. */
type Change = (bytes: Buffer) => Buffer

const cut = fc.nat().map(
  (at): Change =>
    (bytes) =>
      bytes.subarray(0, at % (bytes.byteLength + 1)),
)
const flips = fc.array(fc.nat(), { minLength: 1, maxLength: 4 }).map((bits): Change => (bytes) => {
  const flipped = Buffer.from(bytes)
  if (bytes.byteLength > 0) for (const bit of bits) flipped[(bit >> 3) % bytes.byteLength]! ^= 1 << (bit & 7)
  return flipped
})
const inserted = fc
  .tuple(fc.nat(), fc.nat({ max: 8 }), fc.uint8Array({ maxLength: 12 }))
  .map(([at, removed, added]): Change => (bytes) => {
    const start = at % (bytes.byteLength + 1)
    return Buffer.concat([bytes.subarray(0, start), added, bytes.subarray(start + removed)])
  })
const copied = fc.tuple(fc.nat(), fc.nat({ max: 200 }), fc.nat()).map(([from, length, to]): Change => (bytes) => {
  const [source, target] = [from % (bytes.byteLength + 1), to % (bytes.byteLength + 1)]
  return Buffer.concat([bytes.subarray(0, target), bytes.subarray(source, source + length), bytes.subarray(target)])
})
const joined = fc.tuple(fc.nat(), fc.nat()).map(([at, from]): Change => (bytes) => {
  const length = bytes.byteLength + 1
  return Buffer.concat([bytes.subarray(0, at % length), bytes.subarray(from % length)])
})
const changes = fc.array(fc.oneof(cut, flips, inserted, copied, joined), { minLength: 1, maxLength: 3 })

const logBatches = fc.oneof(
  fc.integer({ min: 1, max: 5 }).map((count): object => logsRequest(logRecordsOf(count))),
  logsRequests,
)
const traceBatches = fc.oneof(
  fc.integer({ min: 1, max: 5 }).map((count): object => tracesRequest(spansOf(count))),
  fc.array(spans, { minLength: 1, maxLength: 4 }).map((spans): object => tracesRequest(spans)),
)
const json = (batch: object): Buffer => Buffer.from(JSON.stringify(toOtlpJson(batch)))
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

interface Case {
  readonly what: string
  readonly path: string
  readonly contentType: string
  readonly encoding?: string
  readonly bodies: fc.Arbitrary<Buffer>
  /** Throws when a body that was accepted should not have been. */
  readonly read: (body: Buffer) => void
}

const protobuf = (path: string, type: string, batches: fc.Arbitrary<object>): Case => ({
  what: `protobuf on ${path}`,
  path,
  contentType: PROTOBUF_TYPE,
  bodies: batches.map((batch) => encode(type, batch)),
  read: (body) => void messageType(type).decode(body),
})
const otlpJson = (path: string, batches: fc.Arbitrary<object>): Case => ({
  what: `JSON on ${path}`,
  path,
  contentType: 'application/json',
  bodies: batches.map(json),
  read: (body) => void JSON.parse(utf8.decode(body)),
})
const compressed = (encoding: string, compress: (bytes: Buffer) => Buffer): Case => ({
  ...protobuf(LOGS, LOGS_REQUEST, logBatches),
  what: `${encoding} on ${LOGS}`,
  encoding,
  bodies: logBatches.map((batch) => compress(encode(LOGS_REQUEST, batch))),
  read: () => {},
})

const CASES: readonly Case[] = [
  protobuf(LOGS, LOGS_REQUEST, logBatches),
  protobuf(TRACES, TRACES_REQUEST, traceBatches),
  otlpJson('/v1/otlp/logs', logBatches),
  otlpJson('/v1/otlp/traces', traceBatches),
  compressed('gzip', gzipSync),
  compressed('deflate', deflateSync),
  compressed('zstd', zstdCompressSync),
  compressed('snappy', snappyBlock),
  compressed('x-snappy-framed', snappyStream),
]

describe('a batch that was cut, spliced or had bits flipped', () => {
  for (const { what, path, contentType, encoding = 'identity', bodies, read } of CASES)
    it(`${what} is accepted, or refused for what is wrong with it`, async () => {
      const headers = { 'content-type': contentType, 'content-encoding': encoding, accept: 'application/json' }
      const property = fc.asyncProperty(bodies, changes, async (body, changes) => {
        const damaged = changes.reduce((bytes, change) => change(bytes), body)
        const reply = await server.request(path, damaged, { headers })
        if (reply.status === 200) read(damaged)
        else assertRefusedRightly(reply)
      })
      await fc.assert(property, { numRuns: BATCHES })
    })

  it('leaves the service well: healthy, and every record that was accepted can be read', async () => {
    assert.equal((await server.request('/health', null)).status, 200)
    for (const dataset of ['checkout', 'unknown_service']) {
      for (let cursor: string | null = null; ;) {
        const found: QueryReply = await find(server, { dataset, page: { limit: 500, cursor } })
        assert(dataset !== 'checkout' || found.matched_records > 0)
        assert(!('quarantined_records' in found))
        cursor = found.page.next_cursor
        if (cursor === null) break
      }
    }
    const { text } = await server.request('/metrics', null)
    assert.match(text, /^logstore_gateway_requests_in_flight 0$/m)
    assert.match(text, /^logstore_gateway_records_in_flight 0$/m)
    assert.match(text, /^logstore_body_space_used_bytes 0$/m)
    assert.doesNotMatch(server.stderr, /"level":"(error|fatal)"/)
  })
})

function assertRefusedRightly(reply: Reply): void {
  const { status, kind } = reply
  assert(KINDS.has(kind), `${status} ${reply.text}`)
  const expected = kind === 'tenant_mismatch' ? 403 : kind.endsWith('too_large') ? 413 : 400
  assert.deepEqual([status, reply.rejection().retryable], [expected, false])
}
