/** A log store that was alone gets a second node, which copies its log and takes over the lead on request. On a real NATS server. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Client, credentials, status } from '@grpc/grpc-js'
import type { ServiceError } from '@grpc/grpc-js'
import { TestCluster, leads, waitUntilCaughtUp } from '../../support/cluster.ts'
import { decodeStatus } from '../../support/decode-status.ts'
import { LEDGER_HEADERS, LEDGER_POLICY } from '../../support/logstore-ledger.ts'
import { LogStoreServer } from '../../support/logstore.ts'
import { HASTENED } from '../../support/process.ts'
import { natsOrSkip } from '../../support/nats-server.ts'
import { Tail } from '../../support/tail.ts'
import { eventually } from '../../support/waiting.ts'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { encodeLogs, logsRequest, text, toOtlpJson } from '../../support/otlp.ts'

const SETTINGS = {
  ...HASTENED,
  LOGSTORE_SEGMENT_BYTES: String(1 << 20),
  LOGSTORE_RETENTION_MAX_BYTES: String(4 << 20),
  LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0',
}
const URL_OF_B = 'http://127.0.0.1:9'
const LONG = 'x'.repeat(2000)
const FILLING_BATCHES = 80
const FIRST_BUNDLE = '0'.repeat(16)

const JSON_LOGS = '/v1/otlp/logs'
const QUERY = '/v1/query'
const PROTOBUF = { headers: { 'content-type': 'application/x-protobuf' } }
const FIRST_NS = 1_767_225_600_000_000_000n

const requestOf = (label: string, records: number): ReturnType<typeof logsRequest> =>
  logsRequest(
    Array.from({ length: records }, (_, i) => ({
      timeUnixNano: String(FIRST_NS + BigInt(i)),
      body: { stringValue: `${label} ${i}` },
    })),
    [text('service.name', 'checkout'), text('tenant_id', 'local')],
  )
const batchOf = (label: string, records = 10): Buffer =>
  Buffer.from(JSON.stringify(toOtlpJson(requestOf(label, records))))
const ONE_RECORD = encodeLogs(requestOf('refused', 1))

async function accept(server: LogStoreServer, batch: Buffer): Promise<{ readonly record_ids: readonly string[] }> {
  return (await server.request(JSON_LOGS, batch)).ok() as { record_ids: string[] } // the tests check the members
}

async function count(server: LogStoreServer): Promise<number> {
  const found = (await server.request(QUERY, { dataset: 'checkout' })).ok() as { matched_records: number } // the tests check the members
  return found.matched_records
}

const { name, skip } = natsOrSkip('a log store that was alone, and its second node')

describe(name, { skip }, () => {
  const small = new TestCluster<LogStoreServer>({ servers: 1 })
  const nodeOf = (id: string): Record<string, string> => ({ ...small.nodeOf(id), ...SETTINGS })
  const start = (env: Record<string, string>): Promise<LogStoreServer> =>
    small.started(LogStoreServer.start({ policy: LEDGER_POLICY, env }))

  it('copies bundles, of which the oldest are gone, follows, and leads when it is asked to', async () => {
    const first = await start(SETTINGS)
    for (let n = 0; n < FILLING_BATCHES; n += 1) await accept(first, batchOf(`fill ${n} ${LONG}`, 40))
    await eventually(() => first.bundles.length > 2 && !first.bundles.includes(FIRST_BUNDLE))
    await eventually(() => first.isCompacted(first.bundles[0]!))
    const alone = await accept(first, batchOf('alone'))
    await first.stop()

    await first.startAgain(nodeOf('a'))
    await eventually(() => leads(first))
    const streamed = await accept(first, batchOf('in the stream'))
    const second = await start({ ...nodeOf('b'), TRILOG_CLUSTER_LOGSTORE_URL: URL_OF_B })
    await second.logged(/"msg":"the log of another node was copied"/)
    await waitUntilCaughtUp(second, 'b', LEDGER_HEADERS)
    const records = await count(first)

    await refusesEverything(second)
    const tail = await Tail.open(first, '/v1/tail')
    first.signal('SIGUSR2')
    await eventually(() => leads(second))
    await tail.until(() => tail.isOver)
    assert.match(tail.named('end')[0]!.data, /"not_leading"/)
    await eventually(async () => {
      const { headers } = await first.request(QUERY, { dataset: 'checkout' })
      return headers.get('x-trilog-leader') === URL_OF_B
    })
    await first.kill()

    assert.equal(await count(second), records)
    for (const [label, before] of [
      ['alone', alone],
      ['in the stream', streamed],
    ] as const) {
      const again = await accept(second, batchOf(label))
      assert.deepEqual(again, { ...before, duplicate_records: 10 })
    }
    const after = await Tail.open(second, '/v1/tail', { lastId: tail.lastId })
    const last = await accept(second, batchOf('of the second'))
    await after.until(() => after.records.length === 10)
    assert.deepEqual(
      after.records.map(({ record_id }) => record_id),
      last.record_ids,
    )
    after.close()
    assert.equal(await count(second), records + 10)

    await second.stop()
    await second.startAgain({ TRILOG_CLUSTER_SERVERS: '', ...without(nodeOf('b')), TRILOG_CLUSTER_LOGSTORE_URL: '' })
    assert.equal(await count(second), records + 10)
  })

  /** Asserts that a follower refuses every route, in the form that the clients of each route read. */
  async function refusesEverything(node: LogStoreServer): Promise<void> {
    assert.equal((await node.request('/health', null)).status, 200)
    assert.equal((await node.request('/metrics', null)).status, 200)
    assert.equal((await node.request('/health?role=leader', null)).status, 503)
    const refused = [
      await node.request(JSON_LOGS, batchOf('refused')),
      await node.request(QUERY, { dataset: 'checkout' }),
      await node.request('/v1/export', { dataset: 'checkout' }),
      await node.request('/v1/query/histogram', { dataset: 'checkout' }),
      await node.request('/v1/tail', null),
      await node.request('/v1/datasets', null),
      await node.request(`/v1/traces/${'a'.repeat(32)}`, null),
      await node.request('/v1/endpoint/a', null),
    ]
    for (const reply of refused) {
      assert.deepEqual([reply.status, reply.kind, reply.rejection().retryable], [503, 'not_leading', true])
      assert.equal(reply.headers.get('retry-after'), '1')
    }

    const overHttp = await node.request('/v1/logs', ONE_RECORD, PROTOBUF)
    assert.deepEqual([overHttp.status, overHttp.headers.get('retry-after')], [503, '1'])
    const asked = { code: status.UNAVAILABLE, reason: 'not_leading', retryAfterSeconds: 1 }
    const { code, reason, retryAfterSeconds } = decodeStatus(overHttp.bytes)
    assert.deepEqual({ code, reason, retryAfterSeconds }, asked)

    const client = new Client(node.grpc, credentials.createInsecure())
    const asIs = (bytes: Buffer): Buffer => bytes
    const overGrpc = await new Promise<ServiceError | null>((resolve) => {
      client.makeUnaryRequest(EXPORT_METHODS[0]!.path, asIs, asIs, ONE_RECORD, resolve)
    })
    client.close()
    assert.equal(overGrpc?.code, status.UNAVAILABLE)
    const details = decodeStatus(Buffer.from(overGrpc.metadata.get('grpc-status-details-bin')[0]!))
    assert.deepEqual([details.reason, details.retryAfterSeconds], [asked.reason, asked.retryAfterSeconds])
  }
})

/** Unsets the settings of the cluster. */
const without = (env: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.keys(env).flatMap((each) => (each.startsWith('TRILOG_') ? [[each, '']] : [])))
