/** What the log of a process says about requests (access log), and about deletes and changes of access (audit log). */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { BrokerServer } from './support/broker.ts'
import { DEVELOPMENT_CREDENTIALS, LogStoreServer, policyTenant } from './support/logstore.ts'
import { ObjectStoreServer } from './support/objectstore.ts'
import type { RunningService } from './support/process.ts'
import { eventually } from './support/waiting.ts'

const ALL = { TRILOG_ACCESS_LOG: 'all' }
type Line = Readonly<Record<string, unknown>>

/** Lines of the log with this message, once there are `count` of them. */
async function linesOf(server: RunningService, message: string, count: number): Promise<Line[]> {
  const found = (): Line[] =>
    server.stderr
      .split('\n')
      .filter((line) => line.includes(`"msg":"${message}"`))
      .map((line) => JSON.parse(line) as Line)
  await eventually(() => found().length >= count)
  return found()
}

/** A line without the members that differ with each request. */
function shown({ ms, time, client, request_id: id, ...line }: Line): Line {
  assert.ok(typeof ms === 'number' && ms >= 0)
  assert.equal(typeof time, 'string')
  assert.match(String(client), /127\.0\.0\.1|0000:0000/)
  assert.notEqual(id, '')
  return line
}

describe('the access log', { concurrency: true }, () => {
  it('has a line for each request: who asked for what, and how that ended', async () => {
    const server = await BrokerServer.start({ env: ALL })
    await server.request('PUT', '/v1/streams/a%20b', {})
    await server.request('GET', '/v1/streams/none?secret=1')
    const lines = await linesOf(server, 'access', 2)
    const common = { level: 'info', service: 'broker', tenant: 'local', principal: 'local', msg: 'access' }
    assert.deepEqual(shown(lines[0]!), {
      ...common,
      operation: 'PUT /v1/streams/{stream}',
      method: 'PUT',
      target: '/v1/streams/a%20b',
      status: 201,
      received_bytes: 2,
      sent_bytes: lines[0]!['sent_bytes'],
    })
    const missing = shown(lines[1]!)
    assert.deepEqual([missing['status'], missing['target']], [400, '/v1/streams/none'])
    assert.doesNotMatch(server.stderr, /secret/)
    await server.stop()
  })

  it('names operations of the object store, and holds no signature of a signed URL', async () => {
    const server = await ObjectStoreServer.start({ env: ALL })
    await fetch(`${server.url}/bucket`, { method: 'PUT' })
    await fetch(`${server.url}/bucket/key`, { method: 'PUT', body: 'four' })
    await fetch(`${server.url}/bucket/key?X-Amz-Signature=0123abcd&X-Amz-Credential=x`)
    const lines = (await linesOf(server, 'access', 3)).map(shown)
    assert.deepEqual(
      lines.map(({ operation, target, principal, received_bytes: bytes }) => [operation, target, principal, bytes]),
      [
        ['CreateBucket', '/bucket', 'local', 0],
        ['PutObject', '/bucket/key', 'local', 4],
        ['GetObject', '/bucket/key', 'local', 0],
      ],
    )
    assert.doesNotMatch(server.stderr, /0123abcd/)
    await server.stop()
  })

  it('names tenants of the log store, and none whose token is wrong', async () => {
    const server = await LogStoreServer.start({ env: ALL })
    await server.request('/v1/query', { dataset: 'x' })
    await server.request('/v1/datasets', null)
    await server.request('/v1/query', { dataset: 'x' }, { token: 'a-wrong-token' })
    const lines = (await linesOf(server, 'access', 3)).map(shown)
    assert.deepEqual(
      lines.map(({ operation, tenant, status }) => [operation, tenant, status]),
      [
        ['POST /v1/query', DEVELOPMENT_CREDENTIALS.tenant, 200],
        ['GET /v1/datasets', DEVELOPMENT_CREDENTIALS.tenant, 200],
        ['POST /v1/query', undefined, 401],
      ],
    )
    assert.doesNotMatch(server.stderr, /a-wrong-token/)
    await server.stop()
  })

  it('is off by default', async () => {
    const server = await BrokerServer.start()
    await server.request('GET', '/v1/streams')
    await server.stop()
    assert.doesNotMatch(server.stderr, /"msg":"access"/)
  })
})

describe('the audit log', { concurrency: true }, () => {
  it('says who deleted what of the object store, and who changed access to it, whatever the level of the log', async () => {
    const server = await ObjectStoreServer.start({ env: { TRILOG_LOG_LEVEL: 'error' } })
    const ask = async (method: string, path: string, body?: string): Promise<number> => {
      const md5 = createHash('md5')
        .update(body ?? '')
        .digest('base64')
      const headers = { 'x-obj-principal': 'alice', 'content-md5': md5 }
      return (await fetch(`${server.url}${path}`, { method, headers, ...(body !== undefined && { body }) })).status
    }
    await ask('PUT', '/bucket')
    for (const key of ['a', 'b', 'c']) assert.equal(await ask('PUT', `/bucket/${key}`, 'x'), 200)
    assert.equal(await ask('DELETE', '/bucket/a'), 204)
    const keys = ['b', 'c'].map((key) => `<Object><Key>${key}</Key></Object>`).join('')
    assert.equal(await ask('POST', '/bucket?delete', `<Delete>${keys}</Delete>`), 200)
    const allow = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::bucket/*' }
    const policy = JSON.stringify({ Version: '2012-10-17', Statement: [allow] })
    assert.equal(await ask('PUT', '/bucket?policy', policy), 204)
    assert.equal(await ask('DELETE', '/bucket?policy'), 204)
    assert.equal(await ask('DELETE', '/bucket'), 204)
    assert.equal(await ask('DELETE', '/bucket'), 404)
    const lines = await linesOf(server, 'audit', 5)
    assert.deepEqual(
      lines.map(({ operation, bucket, key, keys, principal }) => [operation, bucket, key ?? keys, principal]),
      [
        ['DeleteObject', 'bucket', 'a', 'alice'],
        ['DeleteObjects', 'bucket', ['b', 'c'], 'alice'],
        ['PutBucketPolicy', 'bucket', undefined, 'alice'],
        ['DeleteBucketPolicy', 'bucket', undefined, 'alice'],
        ['DeleteBucket', 'bucket', undefined, 'alice'],
      ],
    )
    for (const line of lines) assert.match(String(line['request_id']), /^objreq-/)
    await server.stop()
  })

  it('says which tenants a new policy brings, takes away and changes', async () => {
    const server = await LogStoreServer.start({
      env: { TRILOG_LOG_LEVEL: 'error' },
      policy: [policyTenant('stays', 't1'), policyTenant('goes', 't2'), policyTenant('changes', 't3')],
    })
    const changed = [policyTenant('stays', 't1'), policyTenant('changes', 't3-new'), policyTenant('comes', 't4')]
    server.writePolicy(changed)
    server.signal('SIGHUP')
    const [line] = await linesOf(server, 'audit', 1)
    const { operation, added, removed, changed: others } = line!
    assert.deepEqual([operation, added, removed, others], ['ChangeTenants', ['comes'], ['goes'], ['changes']])
    assert.doesNotMatch(server.stderr, /t3-new/)
    await server.stop()
  })

  it('can be turned off', async () => {
    const server = await ObjectStoreServer.start({ env: { TRILOG_AUDIT_LOG: '0' } })
    await fetch(`${server.url}/bucket`, { method: 'PUT' })
    assert.equal((await fetch(`${server.url}/bucket`, { method: 'DELETE' })).status, 204)
    await server.stop()
    assert.doesNotMatch(server.stderr, /"msg":"audit"/)
  })
})
