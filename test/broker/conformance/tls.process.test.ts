/** A real node over TLS: principals by certificate, the client library, and replication to a site with an authority of its own. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { HttpBrokerError, HttpNativeClient } from '../../../src/client/index.ts'
import { PERMISSIONS } from '../../../src/broker/grants.ts'
import { BrokerServer, failToStartBroker } from '../../support/broker.ts'
import { Authority, TlsFilesOnDisk } from '../../support/certificates.ts'
import type { Certified, Name } from '../../support/certificates.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { Site, boundTo, numbered, policyTo } from '../../support/site.ts'
import { eventually } from '../../support/waiting.ts'

const servers = new Authority('servers')
const clients = new Authority('clients')
const files = new TlsFilesOnDisk()
files.write(servers.certify([['CN', 'localhost']]), clients)
const TLS_FLAGS = ['--tls-cert', files.cert, '--tls-key', files.key]
const MTLS_FLAGS = [...TLS_FLAGS, '--tls-client-ca', files.clientCa, '--auth-mode', 'mtls']

const ALL = PERMISSIONS.map((permission) => ({ permission }))
const file = `${temporaryDirectory()}/credentials.json`
const writeKeys = (...keys: object[]): void => writeFileSync(file, JSON.stringify({ keys }))
const subjectFor = (subject: string, tenant: string): object => ({ subject, tenant, principal: 'ci', grants: ALL })

const named = (organization: string, name: string): Name => [
  ['O', organization],
  ['CN', name],
]
const acme = clients.certify(named('acme', 'ci'))
const globex = clients.certify(named('globex', 'ci'))
const stranger = clients.certify(named('initech', 'ci'))

const opened: HttpNativeClient[] = []
after(() => Promise.all(opened.map((client) => client.close())))

async function clientOf(
  server: BrokerServer,
  certificate: Certified | null,
  apiKey?: string,
): Promise<HttpNativeClient> {
  const tls = { ca: servers.cert, ...certificate }
  const client = await HttpNativeClient.connect(server.url, { producerId: 't', tls, ...(apiKey && { apiKey }) })
  opened.push(client)
  return client
}

const refusalOf = async (call: Promise<unknown>): Promise<HttpBrokerError> => {
  const error: unknown = await call.then(
    () => assert.fail('it was not refused'),
    (refused: unknown) => refused,
  )
  assert(error instanceof HttpBrokerError, String(error))
  return error
}

describe('the mode mtls', () => {
  it('knows principals by the subjects of their certificates, and reads the file again', async (context) => {
    writeKeys(
      subjectFor('CN=ci,O=acme', 'acme'),
      subjectFor('O=globex, CN=ci', 'globex'),
      subjectFor('CN=operator', 'local'),
    )
    const server = await BrokerServer.start({ flags: [...MTLS_FLAGS, '--credentials-file', file] })
    context.after(() => server.kill())
    const ofAcme = await clientOf(server, acme)
    const ofGlobex = await clientOf(server, globex)
    for (const client of [ofAcme, ofGlobex]) {
      await client.createStream('orders')
      assert.equal((await client.publish('orders', { message_id: 'm', payload: 'p' })).offset, 0)
    }
    await ofAcme.createStream('secret')
    const unseen = await refusalOf(ofGlobex.publish('secret', { message_id: 'm', payload: 'p' }))
    assert.equal(unseen.status, 404)
    const words = new Set<string>()
    for (const certificate of [stranger, null]) {
      const refused = await refusalOf((await clientOf(server, certificate)).createStream('orders'))
      assert.equal(refused.status, 401)
      words.add(refused.message)
    }
    const operator = await clientOf(server, clients.certify([['CN', 'operator']]))
    await eventually(async () => {
      const { events } = await operator.auditEvents()
      return events.some(({ kind, principal }) => kind === 'authentication_failed' && principal === 'unknown')
    })
    writeKeys(subjectFor('CN=ci,O=initech', 'initech'))
    server.signal('SIGHUP')
    await server.logged('keys read again')
    assert.equal((await refusalOf(ofAcme.publish('orders', { message_id: 'm', payload: 'p' }))).status, 401)
    await (await clientOf(server, stranger)).createStream('orders')
  })

  it('serves the streaming connection of a client that shows its certificate, and ends it when the subject is none any more', async (context) => {
    writeKeys(subjectFor('CN=ci,O=acme', 'acme'))
    const server = await BrokerServer.start({ flags: [...MTLS_FLAGS, '--credentials-file', file] })
    context.after(() => server.kill())
    const streaming = { producerId: 't', streaming: true, requestTimeoutMs: 60_000 } as const
    const known = await HttpNativeClient.connect(server.url, { ...streaming, tls: { ca: servers.cert, ...acme } })
    const unknown = await HttpNativeClient.connect(server.url, { ...streaming, tls: { ca: servers.cert, ...stranger } })
    const distrusting = await HttpNativeClient.connect(server.url, { ...streaming, tls: { ca: clients.cert, ...acme } })
    opened.push(known, unknown, distrusting)
    await known.createStream('orders')
    const records = Array.from({ length: 100 }, (_, i) => ({ message_id: `m-${i}`, payload: 'p' }))
    const offsets = await Promise.all(records.map((record) => known.publish('orders', record)))
    assert.deepEqual(
      offsets.map(({ offset }) => offset),
      records.map((_, i) => i),
    )
    for (const client of [unknown, distrusting]) {
      await assert.rejects(client.publish('orders', { message_id: 'm', payload: 'p' }), { code: 'connection_failed' })
    }
    writeKeys(subjectFor('CN=ci,O=initech', 'initech'))
    server.signal('SIGHUP')
    await server.logged('keys read again')
    await assert.rejects(known.publish('orders', { message_id: 'm', payload: 'p' }), { kind: 'Transport' })
  })

  it('needs authorities, and credentials with subjects', async () => {
    writeKeys({ key_sha256: hash('sha256', 'x'), tenant: 'acme', principal: 'ci', grants: [] })
    const without = await failToStartBroker([...TLS_FLAGS, '--auth-mode', 'mtls', '--credentials-file', file])
    assert.equal(without.code, 2)
    assert.match(without.stderr, /^--tls-client-ca must name the authorities of clients, as the mode is mtls/)
    assert.equal(without.stderr.trim().split('\n').length, 1)
    const keysOnly = await failToStartBroker([...MTLS_FLAGS, '--credentials-file', file])
    assert.match(keysOnly.stderr, /--credentials-file names a file without a subject, which the mode mtls needs/)
  })
})

describe('replication over TLS', () => {
  it('trusts the authority that the binding names, and no other', async (context) => {
    writeKeys({ key_sha256: hash('sha256', 'the-key'), tenant: 'local', principal: 'site-a', grants: ALL })
    const target = await BrokerServer.start({
      flags: [...TLS_FLAGS, '--auth-mode', 'api-key', '--credentials-file', file],
    })
    context.after(() => target.kill())
    const ca = `${temporaryDirectory()}/ca.pem`
    writeFileSync(ca, servers.cert)
    const policy = policyTo(target.url, { api_key_env: 'SITE_B_KEY', target_ca_file: ca })
    const env = { SITE_B_KEY: 'the-key' }
    const blind = { ...policy, name: 'blind', target_site: 'c', target_ca_file: null }
    const source = await BrokerServer.start({ flags: boundTo([policy, blind]), env })
    context.after(() => source.kill())
    const site = new Site(source)
    await site.create('orders')
    await site.publish('orders', numbered(0, 20))
    const there = await clientOf(target, null, 'the-key')
    await eventually(async () => {
      try {
        return (await there.fetch('orders')).records.length === 20
      } catch (error) {
        if (error instanceof HttpBrokerError && error.status === 404) return false
        throw error
      }
    })
    await eventually(async () => {
      const { text } = await source.request('GET', '/v1/replication/status')
      return /certificate/.test(text)
    })
  })
})
