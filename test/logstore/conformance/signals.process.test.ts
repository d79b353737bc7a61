/** Contract "All three" and "Log store": what SIGTERM, SIGINT and SIGHUP do. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { after, before, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { eventually } from '../../support/waiting.ts'
import { DEVELOPMENT_CREDENTIALS, LogStoreServer, policyTenant, requestHead } from '../../support/logstore.ts'
import type { RawConnection, Reply } from '../../support/logstore.ts'
import { JSON_LOGS, QUERY, find, jsonLogs, logRecordsOf } from './batches.ts'

/** A batch whose headers and first bytes the service has; the rest is up to the caller. */
async function beginBatch(server: LogStoreServer, batch: Buffer): Promise<RawConnection> {
  const connection = await server.connect()
  connection.write(requestHead(JSON_LOGS, batch.byteLength, { expect: '100-continue' }))
  assert.equal((await connection.reply()).status, 100)
  connection.write(batch.subarray(0, 9))
  return connection
}

async function accepts(server: LogStoreServer): Promise<boolean> {
  try {
    ;(await server.connect()).close()
    return true
  } catch {
    return false
  }
}

describe('a signal to stop', { concurrency: true }, () => {
  it('lets a request in flight finish, accepts no other, and ends with 0; what was answered is kept', async () => {
    const server = await LogStoreServer.start()
    await stopWithBatchInFlight(server, 'SIGTERM')
    await server.startAgain()
    assert.equal((await find(server, { dataset: 'checkout' })).matched_records, 7)
    await server.stop()
  })
  it('may be SIGINT too, and does not wait for idle connections', async () => {
    const server = await LogStoreServer.start()
    const connection = await server.connect()
    connection.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n')
    assert.equal((await connection.reply()).status, 200)
    await stopWithBatchInFlight(server, 'SIGINT')
    await eventually(() => connection.closed)
  })
  it('ends the process within 10 s, with 0, though a client stalls in the middle of its body', async () => {
    const server = await LogStoreServer.start()
    await beginBatch(server, jsonLogs(logRecordsOf(7)))
    await server.stop()
  })

  it('ends both fronts at the same time: one that has to wait for a client keeps none open', async () => {
    const server = await LogStoreServer.start({ env: { LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0' } })
    const session = connectHttp2(`http://${server.readyLine.grpc}`)
    const call = session.request({
      ':method': 'POST',
      ':path': '/opentelemetry.proto.collector.logs.v1.LogsService/Export',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-logstore-tenant': DEVELOPMENT_CREDENTIALS.tenant,
      authorization: `Bearer ${DEVELOPMENT_CREDENTIALS.token}`,
    })
    let isOver = false
    for (const each of [session, call]) each.on('error', () => {}).once('close', () => (isOver = true))
    await once(session, 'connect')
    await promisify(session.ping.bind(session))()
    server.signal('SIGTERM')
    await eventually(async () => !(await accepts(server)))
    const wasOver = isOver
    session.destroy()
    assert.equal(wasOver, false)
    await server.ended()
  })

  async function stopWithBatchInFlight(server: LogStoreServer, signal: NodeJS.Signals): Promise<void> {
    const batch = jsonLogs(logRecordsOf(7))
    const connection = await beginBatch(server, batch)
    server.signal(signal)
    await eventually(async () => !(await accepts(server)))
    server.signal(signal) // npm passes on a signal that its whole process group got already
    connection.write(batch.subarray(9))
    const reply = await connection.reply()
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers.get('connection'), 'close')
    await server.ended()
  }
})

describe('SIGHUP', () => {
  let server: LogStoreServer
  before(async () => {
    server = await LogStoreServer.start({ policy: [policyTenant('acme', 'first'), policyTenant('globex', 'globex')] })
  })
  after(() => server.stop())

  const ask = (tenant: string, token: string): Promise<Reply> =>
    server.request(QUERY, { dataset: 'checkout' }, { tenant, token })
  const send = (tenant: string, token: string, records = 1): Promise<Reply> =>
    server.request(JSON_LOGS, jsonLogs(logRecordsOf(records, `policy ${token}`), { tenant }), { tenant, token })
  const statusesOf = async (...requests: Promise<Reply>[]): Promise<number[]> =>
    (await Promise.all(requests)).map(({ status }) => status)

  it('takes a good policy file into use: new tenants and tokens come, old ones go', async () => {
    assert.deepEqual(
      await statusesOf(ask('acme', 'first'), send('globex', 'globex'), ask('initech', 'x')),
      [200, 200, 403],
    )
    server.writePolicy([policyTenant('acme', 'second'), policyTenant('initech', 'x')])
    server.signal('SIGHUP')
    await eventually(async () => (await ask('acme', 'second')).status === 200)
    assert.deepEqual(
      await statusesOf(
        ask('acme', 'first'),
        send('acme', 'first'),
        ask('globex', 'globex'),
        send('initech', 'x'),
        send('acme', 'second'),
      ),
      [401, 401, 403, 200, 200],
    )
  })
  it('keeps the policy in force when the file is bad, and logs why', async () => {
    for (const bad of ['{"tenants":', '{"tenants":[{"id":"acme"}]}']) {
      const said = server.stderr.length
      server.writePolicy(bad)
      server.signal('SIGHUP')
      await eventually(() =>
        /LOGSTORE_TENANT_POLICY_FILE.*policy before stays in force/.test(server.stderr.slice(said)),
      )
      assert.deepEqual(await statusesOf(ask('acme', 'second'), send('initech', 'x')), [200, 200])
    }
  })
  it('changes limits and datasets as well, and what a tenant has used stays used', async () => {
    const limits = { window_seconds: 3600, records: 10 }
    server.writePolicy([policyTenant('acme', 'third', limits, ['checkout'])])
    server.signal('SIGHUP')
    await eventually(async () => (await ask('acme', 'third')).status === 200)
    assert.equal((await send('acme', 'third', 11)).kind, 'record_quota_exceeded')
    const other = await server.request(QUERY, { dataset: 'other' }, { tenant: 'acme', token: 'third' })
    assert.equal(other.kind, 'dataset_not_authorized')

    assert.equal((await send('acme', 'third', 8)).status, 200)
    server.writePolicy([policyTenant('acme', 'fourth', limits)])
    server.signal('SIGHUP')
    await eventually(async () => (await ask('acme', 'fourth')).status === 200)
    assert.equal((await send('acme', 'fourth', 8)).kind, 'record_quota_exceeded')
  })
  it('never takes a request whose body is on its way for one of another tenant', async () => {
    const tenants = ['first', 'second', 'third'].map((id) => policyTenant(id, id))
    const reloaded = await LogStoreServer.start({ policy: tenants })
    const begun = ['first', 'second', 'third'].map(async (tenant) => {
      const connection = await reloaded.connect()
      const batch = jsonLogs(logRecordsOf(1, tenant), { tenant: 'third' }) // all claim the third tenant, and each has its own header
      const headers = { 'x-logstore-tenant': tenant, authorization: `Bearer ${tenant}`, expect: '100-continue' }
      connection.write(requestHead(JSON_LOGS, batch.byteLength, headers))
      assert.equal((await connection.reply()).status, 100)
      connection.write(batch.subarray(0, 9))
      return async (): Promise<string> => {
        connection.write(batch.subarray(9))
        const reply = await connection.reply()
        return reply.status === 200 ? 'stored' : reply.kind
      }
    })
    const finish = await Promise.all(begun)
    reloaded.writePolicy([tenants[2]!, tenants[0]!]) // the third is now listed where the first was
    reloaded.signal('SIGHUP')
    await eventually(async () => {
      const reply = await reloaded.request(QUERY, { dataset: 'checkout' }, { tenant: 'second', token: 'second' })
      return reply.status === 403
    })
    const outcomes: string[] = []
    for (const each of finish) outcomes.push(await each())
    assert.deepEqual(outcomes, ['tenant_mismatch', 'unknown_tenant', 'stored'])
    assert.equal((await reloaded.request('/health', null)).status, 200)
    await reloaded.stop()
  })
  it('without a policy file keeps the development policy', async () => {
    const development = await LogStoreServer.start()
    development.signal('SIGHUP')
    await development.logged(/no tenant policy file/)
    assert.equal((await development.request(QUERY, { dataset: 'checkout' })).status, 200)
    await development.stop()
  })
})
