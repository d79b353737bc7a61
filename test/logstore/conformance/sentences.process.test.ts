/** Sentences of the specification that no other test holds: docs/notes/log-store-rows.md names them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Client, Metadata, credentials, status } from '@grpc/grpc-js'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { developmentPolicy } from '../../../src/logstore/tenants/tenant-policy-file.ts'
import { digestOf } from '../../../src/logstore/tenants/tenant-policy.ts'
import { LogStoreServer, requestHead } from '../../support/logstore.ts'
import { text } from '../../support/otlp.ts'
import {
  JSON_LOGS,
  JSON_TRACES,
  QUERY,
  accept,
  assertRefused,
  find,
  jsonLogs,
  jsonTraces,
  logRecordsOf,
  protobufLogs,
  recordsOf,
  spansOf,
  startForTests,
} from './batches.ts'

const server = await startForTests()

describe('the service', () => {
  for (const [what, path] of [
    ['metrics', '/v1/otlp/metrics'],
    ['profiles', '/v1/otlp/profiles'],
    ['dashboards', '/v1/dashboards'],
    ['a public replay', '/v1/replay'],
    ['external sinks', '/v1/sinks'],
    ['live publication', '/v1/publications'],
  ] as const) {
    it(`has no route for ${what}`, async () => {
      assertRefused(await server.request(path, null), 404, 'not_found')
      assertRefused(await server.request(path, {}), 404, 'not_found')
    })
  }

  it('reads the data directory with a query store of any name but s3', async () => {
    const other = await LogStoreServer.start({ env: { LOGSTORE_QUERY_STORE: 'S3' } })
    await accept(other, JSON_LOGS, jsonLogs(logRecordsOf(2)))
    assert.equal((await find(other, { dataset: 'checkout' })).matched_records, 2)
    await other.stop()
  })

  it('counts calls over gRPC and requests over HTTP together', async () => {
    const narrow = await LogStoreServer.start({
      env: { LOGSTORE_GATEWAY_MAX_REQUESTS: '1', LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0' },
    })
    const client = new Client(narrow.grpc, credentials.createInsecure())
    const asIs = (bytes: Buffer): Buffer => bytes
    const metadata = new Metadata()
    metadata.set('x-logstore-tenant', 'local')
    metadata.set('authorization', 'Bearer local-dev-token')
    const batch = protobufLogs(logRecordsOf(1))
    const call = (): Promise<number> =>
      new Promise((resolve) => {
        const { path } = EXPORT_METHODS[0]!
        client.makeUnaryRequest(path, asIs, asIs, batch, metadata, (error) => resolve(error?.code ?? status.OK))
      })
    assert.equal(await call(), status.OK)

    // Half a body over HTTP holds the only slot.
    const body = jsonLogs(logRecordsOf(1, 'held'))
    const connection = await narrow.connect()
    const headers = {
      'x-logstore-tenant': 'local',
      authorization: 'Bearer local-dev-token',
      expect: '100-continue',
    }
    connection.write(requestHead(JSON_LOGS, body.byteLength, headers))
    assert.equal((await connection.reply()).status, 100)
    assert.equal(await call(), status.RESOURCE_EXHAUSTED)
    connection.write(body)
    assert.equal((await connection.reply()).status, 200)
    assert.equal(await call(), status.OK)

    connection.close()
    client.close()
    await narrow.stop()
  })
})

describe('the development tenant', () => {
  it('is local, with one fixed token for every dataset, and there is no other', async () => {
    const { tenants } = developmentPolicy()
    assert.deepEqual(
      tenants.map(({ id, credentials: its }) => [id, its]),
      [['local', [{ tokenDigest: digestOf('local-dev-token'), datasets: null }]]],
    )
    const query = { dataset: 'checkout' }
    assert.equal((await server.request(QUERY, query)).status, 200)
    const other = { tenant: 'local', token: 'local-dev-token2' }
    assertRefused(await server.request(QUERY, query, other), 401, 'invalid_credentials')
  })

  it('has the window of the specification: 10 000 records, 16 MiB, 16 requests, 60 seconds', () => {
    assert.deepEqual(developmentPolicy().tenants[0]?.limits, {
      windowSeconds: 60,
      records: 10_000,
      bytes: 16 * 1024 * 1024,
      concurrentRequests: 16,
    })
  })
})

describe('a batch', () => {
  for (const key of ['tenant_id', 'service.logstore.tenant_id']) {
    it(`takes the claim ${key}`, async () => {
      const dataset = `claimed by ${key}`
      const claim = (tenant: string): Buffer =>
        jsonLogs(logRecordsOf(1), { attributes: [text('service.name', dataset), text(key, tenant)] })
      assertRefused(await server.request(JSON_LOGS, claim('other')), 403, 'tenant_mismatch')
      await accept(server, JSON_LOGS, claim('local'))
      assert.equal((await find(server, { dataset })).matched_records, 1)
    })
  }

  for (const [path, dataset, batch] of [
    [JSON_LOGS, 'ordered logs', jsonLogs(logRecordsOf(5).toReversed(), { dataset: 'ordered logs' })],
    [JSON_TRACES, 'ordered spans', jsonTraces(spansOf(5).toReversed(), { dataset: 'ordered spans' })],
  ] as const) {
    it(`answers the ids in the order of the batch (${path})`, async () => {
      const { record_ids, accepted_records } = await accept(server, path, batch)
      assert.equal(accepted_records, record_ids.length)
      for (const [i, record_id] of record_ids.entries()) {
        const found = await find(server, { dataset, filter: { record_id } })
        const [record] = recordsOf(found)
        const { body, name } = record!.raw_payload.record as { body?: { stringValue: string }; name?: string }
        assert.equal((body?.stringValue ?? name)?.split(' ')[1], String(4 - i))
      }
    })
  }

  it('shows a record as it was sent, also after a restart', async () => {
    const own = await LogStoreServer.start()
    await accept(own, JSON_LOGS, jsonLogs(logRecordsOf(3), { dataset: 'kept' }))
    const before = recordsOf(await find(own, { dataset: 'kept' }))
    const bodies = before.map(({ raw_payload }) => (raw_payload.record as { body: unknown }).body)
    assert.deepEqual(
      bodies,
      logRecordsOf(3).map(({ body }) => body),
    )
    await own.restart()
    assert.deepEqual(recordsOf(await find(own, { dataset: 'kept' })), before)
    await own.stop()
  })
})
