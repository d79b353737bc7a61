/** How a refusal reads on the protobuf routes: OTLP specification "Failures", contract "Log store". */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { decodeStatus } from '../../support/decode-status.ts'
import { policyTenant } from '../../support/logstore.ts'
import type { RequestOptions } from '../../support/logstore.ts'
import {
  LOGS,
  PROTOBUF_TYPE,
  TRACES,
  assertRefused,
  logRecordsOf,
  protobufLogs,
  protobufTraces,
  spansOf,
  startForTests,
} from './batches.ts'

const server = await startForTests({
  env: { LOGSTORE_MAX_BODY_BYTES: '100000' },
  policy: [
    policyTenant('acme', 'good', { records: 600, window_seconds: 3600 }, ['orders']),
    policyTenant('full', 'good', { records: 600, bytes: 20_000, window_seconds: 3600 }),
  ],
})

const INVALID_ARGUMENT = 3
const PERMISSION_DENIED = 7
const RESOURCE_EXHAUSTED = 8
const UNAUTHENTICATED = 16

interface Case {
  readonly kind: string
  readonly status: number
  readonly code: number
  readonly headers?: RequestOptions['headers']
  readonly body?: Buffer
  readonly retryable?: true
  readonly tenant?: string
}
const orders = { tenant: 'acme', dataset: 'orders' }
const batch = protobufLogs(logRecordsOf(1), orders)
const full = (records: number): Buffer => protobufLogs(logRecordsOf(records), { tenant: 'full' })
const CASES: readonly Case[] = [
  { kind: 'missing_tenant', status: 401, code: UNAUTHENTICATED, headers: { 'x-logstore-tenant': null } },
  { kind: 'missing_credentials', status: 401, code: UNAUTHENTICATED, headers: { authorization: null } },
  { kind: 'unknown_tenant', status: 403, code: PERMISSION_DENIED, tenant: 'ghost' },
  { kind: 'invalid_credentials', status: 401, code: UNAUTHENTICATED, headers: { authorization: 'Bearer bad' } },
  { kind: 'unsupported_content_type', status: 415, code: INVALID_ARGUMENT, headers: { 'content-type': 'text/plain' } },
  { kind: 'unsupported_content_encoding', status: 415, code: INVALID_ARGUMENT, headers: { 'content-encoding': 'br' } },
  { kind: 'payload_too_large', status: 413, code: RESOURCE_EXHAUSTED, body: Buffer.alloc(100_001) },
  { kind: 'malformed_batch', status: 400, code: INVALID_ARGUMENT, body: Buffer.of(0xff) },
  { kind: 'empty_batch', status: 400, code: INVALID_ARGUMENT, body: Buffer.alloc(0) },
  { kind: 'batch_too_large', status: 413, code: INVALID_ARGUMENT, body: protobufLogs(logRecordsOf(513), orders) },
  { kind: 'tenant_mismatch', status: 403, code: PERMISSION_DENIED, body: full(1) },
  {
    kind: 'dataset_not_authorized',
    status: 403,
    code: PERMISSION_DENIED,
    body: protobufLogs(logRecordsOf(1), { tenant: 'acme' }),
  },
  {
    kind: 'record_quota_exceeded',
    status: 429,
    code: RESOURCE_EXHAUSTED,
    tenant: 'full',
    body: full(512),
    retryable: true,
  },
  {
    kind: 'byte_quota_exceeded',
    status: 429,
    code: RESOURCE_EXHAUSTED,
    tenant: 'full',
    body: protobufLogs([{ body: { stringValue: 'x'.repeat(15_000) } }], { tenant: 'full' }),
    retryable: true,
  },
]

describe('a refusal on a protobuf route', () => {
  before(async () => {
    const options = { tenant: 'full', token: 'good', headers: { 'content-type': PROTOBUF_TYPE } }
    assert.equal((await server.request(LOGS, full(100), options)).status, 200)
    const large = protobufLogs([{ body: { stringValue: 'y'.repeat(10_000) } }], { tenant: 'full' })
    assert.equal((await server.request(LOGS, large, options)).status, 200)
  })

  for (const { kind, status, code, headers = {}, body = batch, retryable = false, tenant = 'acme' } of CASES) {
    const request = (more: RequestOptions['headers'] = {}) =>
      server.request(LOGS, body, {
        tenant,
        token: 'good',
        headers: { 'content-type': PROTOBUF_TYPE, ...headers, ...more },
      })

    it(`of kind ${kind} is a google.rpc.Status with ErrorInfo${retryable ? ' and RetryInfo' : ''}`, async () => {
      const reply = await request()
      assert.deepEqual([reply.status, reply.headers.get('content-type')], [status, PROTOBUF_TYPE])
      const decoded = decodeStatus(reply.bytes)
      assert.deepEqual([decoded.code, decoded.reason], [code, kind])
      assert.match(decoded.message, new RegExp(`^${kind}: .{10,}`))
      const retryAfter = reply.headers.get('retry-after')
      assert.equal(decoded.retryAfterSeconds, retryAfter === null ? null : Number(retryAfter))
      assert.equal(retryAfter !== null, retryable)
    })
    it(`of kind ${kind} is the JSON envelope for a client that accepts only that`, async () => {
      assertRefused(await request({ accept: 'application/json' }), status, kind, { retryable })
      assertRefused(await request({ accept: 'text/html, application/json;q=0.9' }), status, kind, { retryable })
    })
  }

  it('stays protobuf for a client that accepts both, or anything', async () => {
    for (const accept of [`${PROTOBUF_TYPE}, application/json`, '*/*', 'text/plain', ''])
      for (const path of [LOGS, TRACES]) {
        const headers = { 'content-type': PROTOBUF_TYPE, accept }
        const reply = await server.request(path, Buffer.of(0xff), { tenant: 'acme', token: 'good', headers })
        assert.equal(decodeStatus(reply.bytes).reason, 'malformed_batch')
      }
  })
  it('never is one for what is accepted: the answer stays protobuf', async () => {
    const headers = { 'content-type': PROTOBUF_TYPE, accept: 'application/json' }
    const traces = protobufTraces(spansOf(1), orders)
    const reply = await server.request(TRACES, traces, { tenant: 'acme', token: 'good', headers })
    assert.deepEqual([reply.status, reply.headers.get('content-type'), reply.bytes.byteLength], [200, PROTOBUF_TYPE, 0])
  })
  it('has the type google.rpc.Status prescribes for its code, message and details', async () => {
    const reply = await server.request(LOGS, Buffer.of(0xff), {
      tenant: 'acme',
      token: 'good',
      headers: { 'content-type': PROTOBUF_TYPE },
    })
    // field 1 varint, field 2 and 3 length-delimited: a client with any google.rpc.Status reads them
    assert.deepEqual([reply.bytes[0], reply.bytes[1], reply.bytes[2]], [0x08, INVALID_ARGUMENT, 0x12])
  })
})
