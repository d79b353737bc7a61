/** Credentials of a real node: tenants, keys that are read again, and a proxy that is trusted only at its address. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { after, describe, it } from 'node:test'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import type { BrokerReply } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { eventually } from '../../support/waiting.ts'

const ALL = [
  'tenant.administer',
  'tenant.inspect',
  'create_stream',
  'stream.inspect',
  'stream.publish',
  'stream.consume',
  'stream.ack',
].map((permission) => ({ permission }))

const keyFor = (key: string, tenant: string, grants: readonly object[] = ALL): object => ({
  key_sha256: createHash('sha256').update(key).digest('hex'),
  tenant,
  principal: `${tenant}-app`,
  grants,
})

const file = `${temporaryDirectory()}/keys.json`
const writeKeys = (...keys: object[]): void => writeFileSync(file, JSON.stringify({ keys }))
const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` })

writeKeys(
  keyFor('acme-key', 'acme'),
  keyFor('globex-key', 'globex'),
  keyFor('reader-key', 'acme', []),
  keyFor('operator-key', 'local'),
  keyFor('keeper-key', 'acme', [
    { permission: 'tenant.administer' },
    { permission: 'stream.publish', stream: 'other' },
  ]),
)
const broker = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', file] })
after(() => broker.kill())
const ask = (key: string, method: string, path: string, body: object | null = null): Promise<BrokerReply> =>
  broker.request(method, path, body, bearer(key))

describe('tenants', () => {
  it('have streams, groups and deliveries of their own under the same names', async () => {
    for (const key of ['acme-key', 'globex-key']) {
      assert.equal((await ask(key, 'PUT', '/v1/streams/orders')).status, 201)
      const record = { message_id: key, payload: key }
      assert.equal((await ask(key, 'POST', '/v1/streams/orders/records', record)).status, 201)
      const listed = JSON.parse((await ask(key, 'GET', '/v1/streams')).text) as { streams: { stream: string }[] }
      assert.deepEqual(
        listed.streams.map(({ stream }) => stream).filter((name) => name !== 'system.audit'),
        ['orders'],
      )
    }
    const claimed = await ask('acme-key', 'POST', '/v1/streams/orders/consumer-groups/g/claims', {})
    const { subscription_id, deliveries } = JSON.parse(claimed.text) as {
      subscription_id: string
      deliveries: { delivery_id: string; record: { message_id: string } }[]
    }
    assert.deepEqual(
      deliveries.map(({ record }) => record.message_id),
      ['acme-key'],
    )
    const ack = `/v1/streams/orders/subscriptions/${subscription_id}/deliveries/${deliveries[0]!.delivery_id}/ack`
    assertRefused(await ask('globex-key', 'POST', ack), 404, 'delivery_not_found')
    assert.equal((await ask('acme-key', 'POST', ack)).status, 200)
  })

  it('know nothing of each other’s streams', async () => {
    assert.equal((await ask('acme-key', 'PUT', '/v1/streams/secret')).status, 201)
    assertRefused(await ask('globex-key', 'GET', '/v1/streams/secret'), 404, 'stream_not_found')
    const claims = '/v1/streams/secret/consumer-groups/g/claims'
    assertRefused(await ask('globex-key', 'POST', claims, {}), 404, 'missing_stream')
  })
})

describe('a caller without a grant', () => {
  it('is refused alike whether or not there is a stream, and the tenant’s audit says so once', async () => {
    for (const stream of ['orders', 'nowhere']) {
      assertRefused(await ask('reader-key', 'GET', `/v1/streams/${stream}`), 403, 'authorization_denied')
    }
    await eventually(async () => {
      const page = await ask('acme-key', 'GET', '/v1/audit/events')
      const { events } = JSON.parse(page.text) as { events: { kind: string; principal: string; tenant: string }[] }
      return events.some(({ kind, tenant }) => kind === 'authorization_denied' && tenant === 'acme')
    })
    const others = JSON.parse((await ask('globex-key', 'GET', '/v1/audit/events')).text) as {
      events: { kind: string }[]
    }
    assert(others.events.every(({ kind }) => kind !== 'authorization_denied'))
  })
})

describe('a failure policy', () => {
  it('is changed only by callers who may publish to its dead-letter stream, also when that stays', async () => {
    const policy = { max_attempts: 2, dead_letter_stream: 'dead' }
    const path = '/v1/streams/with-policy'
    assert.equal((await ask('acme-key', 'PUT', path, { failure_policy: policy })).status, 201)
    const patch = (failure_policy: object | null): Promise<BrokerReply> =>
      ask('keeper-key', 'PATCH', path, { failure_policy })
    for (const changed of [{ max_attempts: 3 }, { dead_letter_stream: 'dead' }, { dead_letter_stream: 'third' }]) {
      assertRefused(await patch(changed), 403, 'authorization_denied')
    }
    assert.equal((await ask('keeper-key', 'PATCH', path, { retention: { max_bytes: 9 } })).status, 200)
    assert.equal((await patch({ dead_letter_stream: 'other' })).status, 200)
    assert.equal((await patch({ max_attempts: 3 })).status, 200)
    assert.equal((await ask('acme-key', 'PATCH', path, { failure_policy: { max_attempts: 4 } })).status, 200)
    assert.equal((await patch(null)).status, 200)
  })
})

interface Event {
  readonly kind: string
  readonly principal: string
  readonly detail: { readonly message: string; readonly remote_address: string; readonly refusals: number }
}

describe('a key that is nobody’s', () => {
  it('is told in the audit of the operator, without the key, and in no other tenant’s; a request without a key is not', async () => {
    const eventsFor = async (key: string): Promise<readonly Event[]> => {
      const { events } = JSON.parse((await ask(key, 'GET', '/v1/audit/events')).text) as { events: readonly Event[] }
      return events.filter(({ kind }) => kind === 'authentication_failed')
    }
    assertRefused(await broker.request('GET', '/v1/streams'), 401, 'authentication_required')
    assert.deepEqual(await eventsFor('operator-key'), [])
    assertRefused(await ask('unknown-key', 'GET', '/v1/streams'), 401, 'authentication_failed')
    await eventually(async () => (await eventsFor('operator-key')).length > 0)
    const [event] = await eventsFor('operator-key')
    assert.deepEqual(
      [event!.principal, event!.detail],
      ['unknown', { message: 'this node does not know the key', remote_address: '127.0.0.1', refusals: 1 }],
    )
    for (const key of ['acme-key', 'globex-key']) assert.deepEqual(await eventsFor(key), [])
    assert(!JSON.stringify(event).includes('unknown-key'))
  })
})

describe('the file of keys', () => {
  it('is read again on SIGHUP without closing a connection; a bad one leaves the keys as they are', async () => {
    const connection = await broker.connect()
    const get = async (key: string): Promise<number> => {
      connection.write(`GET /v1/streams HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n\r\n`)
      return (await connection.reply()).status
    }
    assert.equal(await get('acme-key'), 200)
    writeFileSync(file, '{"keys":')
    broker.signal('SIGHUP')
    await broker.logged('the credentials file was refused: the keys before stay in force')
    assert.equal(await get('acme-key'), 200)
    writeKeys(keyFor('acme-key-2', 'acme'))
    broker.signal('SIGHUP')
    await broker.logged('keys read again')
    assert.deepEqual([await get('acme-key'), await get('acme-key-2')], [401, 200])
    connection.socket.destroy()
    assert(!broker.stderr.includes('acme-key'), 'no key is logged')
  })
})

describe('what is read again on SIGHUP', () => {
  it('is told in the audit of the tenants that there are by then', async (context) => {
    const keys = `${temporaryDirectory()}/keys.json`
    const write = (...tenants: readonly string[]): void =>
      writeFileSync(keys, JSON.stringify({ keys: tenants.map((tenant) => keyFor(`${tenant}-key`, tenant)) }))
    write('acme')
    const node = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', keys], quota: {} })
    context.after(() => node.kill())
    write('acme', 'globex')
    node.signal('SIGHUP')
    await eventually(async () => {
      const { text } = await node.request('GET', '/v1/audit/events', null, bearer('globex-key'))
      return text.includes('"credentials_reloaded"') && text.includes('"quotas_reloaded"')
    })
  })
})

describe('a proxy', () => {
  it('is believed at its own address, and nobody else is', async (context) => {
    const headers = 'tenant=X-Auth-Tenant,principal=X-Auth-Principal,permissions=X-Auth-Permissions'
    const external = await BrokerServer.start({
      flags: ['--auth-mode', 'external', '--identity-header', headers, '--trusted-proxy', '127.0.0.2'],
    })
    context.after(() => external.kill())
    const identity = { 'X-Auth-Tenant': 'acme', 'X-Auth-Principal': 'ci', 'X-Auth-Permissions': 'tenant.inspect' }
    const statusFrom = (localAddress: string, given: Record<string, string>): Promise<number> =>
      new Promise((resolve, reject) => {
        const asked = request(`${external.url}/v1/streams`, { localAddress, headers: given }, (reply) => {
          reply.resume()
          resolve(reply.statusCode!)
        })
        asked.on('error', reject)
        asked.end()
      })
    assert.equal(await statusFrom('127.0.0.2', identity), 200)
    assert.equal(await statusFrom('127.0.0.3', identity), 401)
    assert.equal(await statusFrom('127.0.0.2', {}), 401)
  })
})
