import assert from 'node:assert/strict'
import { after, beforeEach, describe, it } from 'node:test'
import { StoreError } from '../../../src/errors.ts'
import { createHash } from 'node:crypto'
import { isBucketName } from '../../../src/objectstore/s3/buckets/bucket-name.ts'
import { EXTENSIONS } from '../../../src/objectstore/s3/operations-table.ts'
import { TestGateway, assertRefused, textOf, textsOf } from './support.ts'

let gateway: TestGateway
const started: TestGateway[] = []

const CORS = `<CORSConfiguration><CORSRule><AllowedOrigin>https://app.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>x-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader></CORSRule></CORSConfiguration>`
const ORIGIN = { origin: 'https://app.example' }
const POLICY = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Principal: { AWS: 'bob' }, Action: 's3:GetObject', Resource: 'arn:aws:s3:::bkt/*' }],
})

describe('bucket requests', () => {
  beforeEach(async () => {
    gateway = await TestGateway.start()
    started.push(gateway)
  })
  after(() => Promise.all(started.map((each) => each.stop())))

  describe('a bucket', () => {
    it('is created where it can be, with its id, durably', async () => {
      const created = await gateway.ask('PUT', '/bkt')
      assert.deepEqual([created.status, created.text], [200, ''])
      assert.equal(created.headers['location'], '/bkt')
      assert.equal(created.headers['x-obj-bucket-id'], 'bkt-00000001')
      assert.equal(created.headers['x-obj-durability'], 'synced')
      assertRefused(await gateway.ask('PUT', '/bkt'), 409, 'BucketAlreadyOwnedByYou')
      assertRefused(await gateway.askAs('bob', 'PUT', '/bkt'), 409, 'BucketAlreadyExists')
      const inHost = await gateway.ask('PUT', '/', { headers: { host: 'other.s3.local' } })
      assert.deepEqual([inHost.status, inHost.headers['location']], [200, '/other'])
    })

    it('has a name that fits into a host', async () => {
      for (const name of ['abc', 'a1-b2', 'my.bucket', '0'.repeat(63), '1.2.3.a']) assert.ok(isBucketName(name), name)
      const bad = [
        'ab',
        '0'.repeat(64),
        'Abc',
        'a_b',
        '-ab',
        'ab-',
        '.ab',
        'ab.',
        'a..b',
        'a.-b',
        'a-.b',
        '1.2.3.4',
        'aü1',
      ]
      for (const name of bad) assert.ok(!isBucketName(name), name)
      for (const name of ['xn--a', 'sthree-a', 'sthree-configurator']) assert.ok(!isBucketName(name), name)
      for (const name of ['a-s3alias', 'a--ol-s3', 'a.mrap', 'a--use1-az4--x-s3', 'a--table-s3']) {
        assert.ok(!isBucketName(name), name)
      }
      for (const name of [
        'a-xn--b',
        'sthree',
        'a-sthree-b',
        's3alias',
        'a-ol-s3',
        'amrap',
        'a--x-s3-b',
        'amzn-s3-demo-bucket',
      ]) {
        assert.ok(isBucketName(name), name)
      }
      assertRefused(await gateway.ask('PUT', '/No'), 400, 'InvalidBucketName')
      assertRefused(await gateway.ask('PUT', '/sthree-a'), 400, 'InvalidBucketName')
      await gateway.store.createBucket('sthree-older', 'local')
      assert.equal((await gateway.ask('PUT', '/sthree-older/key', { body: 'x' })).status, 200)
      assertRefused(await gateway.ask('GET', '/No?location'), 404, 'NoSuchBucket')
    })

    it('is created in the region of the service, and in no other', async () => {
      const body = (region: string) =>
        `<CreateBucketConfiguration><LocationConstraint>${region}</LocationConstraint></CreateBucketConfiguration>`
      assert.equal((await gateway.ask('PUT', '/bkt', { body: body('us-east-1') })).status, 200)
      assertRefused(
        await gateway.ask('PUT', '/bkt2', { body: body('eu-central-1') }),
        400,
        'IllegalLocationConstraintException',
      )
      assertRefused(await gateway.ask('PUT', '/bkt2', { body: body('nowhere') }), 400, 'InvalidLocationConstraint')
      assertRefused(await gateway.ask('PUT', '/bkt2', { body: '<no>' }), 400, 'MalformedXML')
      assertRefused(await gateway.ask('PUT', '/bkt2', { body: ' '.repeat(20_000) }), 400, 'EntityTooLarge')
      assertRefused(await gateway.ask('GET', '/bkt2?location'), 404, 'NoSuchBucket')
    })

    it('is not created as what it cannot be', async () => {
      const put = (headers: Record<string, string>) => gateway.ask('PUT', '/bkt', { headers })
      assertRefused(await put({ 'x-amz-acl': 'public-read' }), 501, 'NotImplemented')
      assertRefused(await put({ 'x-amz-grant-read': 'id=1' }), 501, 'NotImplemented')
      assertRefused(await put({ 'x-amz-bucket-object-lock-enabled': 'true' }), 501, 'NotImplemented')
      assertRefused(await put({ 'x-amz-object-ownership': 'ObjectWriter' }), 501, 'NotImplemented')
      const usual = { 'x-amz-acl': 'private', 'x-amz-object-ownership': 'BucketOwnerEnforced' }
      assert.equal((await put(usual)).status, 200)
    })

    it('is found by its owner, with its region', async () => {
      await gateway.ask('PUT', '/bkt')
      const head = await gateway.ask('HEAD', '/bkt', { headers: { 'x-amz-date': 'x' } })
      assert.deepEqual([head.status, head.headers['x-amz-bucket-region']], [200, 'us-east-1'])
      assertRefused(await gateway.askAs('bob', 'HEAD', '/bkt'), 404, 'NoSuchBucket')
      const location = await gateway.ask('GET', '/bkt?location')
      assert.equal(textOf(location.text, 'LocationConstraint') ?? '', '')
      assert.match(location.text, /<LocationConstraint/)
    })

    it('is deleted when it is empty', async () => {
      await gateway.ask('PUT', '/bkt')
      await gateway.ask('PUT', '/bkt/key', { body: 'x' })
      assertRefused(await gateway.ask('DELETE', '/bkt'), 409, 'BucketNotEmpty')
      await gateway.ask('DELETE', '/bkt/key')
      const deleted = await gateway.ask('DELETE', '/bkt')
      assert.deepEqual([deleted.status, deleted.headers['x-obj-durability']], [204, 'synced'])
      assertRefused(await gateway.ask('DELETE', '/bkt'), 404, 'NoSuchBucket')
    })
  })

  describe('the list of buckets', () => {
    it('has the caller’s own, by name', async () => {
      for (const name of ['bbb', 'aaa']) await gateway.ask('PUT', `/${name}`)
      await gateway.askAs('bob', 'PUT', '/ccc')
      const list = await gateway.ask('GET', '/')
      assert.deepEqual(textsOf(list.text, 'Name'), ['aaa', 'bbb'])
      assert.deepEqual([textOf(list.text, 'ID'), textOf(list.text, 'BucketRegion')], ['local', null])
      assert.deepEqual(textsOf((await gateway.askAs('bob', 'GET', '/')).text, 'Name'), ['ccc'])
    })

    it('comes in pages, and by prefix', async () => {
      for (const name of ['aa1', 'aa2', 'aa3', 'bb1']) await gateway.ask('PUT', `/${name}`)
      const first = await gateway.ask('GET', '/?max-buckets=2&prefix=aa')
      assert.deepEqual(textsOf(first.text, 'Name'), ['aa1', 'aa2'])
      assert.deepEqual([textOf(first.text, 'Prefix'), textOf(first.text, 'BucketRegion')], ['aa', 'us-east-1'])
      const token = textOf(first.text, 'ContinuationToken')!
      const second = await gateway.ask('GET', `/?max-buckets=2&prefix=aa&continuation-token=${token}`)
      assert.deepEqual(textsOf(second.text, 'Name'), ['aa3'])
      assert.equal(textOf(second.text, 'ContinuationToken'), null)
      assert.deepEqual(textsOf((await gateway.ask('GET', '/?bucket-region=eu-west-1')).text, 'Name'), [])
      for (const query of ['max-buckets=0', 'max-buckets=x', 'continuation-token=nonsense']) {
        assertRefused(await gateway.ask('GET', `/?${query}`), 400, 'InvalidArgument')
      }
    })
  })

  describe('the CORS configuration of a bucket', () => {
    beforeEach(() => gateway.ask('PUT', '/bkt'))

    it('is kept, given back and removed', async () => {
      assertRefused(await gateway.ask('GET', '/bkt?cors'), 404, 'NoSuchCORSConfiguration')
      const put = await gateway.ask('PUT', '/bkt?cors', { body: CORS })
      assert.deepEqual([put.status, put.headers['x-obj-durability']], [200, 'synced'])
      assert.deepEqual(textsOf((await gateway.ask('GET', '/bkt?cors')).text, 'AllowedMethod'), ['GET', 'PUT'])
      for (const _ of [1, 2]) assert.equal((await gateway.ask('DELETE', '/bkt?cors')).status, 204)
      assertRefused(await gateway.ask('GET', '/bkt?cors'), 404, 'NoSuchCORSConfiguration')
    })

    it('is refused when it is no such document, is too large, or is not what was digested', async () => {
      assertRefused(await gateway.ask('PUT', '/bkt?cors', { body: '<no/>' }), 400, 'MalformedXML')
      const named = CORS.replace('<AllowedOrigin>', `<ID>${'i'.repeat(256)}</ID><AllowedOrigin>`)
      assertRefused(await gateway.ask('PUT', '/bkt?cors', { body: named }), 400, 'InvalidRequest')
      assertRefused(await gateway.ask('PUT', '/bkt?cors', { body: 'x'.repeat(65_537) }), 400, 'EntityTooLarge')
      const md5 = createHash('md5').update('other').digest('base64')
      assertRefused(
        await gateway.ask('PUT', '/bkt?cors', { body: CORS, headers: { 'content-md5': md5 } }),
        400,
        'BadDigest',
      )
    })

    it('answers preflights, without credentials', async () => {
      await gateway.ask('PUT', '/bkt?cors', { body: CORS })
      const asking = { ...ORIGIN, 'access-control-request-method': 'PUT', 'access-control-request-headers': 'X-A' }
      const allowed = await gateway.ask('OPTIONS', '/bkt/key', {
        headers: { ...asking, 'x-obj-permissions': '', authorization: 'none of ours' },
      })
      assert.deepEqual([allowed.status, allowed.text], [200, ''])
      assert.equal(allowed.headers['x-obj-operation'], 'CorsPreflight')
      assert.equal(allowed.headers['access-control-allow-origin'], 'https://app.example')
      assert.equal(allowed.headers['access-control-allow-headers'], 'x-a')
      assert.equal(allowed.headers['access-control-allow-methods'], 'GET, PUT')
      const other = { ...asking, origin: 'https://evil.example' }
      assertRefused(await gateway.ask('OPTIONS', '/bkt/key', { headers: other }), 403, 'AccessDenied')
      for (const headers of [{}, ORIGIN]) {
        for (const target of ['/bkt', '/none']) {
          assertRefused(await gateway.ask('OPTIONS', target, { headers }), 400, 'BadRequest')
        }
      }
    })

    it('is not there for a bucket without one, nor for one that is not there', async () => {
      const headers = { ...ORIGIN, 'access-control-request-method': 'GET' }
      const without = await gateway.ask('OPTIONS', '/bkt', { headers })
      const absent = await gateway.ask('OPTIONS', '/none', { headers })
      assertRefused(without, 403, 'AccessDenied')
      assertRefused(absent, 403, 'AccessDenied')
      assert.equal(textOf(absent.text, 'Message'), textOf(without.text, 'Message'))
    })

    it('is on answers to actual requests, refusals too, but not on those of another origin', async () => {
      await gateway.ask('PUT', '/bkt?cors', { body: CORS })
      await gateway.ask('PUT', '/bkt/key', { body: 'x' })
      const allowed = async (target: string, headers: Record<string, string>) =>
        (await gateway.ask('GET', target, { headers })).headers['access-control-allow-origin']
      assert.equal(await allowed('/bkt/key', ORIGIN), 'https://app.example')
      assert.equal(await allowed('/bkt/none', ORIGIN), 'https://app.example')
      assert.equal(await allowed('/bkt/key', { ...ORIGIN, 'x-obj-permissions': 'list' }), 'https://app.example')
      assert.equal(await allowed('/bkt/key', { origin: 'https://evil.example' }), undefined)
      assert.equal(await allowed('/bkt/key', {}), undefined)
      assert.equal(await allowed('/bkt/key', { ...ORIGIN, 'x-obj-principal': 'bob' }), undefined) // the answer is NoSuchBucket
    })

    it('is on refusals of what is outside the profile or cannot be read, wherever the bucket is named', async () => {
      await gateway.ask('PUT', '/bkt?cors', { body: CORS })
      const allowed = async (method: string, target: string, headers: Record<string, string>) => {
        const reply = await gateway.ask(method, target, { headers })
        assert.equal(reply.headers['x-obj-operation'], 'Unsupported')
        return reply.headers['access-control-allow-origin']
      }
      for (const target of ['/key?acl', '?versioning', '/%zz', `/${'k'.repeat(1025)}`]) {
        assert.equal(await allowed('GET', `/bkt${target}`, ORIGIN), 'https://app.example', target)
      }
      assert.equal(await allowed('GET', '/key?acl', { ...ORIGIN, host: 'bkt.s3.local' }), 'https://app.example')
      assert.equal(await allowed('GET', '/bkt/key?acl', { origin: 'https://evil.example' }), undefined)
      assert.equal(await allowed('GET', '/none/key?acl', ORIGIN), undefined)
      const preflight = { ...ORIGIN, 'access-control-request-method': 'GET' }
      assert.equal(await allowed('OPTIONS', '/bkt/%zz', preflight), undefined)
    })

    it('is on no refusal before it is durable', async () => {
      await gateway.ask('PUT', '/bkt?cors', { body: CORS })
      gateway.store.settled = () => Promise.reject(new StoreError('unavailable', 'wal_unavailable', 'lost'))
      assertRefused(await gateway.ask('GET', '/bkt/key?acl', { headers: ORIGIN }), 503, 'ServiceUnavailable')
      assertRefused(await gateway.ask('GET', '/bkt/key?acl'), 501, 'NotImplemented')
    })
  })

  describe('the policy of a bucket', () => {
    beforeEach(() => gateway.ask('PUT', '/bkt'))

    it('is given back as it was sent, and removed', async () => {
      assertRefused(await gateway.ask('GET', '/bkt?policy'), 404, 'NoSuchBucketPolicy')
      const sent = `${POLICY}\n  `
      const put = await gateway.ask('PUT', '/bkt?policy', { body: sent })
      assert.deepEqual([put.status, put.headers['x-obj-durability']], [204, 'synced'])
      const got = await gateway.ask('GET', '/bkt?policy')
      assert.deepEqual([got.headers['content-type'], got.text], ['application/json', sent])
      for (const _ of [1, 2]) assert.equal((await gateway.ask('DELETE', '/bkt?policy')).status, 204)
      assertRefused(await gateway.ask('GET', '/bkt?policy'), 404, 'NoSuchBucketPolicy')
    })

    it('is refused when it is none, or too large', async () => {
      assertRefused(await gateway.ask('PUT', '/bkt?policy', { body: 'x' }), 400, 'MalformedPolicy')
      assertRefused(await gateway.ask('PUT', '/bkt?policy', { body: '' }), 400, 'MalformedPolicy')
      assertRefused(await gateway.ask('PUT', '/bkt?policy', { body: `{${' '.repeat(20_480)}` }), 400, 'EntityTooLarge')
      assertRefused(
        await gateway.ask('PUT', '/bkt?policy', { body: POLICY.replace('bkt', 'other') }),
        400,
        'MalformedPolicy',
      )
      const unknown = POLICY.replace('s3:GetObject', 's3:GetObjects')
      assertRefused(await gateway.ask('PUT', '/bkt?policy', { body: unknown }), 400, 'MalformedPolicy')
      await gateway.store.setBucketDocument(gateway.store.bucket('bkt')!, 'policy', Buffer.from(unknown))
      assert.equal((await gateway.ask('PUT', '/bkt/key', { body: 'x' })).status, 200) // a policy that was stored before such policies were refused
    })
  })

  describe('a listing', () => {
    const KEYS = ['a', 'b/1', 'b/2', 'c', 'd e+ü']
    beforeEach(async () => {
      await gateway.ask('PUT', '/bkt')
      for (const key of KEYS) await gateway.ask('PUT', `/bkt/${encodeURIComponent(key)}`, { body: key })
    })

    const list = (query: string) => gateway.ask('GET', `/bkt?list-type=2${query}`)

    it('has keys in order, with what S3 says of them', async () => {
      const { text, headers, status } = await list('')
      assert.equal(status, 200)
      assert.equal(headers['x-obj-bucket-id'], 'bkt-00000001')
      assert.deepEqual(textsOf(text, 'Key'), KEYS)
      assert.deepEqual(
        [textOf(text, 'KeyCount'), textOf(text, 'MaxKeys'), textOf(text, 'IsTruncated'), textOf(text, 'Name')],
        ['5', '1000', 'false', 'bkt'],
      )
      assert.equal(textsOf(text, 'DisplayName').length, 0)
      assert.equal(textsOf((await list('&fetch-owner=true')).text, 'DisplayName').length, 5)
    })

    it('is made while it is sent where it is long, and comes whole', async () => {
      assert.notEqual((await list('')).headers['content-length'], undefined)
      const keys = Array.from({ length: 120 }, (_, i) => `${1000 + i}${'"'.repeat(1000)}`)
      for (const key of keys) await gateway.ask('PUT', `/bkt/${encodeURIComponent(key)}`, { body: key })
      const answer = await fetch(`${gateway.url}/bkt?list-type=2&prefix=1`)
      const text = await answer.text()
      assert.equal(answer.headers.get('transfer-encoding'), 'chunked')
      assert.deepEqual(
        textsOf(text, 'Key'),
        keys.map((key) => key.replaceAll('"', '&quot;')),
      )
      assert.ok(text.endsWith('</ListBucketResult>'))
    })

    it('comes in pages that skip and repeat nothing, common prefixes once', async () => {
      const seen: string[] = []
      let token = ''
      for (let pages = 0; pages < 10; pages++) {
        const { text } = await list(
          `&delimiter=/&max-keys=1${token && `&continuation-token=${encodeURIComponent(token)}`}`,
        )
        seen.push(...textsOf(text, 'Key'), ...textsOf(text, 'Prefix').filter((prefix) => prefix !== ''))
        assert.equal(textOf(text, 'ContinuationToken') ?? '', token)
        token = textOf(text, 'NextContinuationToken') ?? ''
        assert.equal(textOf(text, 'IsTruncated'), String(token !== ''))
        if (token === '') break
      }
      assert.deepEqual(seen, ['a', 'b/', 'c', 'd e+ü'])
    })

    it('begins behind start-after, which a token overrides', async () => {
      assert.deepEqual(textsOf((await list('&start-after=b/1')).text, 'Key'), ['b/2', 'c', 'd e+ü'])
      const token = textOf((await list('&max-keys=1')).text, 'NextContinuationToken')!
      const { text } = await list(`&start-after=c&continuation-token=${token}`)
      assert.deepEqual(textsOf(text, 'Key'), KEYS.slice(1))
      assert.equal(textOf(text, 'StartAfter'), 'c')
    })

    it('is encoded when that is asked for', async () => {
      const { text } = await list('&encoding-type=url&prefix=d%20e')
      assert.deepEqual([textOf(text, 'Key'), textOf(text, 'Prefix')], ['d%20e%2B%C3%BC', 'd%20e'])
    })

    it('of no keys is not truncated, and of too many has a thousand', async () => {
      const none = await list('&max-keys=0')
      assert.deepEqual([textOf(none.text, 'IsTruncated'), textOf(none.text, 'KeyCount')], ['false', '0'])
      assert.equal(textOf((await list('&max-keys=5000')).text, 'MaxKeys'), '1000')
    })

    it('is refused for what cannot be asked', async () => {
      const bad = [
        '&max-keys=-1',
        '&max-keys=x',
        '&encoding-type=xml',
        '&continuation-token=x',
        '&continuation-token=1',
      ]
      for (const query of bad) assertRefused(await list(query), 400, 'InvalidArgument')
      assertRefused(await gateway.ask('GET', '/none?list-type=2'), 404, 'NoSuchBucket')
    })

    it('of version 1 needs the extension', async () => {
      assertRefused(await gateway.ask('GET', '/bkt'), 501, 'NotImplemented')
    })
  })

  describe('a listing of version 1', () => {
    it('goes on behind its marker, a common prefix as a whole', async () => {
      const extended = await TestGateway.start({ extensions: new Set(EXTENSIONS) })
      started.push(extended)
      await extended.ask('PUT', '/bkt')
      for (const key of ['a', 'b/1', 'b/2', 'b/3/4', 'c']) await extended.ask('PUT', `/bkt/${key}`, { body: key })
      const seen: string[] = []
      let marker = ''
      for (let pages = 0; pages < 10; pages++) {
        const { text } = await extended.ask('GET', `/bkt?delimiter=/&max-keys=1&marker=${marker}`)
        seen.push(...textsOf(text, 'Key'), ...textsOf(text, 'Prefix').filter((prefix) => prefix !== ''))
        marker = textOf(text, 'NextMarker') ?? ''
        if (marker === '') break
      }
      assert.deepEqual(seen, ['a', 'b/', 'c'])
      const { text } = await extended.ask('GET', '/bkt?marker=b/1&max-keys=1')
      assert.deepEqual([textOf(text, 'Key'), textOf(text, 'NextMarker'), textOf(text, 'Marker')], ['b/2', null, 'b/1'])
      const within = await extended.ask('GET', '/bkt?prefix=b/&delimiter=/&marker=b/')
      assert.deepEqual(textsOf(within.text, 'Key'), ['b/1', 'b/2'])
      const inside = await extended.ask('GET', '/bkt?delimiter=/&marker=b/1')
      assert.deepEqual([textsOf(inside.text, 'Key'), textOf(inside.text, 'Prefix')], [['c'], ''])
    })

    it('names the prefix that was asked for as it is, though keys are URL-encoded', async () => {
      const extended = await TestGateway.start({ extensions: new Set(EXTENSIONS) })
      started.push(extended)
      await extended.ask('PUT', '/bkt')
      const query = 'prefix=%0Aa%20b&delimiter=%0A&encoding-type=url'
      const first = await extended.ask('GET', `/bkt?${query}`)
      assert.deepEqual([textOf(first.text, 'Prefix'), textOf(first.text, 'Delimiter')], ['\na b', '%0A'])
      const second = await extended.ask('GET', `/bkt?list-type=2&${query}`)
      assert.deepEqual([textOf(second.text, 'Prefix'), textOf(second.text, 'Delimiter')], ['%0Aa%20b', '%0A'])
    })

    it('is there together with passing over ACLs', async () => {
      const extended = await TestGateway.start({ extensions: new Set(EXTENSIONS) })
      started.push(extended)
      const headers = { 'x-amz-acl': 'public-read', 'x-amz-grant-read': 'id=1' }
      assert.equal((await extended.ask('PUT', '/bkt', { headers })).status, 200)
      assert.equal((await extended.ask('PUT', '/bkt/key', { headers, body: 'x' })).status, 200)
    })
  })
})
