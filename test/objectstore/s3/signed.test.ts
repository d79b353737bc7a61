/** Requests signed like those of an SDK, through the whole gateway. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { signedAuthenticator } from '../../../src/objectstore/s3/auth/authenticator.ts'
import { parseCredentials } from '../../../src/objectstore/s3/auth/credentials.ts'
import { KEY_ID, NOW_MS, REGION, SECRET, signHeader } from '../../support/signer.ts'
import type { Draft } from '../../support/signer.ts'
import { formBody } from '../../support/form-body.ts'
import { TestGateway, assertRefused, textOf } from './support.ts'
import type { Reply } from './support.ts'

const key = { access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'alice' }
const credentials = parseCredentials(
  JSON.stringify({ keys: [{ ...key, permissions: ['read', 'write', 'list', 'delete', 'admin'] }] }),
)

let gateway: TestGateway

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

function send(draft: Draft, body?: string): Promise<Reply> {
  const { method, path, query, headers } = signHeader({
    ...draft,
    headers: { host: 'localhost', ...draft.headers },
    payloadHash: draft.payloadHash ?? sha256(body ?? ''),
  })
  const target = query === '' ? path : `${path}?${query}`
  return gateway.ask(method, target, { headers: Object.fromEntries(headers), ...(body !== undefined && { body }) })
}

describe('a gateway that asks for signatures', () => {
  before(async () => {
    gateway = await TestGateway.start({ authenticator: signedAuthenticator({ credentials, region: REGION }) })
    gateway.store.nowMs = NOW_MS
    assert.equal((await send({ method: 'PUT', path: '/bkt' })).status, 200)
  })
  after(() => gateway.stop())

  describe('a signed request', () => {
    it('is its principal’s, under any key, with S3’s names in its answer', async () => {
      const path = '/bkt/a b/../+ü%2F//x'
      const put = await send({ method: 'PUT', path }, 'hello')
      assert.equal(put.status, 200, put.text)
      assert.equal(put.headers['x-amz-request-id'], put.headers['x-obj-request-id'])
      assert.ok(put.headers['x-amz-checksum-crc64nvme'])
      const got = await send({ path })
      assert.deepEqual([got.status, got.text], [200, 'hello'])
      const list = await send({
        path: '/bkt',
        query: [
          ['list-type', '2'],
          ['fetch-owner', 'true'],
        ],
      })
      assert.deepEqual([textOf(list.text, 'Key'), textOf(list.text, 'ID')], ['a b/../+ü%2F//x', 'alice'])
    })

    it('is refused before its body is looked at when the signature is wrong', async () => {
      const reply = await send({ method: 'PUT', path: '/bkt/key', secret: 'wrong' }, 'hello')
      assertRefused(reply, 403, 'SignatureDoesNotMatch')
      assert.equal(reply.headers['x-obj-body-disposition'], 'discarded')
      assert.equal(reply.headers['x-obj-error-category'], 'auth')
    })

    it('is refused when the body is another than was signed', async () => {
      const reply = await send({ method: 'PUT', path: '/bkt/key', payloadHash: sha256('other') }, 'hello')
      assertRefused(reply, 400, 'XAmzContentSHA256Mismatch')
      const cors = await send({ method: 'PUT', path: '/bkt', query: [['policy', '']], payloadHash: sha256('x') }, '{}')
      assertRefused(cors, 400, 'XAmzContentSHA256Mismatch')
      assert.equal(gateway.store.open.bodies, 0)
    })

    it('is refused when it was signed with a body, and comes without one', async () => {
      await send({ method: 'PUT', path: '/bkt/kept' }, 'hello')
      for (const draft of [
        { path: '/bkt/kept' },
        { method: 'HEAD', path: '/bkt/kept' },
        { method: 'DELETE', path: '/bkt/kept' },
        { method: 'PUT', path: '/bkt/copy', headers: { 'x-amz-copy-source': 'bkt/kept' } },
        { path: '/' },
      ]) {
        for (const payloadHash of [sha256('other'), sha256('other').toUpperCase()]) {
          assertRefused(await send({ ...draft, payloadHash }), 400, 'XAmzContentSHA256Mismatch')
        }
      }
      for (const payloadHash of [sha256(''), 'UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER']) {
        assert.equal((await send({ path: '/bkt/kept', payloadHash })).text, 'hello')
      }
      const dropped = await send({ path: '/bkt/kept', payloadHash: sha256('other') }, 'another')
      assert.deepEqual([dropped.status, dropped.headers['x-obj-body-disposition']], [200, 'discarded'])
    })

    it('brings its body in chunks with a checksum behind them, as SDKs do by default', async () => {
      const body = '5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n'
      const headers = {
        'content-encoding': 'aws-chunked',
        'x-amz-decoded-content-length': '5',
        'x-amz-trailer': 'x-amz-checksum-crc32',
      }
      const draft = { method: 'PUT', path: '/bkt/chunked', headers, payloadHash: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER' }
      const put = await send(draft, body)
      assert.deepEqual([put.status, put.headers['x-amz-checksum-crc32']], [200, 'NhCmhg=='])
      const got = await send({ path: '/bkt/chunked' })
      assert.deepEqual([got.text, got.headers['content-encoding']], ['hello', undefined])
    })

    it('that is not signed is nobody’s', async () => {
      assertRefused(await gateway.ask('GET', '/bkt/key'), 403, 'AccessDenied')
      assertRefused(await gateway.askAs('alice', 'GET', '/bkt/key'), 403, 'AccessDenied')
    })
  })

  describe('a form', () => {
    const FORM = { 'content-type': 'multipart/form-data; boundary=limit' }
    const FILE = ['file', 'hello', 'a.txt'] as const
    const forms: readonly (readonly [
      what: string,
      body: string | Buffer,
      headers: Readonly<Record<string, string>>,
    ])[] = [
      ['that is none', 'x', { 'content-type': 'text/plain' }],
      ['without a boundary', 'x', { 'content-type': 'multipart/form-data' }],
      ['that is too large', 'x', { ...FORM, 'content-length': String(1 << 30) }],
      ['with a mistake', '--limit\r\nnonsense\r\n\r\n', FORM],
      ['without a key', formBody('limit', [FILE]), FORM],
      ['with a policy that is none', formBody('limit', [['key', 'kept'], ['policy', '!'], FILE]), FORM],
      ['with tags that are none', formBody('limit', [['key', 'kept'], ['tagging', '!'], FILE]), FORM],
      [
        'signed by an unknown key',
        formBody('limit', [['key', 'k'], ['policy', 'e30='], ['signature', 's'], ['AWSAccessKeyId', 'no'], FILE]),
        FORM,
      ],
      ['that ends early', formBody('limit', [['key', 'kept'], FILE]).subarray(0, -8), FORM],
      ['of nobody', formBody('limit', [['key', 'kept'], FILE]), FORM],
      ['with a condition', formBody('limit', [['key', 'kept'], FILE]), { ...FORM, 'if-none-match': '*' }],
      [
        'for somebody’s bucket',
        formBody('limit', [['key', 'kept'], FILE]),
        { ...FORM, 'x-amz-expected-bucket-owner': 'x' },
      ],
    ]
    for (const [what, body, headers] of forms) {
      it(`${what} is refused alike for a bucket of somebody and for none`, async () => {
        const answers = []
        for (const target of ['/bkt', '/none']) {
          const client = await gateway.connect()
          const lines = { host: 'localhost', 'content-length': String(body.length), ...headers }
          const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
          await client.send(
            Buffer.concat([Buffer.from(`POST ${target} HTTP/1.1\r\n${head.join('')}\r\n`), Buffer.from(body)]),
          )
          const reply = await client.reply()
          answers.push([reply?.status, reply?.headers['x-obj-error-code'], textOf(reply?.body ?? '', 'Message')])
          client.destroy()
        }
        assert.deepEqual(answers[0], answers[1])
        assert.notEqual(answers[0]![1], 'NoSuchBucket')
      })
    }
  })
})
