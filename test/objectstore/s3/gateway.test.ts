import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { StoreError } from '../../../src/errors.ts'
import { FrameLost, FrameNotTaken } from '../../../src/engine/appender.ts'
import type { Answer } from '../../../src/objectstore/s3/handler.ts'
import { handlers } from '../../../src/objectstore/s3/handlers.ts'
import type { Handlers } from '../../../src/objectstore/s3/handlers.ts'
import { refuse } from '../../../src/objectstore/refusals.ts'
import { until } from '../../support/http-server.ts'
import { formBody } from '../../support/form-body.ts'
import { TestGateway, assertRefused, textOf } from './support.ts'
import { nextTurn } from '../../support/next-turn.ts'

/** What GetBucketLocation answers in these tests. */
let instead: () => Promise<Answer> | Answer = () => ({ status: 200 })
const replaced: Handlers = {
  ...handlers,
  GetBucketLocation: { of: 'bucket', handle: async () => instead() },
}

let gateway: TestGateway

const located = (headers: Record<string, string> = {}) => gateway.ask('GET', '/bkt?location', { headers })

describe('the gateway', () => {
  before(async () => {
    gateway = await TestGateway.start({ handlers: replaced, concurrentRequestsMax: 3 })
    await gateway.ask('PUT', '/bkt')
  })
  after(() => gateway.stop())

  describe('every answer', () => {
    it('says what the gateway made of the request', async () => {
      const { headers } = await gateway.ask('HEAD', '/bkt', { headers: { host: 'bkt.s3.local' } })
      const path = await gateway.ask('HEAD', '/bkt')
      assert.equal(path.status, 200)
      assert.deepEqual(
        Object.entries(path.headers).filter(([name]) => name.startsWith('x-')),
        [
          ['x-obj-request-id', 'objreq-070707070707070707070707'],
          ['x-obj-profile', 'objapi-core-v1'],
          ['x-obj-gateway-contract', 'v1'],
          ['x-obj-operation', 'HeadBucket'],
          ['x-obj-handler', 'headBucket'],
          ['x-obj-addressing-contract', 'v1'],
          ['x-obj-endpoint-style', 'path'],
          ['x-obj-body-disposition', 'none'],
          ['x-obj-bucket-id', 'bkt-00000001'],
          ['x-obj-bucket-region', 'us-east-1'],
        ],
      )
      assert.equal(headers['x-obj-endpoint-style'], 'virtual-host')
      assert.equal(headers['x-obj-operation'], 'HeadObject') // the host names the bucket, so the path is a key
    })

    it('keeps the client’s request id, which is that of the error too', async () => {
      const own = 'a'.repeat(128)
      const reply = await gateway.ask('GET', '/none?location', { headers: { 'x-obj-request-id': own } })
      assert.equal(reply.headers['x-obj-request-id'], own)
      assert.equal(textOf(reply.text, 'RequestId'), own)
      const alias = await gateway.ask('GET', '/none?location', { headers: { 'x-amz-request-id': own } })
      assert.equal(alias.headers['x-obj-request-id'], own)
      const long = await gateway.ask('GET', '/none?location', { headers: { 'x-obj-request-id': `${own}a` } })
      assert.match(long.headers['x-obj-request-id']!, /^objreq-/)
    })

    it('keeps any printable id of the client', async () => {
      const id = 'a <request> of mine, "é"'
      const reply = await gateway.ask('GET', '/nobucket/key', { headers: { 'x-obj-request-id': id } })
      assert.equal(Buffer.from(reply.headers['x-obj-request-id']!, 'latin1').toString(), id)
      assert.equal(textOf(Buffer.from(reply.text).toString(), 'RequestId'), 'a &lt;request&gt; of mine, &quot;é&quot;')
    })

    it('to a form has S3’s names as well when its fields are signed', async () => {
      await gateway.ask('PUT', '/forms')
      const policy = Buffer.from(JSON.stringify({ expiration: '2099-01-01T00:00:00Z', conditions: [] })).toString(
        'base64',
      )
      const post = async (...fields: [string, string][]) => {
        const body = formBody('limit', [['key', 'k'], ...fields, ['file', 'x', 'a.txt']])
        const { status, headers } = await gateway.ask('POST', '/forms', {
          body,
          headers: { 'content-type': 'multipart/form-data; boundary=limit' },
        })
        return [
          status,
          headers['x-amz-request-id'] === headers['x-obj-request-id'],
          'x-amz-checksum-crc64nvme' in headers,
        ]
      }
      const covered = JSON.stringify({
        expiration: '2099-01-01T00:00:00Z',
        conditions: [{ bucket: 'forms' }, ['Starts-With', '$KEY', ''], ['Content-Length-Range', 0, 9]],
      })
      assert.deepEqual(await post(), [204, false, false])
      assert.deepEqual(await post(['Policy', Buffer.from(covered).toString('base64')], ['X-Amz-Signature', '0']), [
        204,
        true,
        true,
      ])
      assert.deepEqual(await post(['POLICY', Buffer.from(covered).toString('base64')], ['sIgNaTuRe', '0']), [
        204,
        true,
        true,
      ])
      assert.deepEqual(await post(['policy', policy], ['signature', '0']), [403, true, false])
    })

    it('has S3’s names as well for who speaks S3, but for what S3 does not have', async () => {
      instead = () => ({
        status: 200,
        headers: [
          ['x-obj-version-id', 'ver-1'],
          ['x-obj-tagging-count', '2'],
        ],
      })
      for (const speaking of [{ 'x-amz-date': 'x' }, { authorization: 'AWS4-HMAC-SHA256 x' }]) {
        const { headers } = await located(speaking)
        assert.equal(headers['x-obj-tagging-count'], '2')
        assert.equal(headers['x-amz-tagging-count'], '2')
        assert.equal(headers['x-amz-request-id'], headers['x-obj-request-id'])
        assert.equal(headers['x-amz-id-2'], 'objstore')
        assert.equal(headers['x-amz-version-id'], undefined)
        assert.equal(headers['x-amz-profile'], undefined)
      }
      const { headers } = await located()
      assert.deepEqual(
        Object.keys(headers).filter((name) => name.startsWith('x-amz-')),
        [],
      )
      const presigned = await gateway.ask('GET', '/bkt?location&X-Amz-Signature=1')
      assert.equal(presigned.headers['x-amz-tagging-count'], '2')
    })

    it('is not ended by what a header has in it', async () => {
      instead = () => ({
        status: 200,
        headers: [['x-obj-meta-a', 'b\r\nx-evil: 1\0']],
        body: { contentType: 'text/plain\r\nx-evil: 1', bytes: 'hello' },
      })
      const reply = await located()
      assert.equal(reply.headers['x-evil'], undefined)
      assert.equal(reply.headers['content-type'], 'text/plain  x-evil: 1')
      assert.equal(reply.text, 'hello')
    })

    it('without a body says that it is empty, unless there can be none', async () => {
      instead = () => ({ status: 200 })
      assert.equal((await located()).headers['content-length'], '0')
      instead = () => ({ status: 204 })
      assert.equal((await located()).headers['content-length'], undefined)
    })

    it('streams what comes from a source, and only tells its length to a HEAD', async () => {
      await gateway.ask('PUT', '/bkt/key', { body: 'hello' })
      const got = await gateway.ask('GET', '/bkt/key')
      assert.deepEqual([got.status, got.text], [200, 'hello'])
      const head = await gateway.ask('HEAD', '/bkt/key')
      assert.deepEqual([head.status, head.headers['content-length'], head.text], [200, '5', ''])
      assert.equal(gateway.store.open.sources, 0)
    })

    it('is sent whole when it is longer than what any buffer on the way takes', async () => {
      const large = Buffer.alloc(16 << 20, 'abcdefg')
      await gateway.ask('PUT', '/bkt/large', { body: large })
      const got = await fetch(`${gateway.url}/bkt/large`)
      assert.ok(large.equals(Buffer.from(await got.arrayBuffer())))
      assert.equal(gateway.store.open.sources, 0)
    })

    it('says what became of the body', async () => {
      const disposition = async (method: string, target: string, body?: string) =>
        (await gateway.ask(method, target, body === undefined ? {} : { body })).headers['x-obj-body-disposition']
      assert.equal(await disposition('PUT', '/bkt/key', 'hello'), 'streamed')
      assert.equal(await disposition('PUT', '/bkt?cors', '<no>'), 'buffered')
      assert.equal(await disposition('PUT', '/none/key', 'hello'), 'discarded')
      assert.equal(await disposition('GET', '/bkt/key'), 'none')
      assert.equal(await disposition('PATCH', '/bkt/key', 'hello'), 'discarded')
    })
  })

  describe('a refusal', () => {
    it('is S3’s XML, and headers that say what to do', async () => {
      const reply = await gateway.ask('GET', '/none?location')
      assertRefused(reply, 404, 'NoSuchBucket')
      assert.equal(reply.headers['content-type'], 'application/xml')
      assert.equal(reply.headers['x-obj-error-category'], 'not-found')
      assert.equal(reply.headers['x-obj-error-retryable'], 'false')
      assert.equal(reply.headers['x-obj-error-redacted'], 'false')
      assert.equal(textOf(reply.text, 'BucketName'), 'none')
      assert.equal(textOf(reply.text, 'HostId'), 'objstore')
      assert.equal(reply.headers['x-obj-operation'], 'GetBucketLocation')
    })

    it('names the bucket or the object that was asked for, without what the query says', async () => {
      const inHost = { headers: { host: 'none.s3.local' } }
      for (const [reply, resource] of [
        [await gateway.ask('GET', '/bkt/a%20b//%26?versionId=null'), '/bkt/a b//&amp;'],
        [await gateway.ask('GET', '/none/?location'), '/none'],
        [await gateway.ask('GET', '/?max-buckets=no'), '/'],
        [await gateway.ask('GET', '/a/b', inHost), '/none/a/b'],
        [await gateway.ask('GET', '/?location', inHost), '/none'],
        [await gateway.ask('GET', '/bkt/a%20b?acl&X-Amz-Signature=s'), '/bkt/a%20b'],
        [await gateway.ask('GET', '/bkt/%zz?a=b'), '/bkt/%zz'],
        [await gateway.ask('GET', `/bkt/${'k'.repeat(9000)}`), `/bkt/${'k'.repeat(8187)}`],
      ] as const) {
        assert.equal(textOf(reply.text, 'Resource'), resource)
      }
    })

    it('of a HEAD has headers only', async () => {
      const reply = await gateway.ask('HEAD', '/none')
      assertRefused(reply, 404, 'NoSuchBucket')
      assert.equal(reply.text, '')
      assert.equal((await gateway.ask('GET', '/bkt?location')).status, 204) // the connection still works
    })

    it('of what is outside the profile says so', async () => {
      for (const [method, target] of [
        ['GET', '/bkt?versioning'],
        ['PATCH', '/bkt/key'],
        ['POST', '/'],
      ] as const) {
        const reply = await gateway.ask(method, target)
        assertRefused(reply, 501, 'NotImplemented')
        assert.equal(reply.headers['x-obj-operation'], 'Unsupported')
      }
    })

    it('of what is outside the profile or cannot be read says how the bucket was addressed', async () => {
      for (const [method, target, status, code] of [
        ['GET', '/?versioning', 501, 'NotImplemented'],
        ['GET', '/k?acl', 501, 'NotImplemented'],
        ['GET', `/${'k'.repeat(1025)}`, 400, 'KeyTooLongError'],
        ['GET', '/%zz', 400, 'InvalidURI'],
        ['GET', `/?${'p&'.repeat(65)}`, 400, 'InvalidURI'],
        ['PATCH', '/', 501, 'NotImplemented'],
      ] as const) {
        const inHost = await gateway.ask(method, target, { headers: { host: 'bkt.s3.local' } })
        assertRefused(inHost, status, code)
        assert.equal(inHost.headers['x-obj-endpoint-style'], 'virtual-host')
        const inPath = await gateway.ask(method, `/bkt${target}`)
        assertRefused(inPath, status, code)
        assert.equal(inPath.headers['x-obj-endpoint-style'], 'path')
      }
    })

    it('brings the headers that it was given', async () => {
      instead = () => {
        throw refuse('NotModified', undefined, { headers: [['ETag', '"e"']] })
      }
      const reply = await located()
      assert.deepEqual([reply.status, reply.headers['etag'], reply.text], [304, '"e"', ''])
    })

    it('for want of a thread or a disk can be tried again, and the log says why', async () => {
      instead = () => {
        throw new StoreError('unavailable', 'wal_unavailable', 'secret path')
      }
      const reply = await located()
      assertRefused(reply, 503, 'ServiceUnavailable')
      assert.equal(reply.headers['x-obj-error-redacted'], 'true')
      assert.doesNotMatch(reply.text, /secret/)
      assert.equal(gateway.logged.splice(0).length, 1)
      instead = () => {
        throw new StoreError('overloaded', 'full', 'full')
      }
      const busy = await located()
      assertRefused(busy, 503, 'SlowDown')
      assert.equal(busy.headers['retry-after'], '1')
      assert.deepEqual(gateway.logged, [])
    })

    it('as the log takes nothing is not logged: its state is, once', async () => {
      instead = () => {
        throw refuse('ServiceUnavailable', 'full', { cause: new FrameNotTaken('no-space') })
      }
      assertRefused(await located(), 503, 'ServiceUnavailable')
      instead = () => {
        throw refuse('InternalError', 'lost', { cause: new FrameLost() })
      }
      assertRefused(await located(), 500, 'InternalError')
      assert.deepEqual(gateway.logged, [])
    })

    it('of our own making is logged and tells nothing', async () => {
      instead = () => {
        throw new Error('secret')
      }
      const reply = await located()
      assertRefused(reply, 500, 'InternalError')
      assert.doesNotMatch(reply.text, /secret/)
      assert.equal(gateway.logged.splice(0).length, 1)
    })
  })

  describe('a web page, where requests need no credentials', () => {
    const CORS =
      '<CORSConfiguration><CORSRule><AllowedOrigin>http://app.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>'
    const from = (origin: string) => ({ headers: { origin, 'sec-fetch-site': 'cross-site' } })

    it('whose name was made to point here (DNS rebinding) is refused everywhere but at the health', async () => {
      const headers = { host: 'evil.example:9000' }
      for (const target of ['/', '/bkt', '/bkt/key', '/bkt?acl', '/%zz']) {
        for (const method of ['GET', 'PUT', 'OPTIONS']) {
          assertRefused(await gateway.ask(method, target, { headers }), 403, 'AccessDenied')
        }
      }
      for (const target of ['/v1/platform/capabilities', '/v1/endpoint/a/recent']) {
        const { status, text } = await gateway.ask('GET', target, { headers })
        assert.deepEqual([status, typeof JSON.parse(text)], [403, 'string'])
      }
      assert.equal((await gateway.ask('GET', '/health', { headers })).status, 200)
    })

    it('of another site is refused, unless the rules of the bucket allow its origin', async () => {
      const key = '/bkt/shared'
      assert.equal((await gateway.ask('PUT', key, { body: 'x' })).status, 200)
      assertRefused(await gateway.ask('GET', key, from('http://app.example')), 403, 'AccessDenied')
      assert.equal((await gateway.ask('PUT', '/bkt?cors', { body: CORS })).status, 200)
      assert.equal((await gateway.ask('GET', key, from('http://app.example'))).status, 200)
      assert.equal(
        (
          await gateway.ask('GET', '/shared', {
            headers: { ...from('http://app.example').headers, host: 'bkt.s3.local' },
          })
        ).status,
        200,
      )
      assertRefused(await gateway.ask('GET', key, from('http://evil.example')), 403, 'AccessDenied')
      assertRefused(await gateway.ask('PUT', key, { ...from('http://app.example'), body: 'y' }), 403, 'AccessDenied')
      assertRefused(await gateway.ask('GET', key, { headers: { 'sec-fetch-site': 'cross-site' } }), 403, 'AccessDenied')
      assert.equal((await gateway.ask('GET', key, { headers: { 'sec-fetch-site': 'same-site' } })).status, 200)
      const preflight = { ...from('http://app.example').headers, 'access-control-request-method': 'GET' }
      assert.equal((await gateway.ask('OPTIONS', key, { headers: preflight })).status, 200)
    })

    it('is served where they need some: what a policy allows everybody is meant for it', async () => {
      const signed = await TestGateway.start({ guard: null })
      const headers = { host: 'public.example', 'sec-fetch-site': 'cross-site' }
      assert.equal((await signed.ask('PUT', '/bkt', { headers })).status, 200)
      const { status } = await signed.ask('GET', '/v1/platform/capabilities', { headers })
      assert.equal(status, 403)
      await signed.stop()
    })
  })

  it('a request that does not say clearly where its body ends is a BadRequest, and its connection closed', async () => {
    const client = await gateway.connect()
    await client.send('PUT /bkt/two HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc')
    const { status, headers, body } = (await client.reply())!
    assertRefused({ status, headers, text: body }, 400, 'BadRequest')
    await client.closed()
    assertRefused(await gateway.ask('GET', '/bkt/two'), 404, 'NoSuchKey')
  })

  describe('the places of the gateway', () => {
    it('are given back, and who finds none is told to slow down', async () => {
      const waiting: (() => void)[] = []
      instead = () => new Promise((resolve) => waiting.push(() => resolve({ status: 200 })))
      const clients = await Promise.all([1, 2, 3].map(() => gateway.connect()))
      for (const client of clients) await client.send('GET /bkt?location HTTP/1.1\r\nhost: localhost\r\n\r\n')
      await until(() => waiting.length === 3)
      const refused = await gateway.ask('GET', '/bkt?location')
      assertRefused(refused, 503, 'SlowDown')
      assert.equal(refused.headers['retry-after'], '1')
      assert.equal(refused.headers['x-obj-error-retryable'], 'true')
      assert.equal(refused.headers['x-obj-operation'], 'GetBucketLocation')
      for (const answer of waiting) answer()
      for (const client of clients) assert.equal((await client.reply())?.status, 200)
      instead = () => ({ status: 200 })
      assert.equal((await located()).status, 200)
      for (const client of clients) client.destroy()
    })
  })

  describe('the place of a slow client', () => {
    it('goes to the next request when there is none left, and that of a fast one does not', async () => {
      const clients = await Promise.all([1, 2, 3].map(() => gateway.connect()))
      const [slow, slower, fast] = clients
      for (const client of clients) {
        await client.send(`PUT /bkt/slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n`)
      }
      await until(() => gateway.store.open.bodies === 3)
      const { open } = gateway.store
      const writtenBefore = open.bytes
      await slower!.send('x')
      for (let second = 1; second <= 12; second++) {
        await fast!.send('x'.repeat(20_000))
        await slow!.send('x'.repeat(1000))
        await until(() => open.bytes === writtenBefore + 1 + second * 21_000)
        gateway.clock.advanceMs(1000)
        if (second === 1) assertRefused(await located(), 503, 'SlowDown')
      }
      instead = () => ({ status: 200 })
      assert.equal((await located()).status, 200)
      const refused = await slower!.reply()
      assert.deepEqual([refused?.status, refused?.headers['x-obj-error-code']], [503, 'SlowDown'])
      assert.equal(refused?.headers['retry-after'], '1')
      await slower!.closed()
      assert.equal(gateway.store.open.bodies, 2)
      await fast!.send('x'.repeat(1_000_000 - 12 * 20_000))
      assert.equal((await fast!.reply())?.status, 200)
      for (const client of clients) client.destroy()
    })
  })

  describe('a body that nobody takes', () => {
    it('is dropped, and the connection goes on', async () => {
      const large = 'x'.repeat(1 << 20)
      assertRefused(await gateway.ask('PUT', '/none/key', { body: large }), 404, 'NoSuchBucket')
      assertRefused(await gateway.ask('POST', '/bkt/key', { body: large }), 501, 'NotImplemented')
      assert.equal((await gateway.ask('PUT', '/bkt/key', { body: large })).status, 200)
      assert.equal((await gateway.ask('GET', '/bkt/key')).text, large)
      assert.equal(gateway.store.open.bodies, 0)
    })

    it('in chunks that come at once is whole, and the connection goes on', async () => {
      const client = await gateway.connect()
      const chunks = '3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n'
      for (const target of ['/none/key', '/bkt/chunked']) {
        await client.send(`PUT ${target} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`)
        assert.equal((await client.reply())?.status, target === '/none/key' ? 404 : 200)
      }
      let answer = (): void => {}
      instead = () => new Promise((resolve) => (answer = () => resolve({ status: 200 })))
      await client.send(`GET /bkt?location HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`)
      await until(() => gateway.inFlight > 0)
      for (let turns = 0; turns < 10; turns++) await nextTurn() // until the body has arrived
      answer()
      assert.equal((await client.reply())?.headers['x-obj-body-disposition'], 'discarded')
      await client.send('GET /bkt/chunked HTTP/1.1\r\nhost: localhost\r\n\r\n')
      assert.equal((await client.reply())?.body, 'onetwo')
      client.destroy()
    })

    it('that stalls while it is taken is a RequestTimeout', async () => {
      const client = await gateway.connect()
      await client.send('PUT /bkt/slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nhalf')
      await until(() => gateway.store.open.bodies === 1)
      gateway.clock.advanceMs(40_000)
      const reply = await client.reply()
      assert.equal(reply?.status, 400)
      assert.equal(reply.headers['x-obj-error-code'], 'RequestTimeout')
      await client.closed()
      assert.equal(gateway.store.open.bodies, 0)
    })

    it('whose client goes away leaves nothing', async () => {
      const client = await gateway.connect()
      await client.send('PUT /bkt/gone HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nhalf')
      await until(() => gateway.store.open.bodies === 1)
      client.destroy()
      await until(() => gateway.store.open.bodies === 0)
      assertRefused(await gateway.ask('GET', '/bkt/gone'), 404, 'NoSuchKey')
    })
  })
})
