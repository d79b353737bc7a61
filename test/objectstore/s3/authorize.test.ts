import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { Authenticator } from '../../../src/objectstore/s3/auth/authenticator.ts'
import { localAuthenticator } from '../../../src/objectstore/s3/auth/authenticator.ts'
import { OPERATIONS } from '../../../src/objectstore/s3/operations-table.ts'
import { TrustedProxies } from '../../../src/http/trusted-proxies.ts'
import type { GatewayParts } from '../../../src/objectstore/s3/gateway.ts'
import { formBody } from '../../support/form-body.ts'
import { TestGateway, assertRefused, textsOf } from './support.ts'
import type { Asked } from './support.ts'

/** Mode `local`, except that the principal `nobody` is anonymous. */
const authenticator: Authenticator = {
  ...localAuthenticator,
  authenticate(request, nowMs) {
    const caller = localAuthenticator.authenticate(request, nowMs)
    return caller.principal?.id === 'nobody' ? { ...caller, principal: null } : caller
  },
}

/** A test may set OWN_PROXY, so that its own address is that of a trusted proxy. */
let trusted: TrustedProxies | null = null
const NO_PROXIES = new TrustedProxies([])
const OWN_PROXY = new TrustedProxies([{ network: '127.0.0.1', prefixBits: 32 }])
const proxies: GatewayParts['proxies'] = {
  isSecure: (peer, headers) => (trusted ?? NO_PROXIES).isSecure(peer, headers),
  addressOf: (peer, headers) => (trusted ?? NO_PROXIES).addressOf(peer, headers),
}

let gateway: TestGateway

interface Statement {
  readonly Effect?: 'Allow' | 'Deny'
  readonly Principal?: unknown
  readonly Action: string | readonly string[]
  readonly Resource?: string | readonly string[]
  readonly Condition?: object
}

async function policy(...statements: Statement[]): Promise<void> {
  const defaults = { Effect: 'Allow', Principal: '*', Resource: ['arn:aws:s3:::bkt', 'arn:aws:s3:::bkt/*'] }
  const Statement = statements.map((statement) => ({ ...defaults, ...statement }))
  const put = await gateway.ask('PUT', '/bkt?policy', { body: JSON.stringify({ Version: '2012-10-17', Statement }) })
  assert.equal(put.status, 204, put.text)
}

/** The body and headers of DeleteObjects for these keys. */
function deletion(...keys: readonly string[]): Required<Asked> {
  const body = `<Delete>${keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`
  return { body, headers: { 'content-md5': createHash('md5').update(body).digest('base64') } }
}

/** The body and headers of PostObject for a key. */
const form = (key: string, headers: Readonly<Record<string, string>> = {}): Required<Asked> => ({
  body: formBody('limit', [
    ['key', key],
    ['file', 'x', 'a.txt'],
  ]),
  headers: { 'content-type': 'multipart/form-data; boundary=limit', ...headers },
})

const TAGS = '<Tagging><TagSet><Tag><Key>colour</Key><Value>blue</Value></Tag></TagSet></Tagging>'

describe('authorization', () => {
  before(async () => {
    gateway = await TestGateway.start({ authenticator, proxies })
    await gateway.ask('PUT', '/bkt')
    await gateway.ask('PUT', '/bkt/key', { body: 'x' })
    await gateway.ask('PUT', '/bkt/red', { body: 'x', headers: { 'x-obj-tagging': 'colour=red' } })
  })
  after(() => gateway.stop())
  beforeEach(() => {
    trusted = null
    return gateway.ask('DELETE', '/bkt?policy')
  })

  describe('permissions', () => {
    const needed: readonly (readonly [permission: string, method: string, target: string, body?: string])[] = [
      ['list', 'GET', '/'],
      ['admin', 'PUT', '/new'],
      ['read', 'HEAD', '/bkt'],
      ['read', 'GET', '/bkt?location'],
      ['admin', 'DELETE', '/new'],
      ['admin', 'PUT', '/bkt?cors'],
      ['admin', 'GET', '/bkt?cors'],
      ['admin', 'GET', '/bkt?policy'],
      ['list', 'GET', '/bkt?list-type=2'],
      ['list', 'GET', '/bkt?uploads'],
      ['delete', 'POST', '/bkt?delete', 'x'],
      ['write', 'POST', '/bkt', 'x'],
      ['write', 'PUT', '/bkt/new', 'x'],
      ['read', 'GET', '/bkt/key'],
      ['read', 'HEAD', '/bkt/key'],
      ['delete', 'DELETE', '/bkt/new'],
      ['read', 'GET', '/bkt/key?tagging'],
      ['write', 'PUT', '/bkt/key?tagging', TAGS],
      ['write', 'DELETE', '/bkt/key?tagging'],
      ['write', 'POST', '/bkt/key?uploads'],
      ['write', 'PUT', '/bkt/key?partNumber=1&uploadId=u', 'x'],
      ['write', 'POST', '/bkt/key?uploadId=u', 'x'],
      ['read', 'GET', '/bkt/key?uploadId=u'],
      ['delete', 'DELETE', '/bkt/key?uploadId=u'],
    ]

    for (const [permission, method, target, body] of needed) {
      it(`${method} ${target} needs ${permission}, and nothing else`, async () => {
        const others = ['read', 'write', 'list', 'delete', 'admin'].filter((word) => word !== permission).join(',')
        const as = (permissions: string) => ({
          headers: { 'x-obj-permissions': permissions },
          ...(body !== undefined && { body }),
        })
        assertRefused(await gateway.ask(method, target, as(others)), 403, 'AccessDenied')
        const allowed = await gateway.ask(method, target, as(permission))
        assert.notEqual(allowed.status, 403, allowed.text)
      })
    }

    it('are said of every operation but the preflight', () => {
      const without = OPERATIONS.filter(({ permission }) => permission === null).map(({ name }) => name)
      assert.deepEqual(without, ['CorsPreflight'])
    })
  })

  describe('a bucket of another principal', () => {
    it('is not there', async () => {
      for (const [method, target] of [
        ['GET', '/bkt/key'],
        ['PUT', '/bkt/key'],
        ['DELETE', '/bkt'],
        ['GET', '/bkt?policy'],
        ['POST', '/bkt?delete'],
      ] as const) {
        assertRefused(await gateway.askAs('bob', method, target), 404, 'NoSuchBucket')
      }
    })

    it('is there for what its policy allows, and for nothing else', async () => {
      await policy({ Action: 's3:GetObject', Principal: { AWS: 'bob' } })
      assert.equal((await gateway.askAs('bob', 'GET', '/bkt/key')).status, 200)
      assertRefused(await gateway.askAs('bob', 'PUT', '/bkt/key', { body: 'y' }), 404, 'NoSuchBucket')
      assertRefused(await gateway.askAs('eve', 'GET', '/bkt/key'), 404, 'NoSuchBucket')
      const asBob = { 'x-obj-principal': 'bob', 'x-obj-permissions': 'list' }
      assertRefused(await gateway.ask('GET', '/bkt/key', { headers: asBob }), 403, 'AccessDenied')
    })

    it('is not there for what its policy denies', async () => {
      await policy({ Action: 's3:*' }, { Effect: 'Deny', Action: 's3:GetObject', Resource: 'arn:aws:s3:::bkt/red' })
      assert.equal((await gateway.askAs('bob', 'GET', '/bkt/key')).status, 200)
      assertRefused(await gateway.askAs('bob', 'GET', '/bkt/red'), 404, 'NoSuchBucket')
    })

    it('has keys deleted one by one as its policy allows', async () => {
      await policy({ Action: 's3:DeleteObject', Resource: 'arn:aws:s3:::bkt/mine*' })
      const { status, text } = await gateway.askAs('bob', 'POST', '/bkt?delete', deletion('mine1', 'key'))
      assert.equal(status, 200, text)
      assert.deepEqual([textsOf(text, 'Key'), textsOf(text, 'Code')], [['mine1', 'key'], ['NoSuchBucket']])
    })

    it('is not there for who may delete none of the keys that it names', async () => {
      await policy({ Action: 's3:DeleteObject', Resource: 'arn:aws:s3:::bkt/mine*' })
      const long = 'k'.repeat(1025)
      for (const asked of [deletion('key'), deletion('key', 'red'), deletion('key', long), deletion(long)]) {
        assertRefused(await gateway.askAs('bob', 'POST', '/bkt?delete', asked), 404, 'NoSuchBucket')
        assertRefused(await gateway.askAs('nobody', 'POST', '/bkt?delete', asked), 403, 'AccessDenied')
      }
      assert.equal((await gateway.ask('GET', '/bkt/key')).status, 200)
      await policy({ Action: 's3:DeleteObject', Condition: { StringEquals: { 's3:ExistingObjectTag/colour': 'red' } } })
      assertRefused(await gateway.askAs('bob', 'POST', '/bkt?delete', deletion('key', long)), 404, 'NoSuchBucket')
    })

    it('is not there, whatever the body says, for whom no statement could allow it', async () => {
      const Condition = { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } }
      for (const statement of [
        { Action: ['s3:GetObject', 's3:ListBucket'] },
        { Action: '*', Principal: { AWS: 'eve' } },
        { Action: '*', Resource: 'arn:aws:s3:::bkt' },
        { Action: '*', Condition },
      ]) {
        await policy(statement)
        for (const [target, asked] of [
          ['?delete', deletion('key')],
          ['?delete', { body: deletion('key').body }],
          ['?delete', { body: 'x' }],
          ['', form('key')],
          ['', form('key', { 'if-none-match': '*' })],
          ['', form('key', { 'x-obj-expected-bucket-owner': 'bob' })],
          ['', { body: 'x' }],
        ] as const) {
          assertRefused(await gateway.askAs('bob', 'POST', `/bkt${target}`, asked), 404, 'NoSuchBucket')
          assertRefused(await gateway.askAs('bob', 'POST', `/none${target}`, asked), 404, 'NoSuchBucket')
        }
        assertRefused(await gateway.askAs('nobody', 'POST', '/bkt?delete', deletion('key')), 403, 'AccessDenied')
      }
    })

    it('takes the form of whom its policy allows the key', async () => {
      await policy({ Action: 's3:PutObject', Resource: 'arn:aws:s3:::bkt/mine*' })
      assert.equal((await gateway.askAs('bob', 'POST', '/bkt', form('mine2'))).status, 204)
      assertRefused(await gateway.askAs('bob', 'POST', '/bkt', form('key')), 404, 'NoSuchBucket')
      const elsewhere = form('mine2', { 'x-obj-expected-bucket-owner': 'bob' })
      assertRefused(await gateway.askAs('bob', 'POST', '/bkt', elsewhere), 403, 'AccessDenied')
    })

    it('does not look at tags in a body of whom no statement could allow them', async () => {
      const Condition = { StringEquals: { 's3:RequestObjectTag/colour': 'blue' } }
      await policy({ Action: 's3:PutObjectTagging', Principal: { AWS: 'eve' }, Condition })
      const body = 'no tags'
      assertRefused(await gateway.askAs('bob', 'PUT', '/bkt/key?tagging', { body }), 404, 'NoSuchBucket')
      assertRefused(await gateway.askAs('nobody', 'PUT', '/bkt/key?tagging', { body }), 403, 'AccessDenied')
      const headers = { 'x-obj-permissions': 'read' }
      assertRefused(await gateway.askAs('eve', 'PUT', '/bkt/key?tagging', { body, headers }), 403, 'AccessDenied')
      assertRefused(await gateway.ask('PUT', '/bkt/key?tagging', { body, headers }), 403, 'AccessDenied')
      assertRefused(await gateway.askAs('eve', 'PUT', '/bkt/key?tagging', { body }), 400, 'MalformedXML')
      const inHeader = { body: 'x', headers: { 'x-obj-tagging': '%' } }
      await policy({ Action: 's3:PutObject', Effect: 'Deny', Condition })
      assertRefused(await gateway.askAs('bob', 'PUT', '/bkt/key', inHeader), 404, 'NoSuchBucket')
    })
  })

  describe('a write', () => {
    const tagged = { 'x-obj-tagging': 'colour=blue' }
    const copied = { 'x-amz-copy-source': 'bkt/red' }
    const replaced = { ...copied, 'x-amz-tagging-directive': 'REPLACE' }
    const tagging: (readonly [what: string, method: string, target: string, asked: Asked])[] = [
      ['PutObject', 'PUT', '/bkt/w', { body: 'x', headers: tagged }],
      ['CopyObject', 'PUT', '/bkt/w', { headers: { ...replaced, ...tagged } }],
      ['CreateMultipartUpload', 'POST', '/bkt/w?uploads', { headers: { 'x-amz-tagging': 'colour=blue' } }],
      [
        'PostObject',
        'POST',
        '/bkt',
        {
          ...form('w'),
          body: formBody('limit', [
            ['key', 'w'],
            ['tagging', TAGS],
            ['file', 'x', 'a.txt'],
          ]),
        },
      ],
    ]
    for (const [what, method, target, asked] of tagging) {
      it(`that sets tags needs s3:PutObjectTagging: ${what}`, async () => {
        await policy({ Action: ['s3:PutObject', 's3:GetObject'] })
        assertRefused(await gateway.askAs('bob', method, target, asked), 403, 'AccessDenied')
        await policy({ Action: ['s3:PutObject', 's3:GetObject', 's3:PutObjectTagging'] })
        const allowed = await gateway.askAs('bob', method, target, asked)
        assert.ok(allowed.status < 300, allowed.text)
        await policy({ Effect: 'Deny', Action: 's3:PutObjectTagging' })
        assertRefused(await gateway.ask(method, target, asked), 403, 'AccessDenied')
      })
    }

    describe('that takes over the tags of its source', () => {
      const reads = { Action: ['s3:GetObject', 's3:PutObject'] }
      const readsTags = { Action: 's3:GetObjectTagging', Resource: 'arn:aws:s3:::bkt/red' }
      const putsTags = { Action: 's3:PutObjectTagging', Resource: 'arn:aws:s3:::bkt/w' }
      const ifTagged = (colour: string) => ({
        ...putsTags,
        Condition: { StringEquals: { 's3:RequestObjectTag/colour': colour } },
      })
      const cases: readonly (readonly [statements: readonly Statement[], ofBob: number, ofOwner: number])[] = [
        [[reads], 403, 200],
        [[reads, readsTags], 403, 200],
        [[reads, putsTags], 403, 200],
        [[reads, readsTags, putsTags], 200, 200],
        [[reads, readsTags, ifTagged('red')], 200, 200],
        [[reads, readsTags, ifTagged('blue')], 403, 200],
        [[reads, readsTags, putsTags, { ...ifTagged('red'), Effect: 'Deny' }], 403, 403],
        [[reads, readsTags, putsTags, { ...readsTags, Effect: 'Deny' }], 403, 403],
      ]
      for (const [statements, ofBob, ofOwner] of cases) {
        const names = statements.map(({ Effect = 'Allow', Action, Condition }) =>
          [Effect, Action, JSON.stringify(Condition)].join(' ').trim(),
        )
        it(`is judged by what it reads and sets: ${names.join('; ')}`, async () => {
          await policy(...statements)
          // The header does not count when the copy takes over the tags of its source.
          for (const headers of [copied, { ...copied, 'x-amz-tagging-directive': 'COPY', ...tagged }]) {
            const bob = await gateway.askAs('bob', 'PUT', '/bkt/w', { headers })
            if (ofBob === 403) assertRefused(bob, 403, 'AccessDenied')
            else assert.equal(bob.status, ofBob, bob.text)
            const owner = await gateway.ask('PUT', '/bkt/w', { headers })
            assert.equal(owner.status, ofOwner, owner.text)
          }
        })
      }
    })

    it('that takes over tags from a bucket of another principal needs to read them there', async () => {
      await gateway.askAs('bob', 'PUT', '/of-bob')
      const copy = () => gateway.askAs('bob', 'PUT', '/of-bob/w', { headers: copied })
      assertRefused(await copy(), 404, 'NoSuchBucket')
      await policy({ Action: 's3:GetObject' })
      assertRefused(await copy(), 403, 'AccessDenied')
      await policy({ Action: ['s3:GetObject', 's3:GetObjectTagging'] })
      assert.equal((await copy()).status, 200)
    })

    it('that sets none does not', async () => {
      await policy({ Action: ['s3:PutObject', 's3:GetObject'] })
      const statuses = []
      for (const headers of [{}, { 'x-obj-tagging': '' }, { 'x-amz-copy-source': 'bkt/key' }, replaced]) {
        statuses.push((await gateway.askAs('bob', 'PUT', '/bkt/w', { headers, body: '' })).status)
      }
      assert.deepEqual(statuses, [200, 200, 200, 200])
    })

    it('with a condition on what is there needs s3:GetObject, but of the owner', async () => {
      const etag = (await gateway.ask('PUT', '/bkt/w', { body: 'x' })).headers['etag']!
      const begun = await gateway.ask('POST', '/bkt/w?uploads')
      const uploadId = textsOf(begun.text, 'UploadId')[0]!
      const headers = { 'if-match': '"other"' }
      const { body, headers: digested } = deletion('w')
      const withEtag = body.toString().replace('</Key>', '</Key><ETag>"other"</ETag>')
      const writes: readonly (readonly [method: string, target: string, asked: Asked])[] = [
        ['PUT', '/bkt/w', { body: 'y', headers }],
        ['PUT', '/bkt/absent', { body: 'y', headers }],
        ['PUT', '/bkt/w', { headers: { ...replaced, ...headers } }],
        ['POST', `/bkt/w?uploadId=${uploadId}`, { body: 'y', headers }],
        ['POST', '/bkt', form('w', headers)],
        ['DELETE', '/bkt/w', { headers }],
        ['DELETE', '/bkt/absent', { headers }],
      ]
      const Action = ['s3:PutObject', 's3:DeleteObject']
      // The source of the copy remains readable.
      await policy({ Action }, { Action: 's3:GetObject', Resource: 'arn:aws:s3:::bkt/red' })
      for (const [method, target, asked] of writes) {
        assertRefused(await gateway.askAs('bob', method, target, asked), 403, 'AccessDenied')
      }
      const md5 = createHash('md5').update(withEtag).digest('base64')
      const deleted = { body: withEtag, headers: { ...digested, 'content-md5': md5 } }
      const refused = await gateway.askAs('bob', 'POST', '/bkt?delete', deleted)
      assert.deepEqual([refused.status, textsOf(refused.text, 'Code')], [200, ['AccessDenied']])
      assertRefused(
        await gateway.askAs('bob', 'PUT', '/bkt/w', { headers: { 'if-none-match': '*' } }),
        412,
        'PreconditionFailed',
      )

      await policy({ Action: [...Action, 's3:GetObject'] })
      assertRefused(await gateway.askAs('bob', 'PUT', '/bkt/w', { body: 'y', headers }), 412, 'PreconditionFailed')
      const writer = { ...headers, 'x-obj-permissions': 'write' }
      assertRefused(await gateway.askAs('bob', 'PUT', '/bkt/w', { body: 'y', headers: writer }), 403, 'AccessDenied')
      const known = await gateway.askAs('bob', 'PUT', '/bkt/w', { body: 'y', headers: { 'if-match': etag } })
      assert.equal(known.status, 200, known.text)
      assertRefused(await gateway.ask('PUT', '/bkt/w', { body: 'y', headers: writer }), 412, 'PreconditionFailed')
    })
  })

  it('of reading tags decides who is told that there are any', async () => {
    const countFor = async (principal: string) =>
      (await gateway.askAs(principal, 'HEAD', '/bkt/red')).headers['x-obj-tagging-count']
    await policy({ Action: 's3:GetObject' })
    assert.deepEqual(
      [await countFor('bob'), await countFor('nobody'), await countFor('local')],
      [undefined, undefined, '1'],
    )
    await policy({ Action: 's3:GetObject' }, { Action: 's3:GetObjectTagging', Principal: { AWS: 'bob' } })
    assert.deepEqual([await countFor('bob'), await countFor('nobody')], ['1', undefined])
  })

  describe('nobody in particular', () => {
    it('is refused, whether or not there is such a bucket', async () => {
      assertRefused(await gateway.askAs('nobody', 'GET', '/bkt/key'), 403, 'AccessDenied')
      assertRefused(await gateway.askAs('nobody', 'GET', '/none/key'), 403, 'AccessDenied')
      assertRefused(await gateway.askAs('nobody', 'POST', '/bkt?delete'), 403, 'AccessDenied')
      assertRefused(await gateway.askAs('nobody', 'GET', '/'), 403, 'AccessDenied')
      assertRefused(await gateway.askAs('nobody', 'PUT', '/new-bucket'), 403, 'AccessDenied')
    })

    it('may do what a policy allows everybody', async () => {
      await policy({ Action: 's3:GetObject' })
      assert.equal((await gateway.askAs('nobody', 'GET', '/bkt/key')).status, 200)
      await policy({ Action: 's3:GetObject', Principal: { AWS: 'bob' } })
      assertRefused(await gateway.askAs('nobody', 'GET', '/bkt/key'), 403, 'AccessDenied')
    })
  })

  describe('the owner', () => {
    it('may do everything but what the policy denies', async () => {
      await policy({ Effect: 'Deny', Action: 's3:GetObject' })
      assertRefused(await gateway.ask('GET', '/bkt/key'), 403, 'AccessDenied')
      assert.equal((await gateway.ask('GET', '/bkt/key?tagging')).status, 200)
    })

    it('is never locked out of the policy', async () => {
      await policy({ Effect: 'Deny', Action: 's3:*' })
      assertRefused(await gateway.ask('HEAD', '/bkt'), 403, 'AccessDenied')
      assert.equal((await gateway.ask('GET', '/bkt?policy')).status, 200)
      assert.equal((await gateway.ask('DELETE', '/bkt?policy')).status, 204)
      assert.equal((await gateway.ask('HEAD', '/bkt')).status, 200)
    })

    it('that is not the expected one is refused', async () => {
      const expecting = (owner: string) =>
        gateway.ask('HEAD', '/bkt', { headers: { 'x-amz-expected-bucket-owner': owner } })
      assert.equal((await expecting('local')).status, 200)
      assertRefused(await expecting('bob'), 403, 'AccessDenied')
    })
  })

  describe('a condition', () => {
    const asBob = async (method: string, target: string, headers = {}, body?: string): Promise<number> =>
      (await gateway.askAs('bob', method, target, { headers, ...(body !== undefined && { body }) })).status

    it('looks at the tags that the object has', async () => {
      const Condition = { StringEquals: { 's3:ExistingObjectTag/colour': 'red' } }
      await policy({ Action: 's3:GetObject', Condition })
      assert.equal(await asBob('GET', '/bkt/red'), 200)
      assert.equal(await asBob('GET', '/bkt/key'), 404)
    })

    it('looks at the tags that the request brings, in its header or in its body', async () => {
      const Condition = { StringEquals: { 's3:RequestObjectTag/colour': 'blue' } }
      await policy({ Action: ['s3:PutObject', 's3:PutObjectTagging'], Condition })
      assert.equal(await asBob('PUT', '/bkt/blue', { 'x-obj-tagging': 'colour=blue' }, 'x'), 200)
      assert.equal(await asBob('PUT', '/bkt/green', { 'x-obj-tagging': 'colour=green' }, 'x'), 404)
      assert.equal(await asBob('PUT', '/bkt/none', {}, 'x'), 404)
      assert.equal(await asBob('PUT', '/bkt/blue?tagging', {}, TAGS), 200)
      assert.equal(await asBob('PUT', '/bkt/blue?tagging', {}, TAGS.replace('blue', 'green')), 404)
    })

    it('looks at the query of a listing', async () => {
      await policy({ Action: 's3:ListBucket', Condition: { StringLike: { 's3:prefix': 'pub/*' } } })
      assert.equal(await asBob('GET', '/bkt?list-type=2&prefix=pub/a'), 200)
      assert.equal(await asBob('GET', '/bkt?list-type=2&prefix=key'), 404)
      assert.equal(await asBob('GET', '/bkt?list-type=2'), 404)
    })

    it('looks at headers under either name, at the transport and at who asks', async () => {
      await policy({
        Action: 's3:PutObject',
        Condition: { StringEquals: { 's3:x-amz-server-side-encryption': 'AES256' } },
      })
      assert.equal(await asBob('PUT', '/bkt/sse', { 'x-obj-server-side-encryption': 'AES256' }, 'x'), 200)
      assert.equal(await asBob('PUT', '/bkt/sse', { 'x-amz-server-side-encryption': 'AES256' }, 'x'), 200)
      assert.equal(await asBob('PUT', '/bkt/sse', {}, 'x'), 404)
      await policy({ Action: 's3:GetObject', Condition: { Bool: { 'aws:SecureTransport': 'true' } } })
      assert.equal(await asBob('GET', '/bkt/key', { 'x-forwarded-proto': 'https' }), 404)
      trusted = OWN_PROXY
      assert.equal(await asBob('GET', '/bkt/key', { 'x-forwarded-proto': 'https' }), 200)
      assert.equal(await asBob('GET', '/bkt/key'), 404)
      await policy({ Action: 's3:GetObject', Condition: { StringLike: { 'aws:Referer': 'https://a/*' } } })
      assert.equal(await asBob('GET', '/bkt/key', { referer: 'https://a/b' }), 200)
      await policy({ Action: 's3:GetObject', Condition: { StringEquals: { 'aws:username': 'bob' } } })
      assert.equal(await asBob('GET', '/bkt/key'), 200)
    })

    it('looks at where the request comes from', async () => {
      const Statement = { Action: 's3:GetObject' }
      await policy({ ...Statement, Condition: { IpAddress: { 'aws:SourceIp': '127.0.0.0/8' } } })
      assert.equal(await asBob('GET', '/bkt/key'), 200)
      await policy({ ...Statement, Condition: { NotIpAddress: { 'aws:SourceIp': '127.0.0.0/8' } } })
      assert.equal(await asBob('GET', '/bkt/key', { 'x-forwarded-for': '10.0.0.1' }), 404)
      trusted = OWN_PROXY
      assert.equal(await asBob('GET', '/bkt/key', { 'x-forwarded-for': '10.0.0.1' }), 200)
      assert.equal(await asBob('GET', '/bkt/key', { 'x-forwarded-for': '10.0.0.1, 127.0.0.2' }), 404)
    })

    it('looks at the time', async () => {
      const at = (time: string) => ({ DateLessThan: { 'aws:CurrentTime': time } })
      await policy({ Action: 's3:GetObject', Condition: at('2026-11-21T00:00:00Z') })
      assert.equal(await asBob('GET', '/bkt/key'), 200)
      await policy({ Action: 's3:GetObject', Condition: at('2026-11-20T00:00:00Z') })
      assert.equal(await asBob('GET', '/bkt/key'), 404)
    })
  })
})
