/** Permissions of callers: every route against every permission, in every mode that needs credentials. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import {
  CertificateAccess,
  CertifiedAccess,
  KeyAccess,
  ProxyAccess,
  openAccess,
} from '../../../src/broker/api/access.ts'
import type { Access } from '../../../src/broker/api/access.ts'
import type { BrokerHttpParts } from '../../../src/broker/api/parts.ts'
import { brokerRoutes } from '../../../src/broker/api/routes.ts'
import { Grants, PERMISSIONS } from '../../../src/broker/grants.ts'
import { addressBlock } from '../../../src/addresses.ts'
import type { RequestHead } from '../../../src/http/exchange.ts'
import { TrustedProxies } from '../../../src/http/trusted-proxies.ts'
import { subjectWritten } from '../../../src/config/subject.ts'
import { Authority } from '../../support/certificates.ts'
import type { Certified } from '../../support/certificates.ts'
import { CALLER, TestBroker, assertRefused } from './support.ts'
import type { Asked } from './support.ts'

const enough = { maxBodyBytes: 1, metrics: null } as BrokerHttpParts // for the route table alone: no endpoint is called
const ROUTES = brokerRoutes(enough)
const PROTECTED = ROUTES.filter(([, , permission]) => permission !== 'public')

const keyOf = (name: string): string => `key-of-${name.replaceAll(' ', '-')}`
const digestOf = (key: string): string => createHash('sha256').update(key).digest('hex')

/** For each permission one credential for all streams and one for other streams only, and two without permissions. */
const CREDENTIALS = [...PERMISSIONS, null].flatMap((permission) =>
  (['all', 'elsewhere'] as const).map((where) => ({
    tenant: 'acme',
    principal: `${permission} ${where}`,
    grants: permission === null ? [] : [{ permission, stream: where === 'all' ? null : 'elsewhere*' }],
  })),
)
const KEYS = CREDENTIALS.map((each) => ({ ...each, proof: { keySha256: digestOf(keyOf(each.principal)) } }))
const SUBJECTS = CREDENTIALS.map((each) => ({ ...each, proof: { subject: subjectWritten(`CN=${each.principal}`)! } }))

const authority = new Authority('clients of the broker')
const certificates = new Map<string, Certified>()

function certificateOf(name: string): Certified {
  const known = certificates.get(name) ?? authority.certify([['CN', name]])
  certificates.set(name, known)
  return known
}

const HEADERS = { tenant: 'x-auth-tenant', principal: 'x-auth-principal', permissions: 'x-auth-permissions' }
const proxies = (...addresses: string[]): TrustedProxies =>
  new TrustedProxies(addresses.map((each) => addressBlock(each)!))

interface Mode {
  readonly access: Access
  readonly asWith: (permission: string | null, where: 'all' | 'elsewhere') => Asked
  /** Authority of the clients' certificates; null: plain HTTP. */
  readonly authority: Authority | null
}

const MODES: Readonly<Record<string, Mode>> = {
  'api-key': {
    access: new KeyAccess(KEYS),
    asWith: (permission, where) => ({ headers: { authorization: `Bearer ${keyOf(`${permission} ${where}`)}` } }),
    authority: null,
  },
  mtls: {
    access: new CertificateAccess(SUBJECTS),
    asWith: (permission, where) => ({ certificate: certificateOf(`${permission} ${where}`) }),
    authority,
  },
  external: {
    access: new ProxyAccess(HEADERS, proxies('127.0.0.1')),
    asWith: (permission, where) => ({
      headers: {
        'x-auth-tenant': 'acme',
        'x-auth-principal': 'somebody',
        'x-auth-permissions': permission === null ? '' : where === 'all' ? permission : `${permission}:elsewhere*`,
      },
    }),
    authority: null,
  },
}

const pathOf = (route: string): string =>
  route.replaceAll(/:(\w+)/g, (_, name: string) => (name === 'stream' ? 'orders' : `a-${name}`))

async function start(context: TestContext, access: Access, authority: Authority | null = null): Promise<TestBroker> {
  const broker = await TestBroker.start({ access, guard: null }, authority)
  context.after(() => broker.stop())
  return broker
}

for (const [mode, { access, asWith, authority }] of Object.entries(MODES)) {
  describe(`in the mode ${mode}`, () => {
    it('every route asks for its permission, for its stream, and for no other', async (context) => {
      const broker = await start(context, access, authority)
      for (const [method, route, needed] of PROTECTED) {
        const target = pathOf(route)
        for (const permission of [...PERMISSIONS, null]) {
          const { status } = await broker.ask(method, target, asWith(permission, 'all'))
          assert.equal(status === 403, permission !== needed, `${method} ${target} with ${permission}: ${status}`)
          assert.notEqual(status, 401)
          const elsewhere = await broker.ask(method, target, asWith(permission, 'elsewhere'))
          assertRefused(elsewhere, 403, 'authorization_denied')
        }
      }
      assert.equal(broker.unidentified.length, 0, 'whose credentials hold is known')
      assert.equal(broker.refused.length, PROTECTED.length * (2 * (PERMISSIONS.length + 1) - 1))
    })

    it('everything but the health and the standing routes asks for credentials first, whatever else is wrong', async (context) => {
      const broker = await start(context, access, authority)
      const others = [
        ['GET', '/openapi.json'],
        ['GET', '/nowhere'],
        ['DELETE', '/v1/streams'],
        ['GET', '/v1/streams/%ff?x=1'],
      ] as const
      for (const [method, target] of [...PROTECTED.map(([m, route]) => [m, pathOf(route)] as const), ...others]) {
        const reply = await broker.ask(method, target)
        assertRefused(reply, 401, 'authentication_required')
        assert.equal(reply.headers['www-authenticate'], 'Bearer')
      }
      for (const [method, target, status] of [
        ['GET', '/openapi.json', 200],
        ['GET', '/nowhere', 404],
        ['DELETE', '/v1/streams', 405],
      ] as const) {
        assert.equal((await broker.ask(method, target, asWith(null, 'all'))).status, status)
      }
    })

    it('strangers learn of the health only whether there is one', async (context) => {
      const broker = await start(context, access, authority)
      const stranger = await broker.ask('GET', '/health')
      assert.deepEqual(JSON.parse(stranger.text), { status: 'ok', service: 'mq', version: '1.2.3' })
      const known = await broker.ask('GET', '/health', asWith(null, 'all'))
      assert.equal(JSON.parse(known.text).node_id, 'node-1')
    })

    it('whoever has records copied to a stream may publish there', async (context) => {
      const broker = await start(context, access, authority)
      const body = { failure_policy: { max_attempts: 2, dead_letter_stream: 'dead' } }
      const creator = asWith('create_stream', 'all')
      assertRefused(await broker.ask('PUT', '/v1/streams/orders', { ...creator, body }), 403, 'authorization_denied')
      assert.equal((await broker.ask('PUT', '/v1/streams/orders', { ...creator, body: {} })).status, 201)
      const delivery = '/v1/streams/orders/subscriptions/sub-1/deliveries/dlv-1/dead-letter'
      const dead = { ...asWith('stream.consume', 'all'), body: { dead_letter_stream: 'dead', reason: 'bad' } }
      assertRefused(await broker.ask('POST', delivery, dead), 403, 'authorization_denied')
    })
  })
}

describe('keys', () => {
  it('that are unknown, wrong or no keys are refused in the same words', async (context) => {
    const broker = await start(context, MODES['api-key']!.access)
    const texts = new Set<string>()
    for (const authorization of [
      'Bearer unknown',
      `Bearer ${keyOf('x')}`,
      'Basic YTpi',
      'Bearer',
      'Bearer a b',
      `Bearer${keyOf(KEYS[0]!.principal)}`,
    ]) {
      const reply = await broker.ask('GET', '/v1/streams', { headers: { authorization } })
      assertRefused(reply, 401, 'authentication_failed')
      texts.add(reply.text)
    }
    assert.equal(texts.size, 1)
  })

  it('are known in whatever case the scheme is, and behind any number of spaces', async (context) => {
    const broker = await start(context, MODES['api-key']!.access)
    for (const scheme of ['Bearer ', 'bearer ', 'Bearer  ', 'BEARER    ']) {
      const headers = { authorization: `${scheme}${keyOf(KEYS[0]!.principal)}` }
      assert.notEqual((await broker.ask('GET', '/v1/streams', { headers })).status, 401, scheme)
    }
  })

  it('are those of the file that was read last', async (context) => {
    const [key] = KEYS
    const access = new KeyAccess([key!])
    const broker = await start(context, access)
    const headers = { authorization: `Bearer ${keyOf(key!.principal)}` }
    assert.notEqual((await broker.ask('GET', '/v1/streams', { headers })).status, 401)
    access.replace([{ ...key!, proof: { keySha256: digestOf('another') } }])
    assert.equal((await broker.ask('GET', '/v1/streams', { headers })).status, 401)
    const other = await broker.ask('GET', '/v1/streams', { headers: { authorization: 'bearer another' } })
    assert.notEqual(other.status, 401)
  })
})

describe('a certificate', () => {
  it('of a subject that is not known is refused in the same words as none', async (context) => {
    const broker = await start(context, MODES['mtls']!.access, authority)
    const none = await broker.ask('GET', '/v1/streams')
    assertRefused(none, 401, 'authentication_required')
    const unknown = await broker.ask('GET', '/v1/streams', { certificate: certificateOf('nobody') })
    assertRefused(unknown, 401, 'authentication_failed')
    const words = [none, unknown].map(({ text }) => (JSON.parse(text) as { error: { message: string } }).error.message)
    assert.equal(words[0], words[1])
  })

  it('of another authority is refused in the handshake', async (context) => {
    const broker = await start(context, MODES['mtls']!.access, authority)
    const foreign = new Authority('others').certify([['CN', 'tenant.inspect all']])
    await assert.rejects(broker.ask('GET', '/v1/streams', { certificate: foreign }))
  })

  it('is whose the file that was read last says', async (context) => {
    const [first] = SUBJECTS
    const access = new CertificateAccess([first!])
    const broker = await start(context, access, authority)
    const asked = { certificate: certificateOf(first!.principal) }
    assert.notEqual((await broker.ask('GET', '/v1/streams', asked)).status, 401)
    access.replace(SUBJECTS.slice(1))
    assertRefused(await broker.ask('GET', '/v1/streams', asked), 401, 'authentication_failed')
  })

  it('is asked for besides other credentials where there are authorities', async (context) => {
    const broker = await start(context, new CertifiedAccess(openAccess(CALLER)), authority)
    assertRefused(await broker.ask('GET', '/v1/streams'), 401, 'authentication_required')
    const anybody = { certificate: certificateOf('anybody') }
    assert.equal((await broker.ask('GET', '/v1/streams', anybody)).status, 200)
  })
})

describe('a proxy', () => {
  it('is believed only at its address, and says for whom it asks', async (context) => {
    const forged = await start(context, new ProxyAccess(HEADERS, proxies('10.0.0.1')))
    const { headers = {} } = MODES['external']!.asWith('tenant.inspect', 'all')
    assertRefused(await forged.ask('GET', '/v1/streams', { headers }), 401, 'authentication_failed')
    const trusted = await start(context, new ProxyAccess(HEADERS, proxies('127.0.0.0/8')))
    assert.equal((await trusted.ask('GET', '/v1/streams', { headers })).status, 200)
    for (const missing of ['x-auth-tenant', 'x-auth-principal']) {
      const reply = await trusted.ask('GET', '/v1/streams', { headers: { ...headers, [missing]: '' } })
      assertRefused(reply, 401, 'authentication_required')
    }
    const spaced = await trusted.ask('GET', '/v1/streams', { headers: { ...headers, 'x-auth-tenant': 'a b' } })
    assertRefused(spaced, 401, 'authentication_failed')
  })
})

describe('what a proxy says', () => {
  const access = new ProxyAccess(HEADERS, proxies('127.0.0.1'))
  const peer = { remoteAddress: '127.0.0.1', clientCertificate: '' }
  /** A head with these values of each header, in order. `header` returns the first. */
  const headOf = (headers: Readonly<Record<string, readonly string[]>>): RequestHead => ({
    method: 'GET',
    path: '/v1/streams',
    query: '',
    contentLength: -1,
    param: () => null,
    header: (name) => headers[name]?.[0] ?? '',
    headers: () => new Map(Object.entries(headers).map(([name, values]) => [name, values.join(',')])),
  })
  const said = { 'x-auth-tenant': ['acme'], 'x-auth-principal': ['ci'], 'x-auth-permissions': ['stream.publish:a:b'] }

  it('counts once: a header that is there twice is the client’s, too', () => {
    for (const name of Object.keys(said)) {
      const forged = headOf({ ...said, [name]: ['tenant.administer', 'x'] })
      assert.throws(() => access.identify(forged, peer), { code: 'authentication_failed' })
    }
  })

  it('names streams whole, colons included; an empty name is none', () => {
    const { grants } = access.identify(headOf(said), peer)
    assert.deepEqual(
      ['a', 'a:b', ''].map((stream) => grants.allow('stream.publish', stream)),
      [false, true, false],
    )
    const empty = access.identify(headOf({ ...said, 'x-auth-permissions': ['stream.publish:'] }), peer)
    assert(!empty.grants.allow('stream.publish', 'a'))
  })
})

describe('grants', () => {
  it('are for a name, for names that begin alike, or for all', () => {
    const grants = new Grants([
      { permission: 'stream.publish', stream: 'orders' },
      { permission: 'stream.publish', stream: 'jobs-*' },
      { permission: 'stream.consume', stream: '*' },
      { permission: 'tenant.inspect', stream: 'orders' },
    ])
    const published = ['orders', 'orders2', 'jobs-', 'jobs-1', 'job', 'jobs-*'].filter((stream) =>
      grants.allow('stream.publish', stream),
    )
    assert.deepEqual(published, ['orders', 'jobs-', 'jobs-1', 'jobs-*'])
    assert(grants.allow('stream.consume', 'anything'))
    assert(!grants.allow('tenant.inspect', null), 'a grant for a stream is none for the tenant')
    assert(!grants.allow('stream.ack', 'orders'))
  })
})
