/** Specification "Gateway routes", headers 1 to 5, and the contract's response headers. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ObjectReply } from '../../../support/objectstore.ts'
import { BASE_DOMAIN, store } from './shared-store.ts'

const CLASSIFIED = [
  'x-obj-profile',
  'x-obj-gateway-contract',
  'x-obj-operation',
  'x-obj-handler',
  'x-obj-addressing-contract',
  'x-obj-endpoint-style',
  'x-obj-body-disposition',
]
const GENERATED = /^objreq-[0-9a-zA-Z_-]+$/

const classification = (reply: ObjectReply): (string | null)[] => CLASSIFIED.map((name) => reply.header(name))
const disposition = (reply: ObjectReply): string | null => reply.header('x-obj-body-disposition')

describe('header 1, x-obj-request-id', () => {
  const idFor = async (name: string, value: string): Promise<string | null> =>
    (await store.request('GET', '/', { headers: { [name]: value } })).header('x-obj-request-id')

  it('a value of up to 128 bytes without control characters is preserved', async () => {
    for (const id of ['a', '!~{}"', 'x'.repeat(128), 'a b', ', ; <a>'])
      assert.equal(await idFor('x-obj-request-id', id), id)
  })
  it('one that is longer, empty or has control characters is replaced by a generated one, with the prefix objreq-', async () => {
    const ids = [await idFor('x-other', 'a')]
    for (const value of ['x'.repeat(129), '', 'a\tb']) ids.push(await idFor('x-obj-request-id', value))
    for (const id of ids) assert.match(id ?? '', GENERATED)
    assert.equal(new Set(ids).size, ids.length, 'never the same twice')
  })
  it('is on every response: of management, of refusals, of HEAD', async () => {
    const headers = { 'x-obj-request-id': 'mine' }
    for (const [method, target] of [
      ['GET', '/health'],
      ['PUT', '/health'],
      ['GET', '/absent-bucket?list-type=2'],
      ['HEAD', '/absent-bucket'],
      ['OPTIONS', '/absent-bucket/key'],
      ['PATCH', '/any'],
      ['GET', '//'],
    ] as const) {
      assert.equal((await store.request(method, target, { headers })).header('x-obj-request-id'), 'mine', target)
    }
  })
})

describe('header 2, x-obj-content-sha256', () => {
  it('UNSIGNED-PAYLOAD is accepted with PutObject, under either name', async () => {
    const bucket = await store.newBucket()
    for (const name of ['x-obj-content-sha256', 'x-amz-content-sha256']) {
      await bucket.put('key', 'content', { [name]: 'UNSIGNED-PAYLOAD' })
    }
  })
  it('a digest must be that of the body', async () => {
    const bucket = await store.newBucket()
    const headers = { 'x-obj-content-sha256': '0'.repeat(64) }
    ;(await bucket.ask('PUT', '/key', { body: 'content', headers })).refused('XAmzContentSHA256Mismatch')
    ;(await bucket.ask('GET', '/key')).refused('NoSuchKey')
  })
  it('what is neither is refused', async () => {
    const bucket = await store.newBucket()
    const headers = { 'x-obj-content-sha256': 'nonsense' }
    ;(await bucket.ask('PUT', '/key', { body: 'content', headers })).refused('InvalidArgument')
  })
})

describe('header 3: every classified response', () => {
  it('carries profile, contracts, operation, handler, style and body disposition', async () => {
    const bucket = await store.newBucket()
    const replies = [await bucket.ask('GET', '?list-type=2'), await bucket.ask('GET', '/absent')]
    assert.deepEqual(replies.map(classification), [
      ['objapi-core-v1', 'v1', 'ListObjectsV2', 'listObjectsV2', 'v1', 'path', 'none'],
      ['objapi-core-v1', 'v1', 'GetObject', 'getObject', 'v1', 'path', 'none'],
    ])
  })
  it('x-obj-endpoint-style is virtual-host when the host names the bucket', async () => {
    const headers = { host: `any-bucket.${BASE_DOMAIN}` }
    for (const target of ['/key', '/?versioning', '/key?acl', '/%zz', `/${'k'.repeat(1025)}`]) {
      const reply = await store.request('GET', target, { headers })
      assert.equal(reply.header('x-obj-endpoint-style'), 'virtual-host', target)
    }
  })
  it('x-obj-body-disposition: streamed, buffered, discarded, none', async () => {
    const bucket = await store.newBucket()
    assert.equal(disposition(await bucket.ask('PUT', '/key', { body: 'content' })), 'streamed')
    assert.equal(disposition(await bucket.ask('PUT', '?policy', { body: '[]' })), 'buffered')
    assert.equal(disposition(await bucket.ask('PATCH', '/key', { body: 'content' })), 'discarded')
    assert.equal(disposition(await store.request('PUT', '/absent-bucket/key', { body: 'content' })), 'discarded')
    assert.equal(disposition(await bucket.ask('GET', '/key')), 'none')
  })
  it('what is outside of the profile carries them too', async () => {
    const reply = await store.request('GET', '/any-bucket?versioning')
    assert.deepEqual(classification(reply), ['objapi-core-v1', 'v1', 'Unsupported', 'none', 'v1', 'path', 'none'])
  })
})

describe('header 4: operations add', () => {
  it('bucket, object and version ids, commit sequence, durability, ETag and checksum to a write', async () => {
    const bucket = await store.newBucket()
    const first = await bucket.put('key', 'one')
    const second = await bucket.put('key', 'two')
    for (const name of ['x-obj-bucket-id', 'x-obj-object-id', 'x-obj-version-id', 'etag', 'x-obj-checksum-crc64nvme']) {
      assert(first.header(name), name)
    }
    assert.equal(first.header('x-obj-durability'), 'synced')
    assert.equal(first.header('x-obj-bucket-id'), second.header('x-obj-bucket-id'))
    assert.notEqual(first.header('x-obj-version-id'), second.header('x-obj-version-id'))
    assert(Number(second.header('x-obj-commit-sequence')) > Number(first.header('x-obj-commit-sequence')))
    const read = await bucket.ask('GET', '/key')
    for (const name of ['x-obj-object-id', 'x-obj-version-id', 'x-obj-commit-sequence', 'etag']) {
      assert.equal(read.header(name), second.header(name), name)
    }
  })
  it('x-obj-durability: synced to every answered write', async () => {
    const bucket = await store.newBucket()
    await bucket.put('source')
    const upload = await bucket.newUpload('big')
    const copy = { headers: { 'x-obj-copy-source': `${bucket.name}/source` } }
    const replies = [
      await bucket.ask('PUT', '/copy', copy),
      await bucket.ask('PUT', '/copy?tagging', { body: '<Tagging><TagSet/></Tagging>' }),
      await bucket.ask('DELETE', '/copy?tagging'),
      await upload.ask('PUT', '&partNumber=1', { body: 'part' }),
      await upload.ask('DELETE'),
      await bucket.ask('DELETE', '/copy'),
      await bucket.ask('DELETE', '/source'),
      await bucket.ask('DELETE', '?cors'),
      await bucket.ask('DELETE', '?policy'),
      await bucket.ask('DELETE', ''),
    ]
    for (const reply of replies) {
      assert.equal(reply.header('x-obj-durability'), 'synced', `${reply.header('x-obj-operation')} ${reply.text}`)
    }
  })
  it('x-obj-delete-marker: true to a delete', async () => {
    const bucket = await store.newBucket()
    const reply = await bucket.ask('DELETE', '/never-was')
    assert.deepEqual([reply.status, reply.header('x-obj-delete-marker')], [204, 'true'])
  })
  it('x-obj-copy-source to a copy, x-obj-upload-id to multipart answers', async () => {
    const bucket = await store.newBucket()
    await bucket.put('a b')
    const headers = { 'x-obj-copy-source': `${bucket.name}/a%20b` }
    assert.equal((await bucket.ask('PUT', '/c', { headers })).header('x-obj-copy-source'), `${bucket.name}/a%20b`)
    const encoded = { 'x-obj-copy-source': encodeURIComponent(`/${bucket.name}/a b`) }
    assert.equal((await bucket.ask('PUT', '/d', { headers: encoded })).status, 200)
    const upload = await bucket.newUpload('key')
    assert.equal((await upload.ask('GET')).header('x-obj-upload-id'), upload.id)
  })
})

describe('header 5: a refusal', () => {
  it('carries code, category, retryable and redacted', async () => {
    const reply = await store.request('GET', '/absent-bucket?list-type=2')
    const document = reply.refused('NoSuchBucket')
    assert.equal(document.text('BucketName'), 'absent-bucket')
  })
  it('of HEAD has them without a body', async () => {
    ;(await store.request('HEAD', '/absent-bucket/key')).refused('NoSuchBucket')
  })
})

describe('x-amz- names', () => {
  const theirs = (reply: ObjectReply): string[] => [...reply.headers.keys()].filter((name) => name.startsWith('x-amz-'))

  it('are in the answer to whoever sends an x-amz- header or a signature, beside the x-obj- ones', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key', 'content', { 'x-obj-meta-colour': 'green' })
    const signed = 'AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=00'
    for (const headers of [{ 'x-amz-test': '' }, { authorization: signed }]) {
      const reply = await bucket.ask('GET', '/key', { headers })
      assert.deepEqual(
        ['x-amz-request-id', 'x-amz-meta-colour', 'x-obj-meta-colour'].map((name) => reply.header(name)),
        [reply.header('x-obj-request-id'), 'green', 'green'],
      )
      assert.equal(reply.header('x-amz-version-id'), null, 'x-obj-version-id has no x-amz- name')
    }
    const presigned = await bucket.ask('GET', '/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0')
    assert.equal(presigned.header('x-amz-meta-colour'), 'green')
  })
  it('are not in the answer to anybody else', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key', 'content', { 'x-obj-meta-colour': 'green' })
    assert.deepEqual(theirs(await bucket.ask('GET', '/key')), [])
  })
  it('are aliases of x-obj- names in requests: metadata, tags, copies, conditions of copies', async () => {
    const bucket = await store.newBucket()
    await bucket.put('amz', 'a', { 'x-amz-meta-a': '1', 'x-amz-tagging': 'k=v' })
    const reply = await bucket.ask('GET', '/amz')
    assert.deepEqual([reply.header('x-obj-meta-a'), reply.header('x-obj-tagging-count')], ['1', '1'])
    const headers = { 'x-amz-copy-source': `${bucket.name}/amz`, 'x-obj-copy-source-if-match': '"0"' }
    ;(await bucket.ask('PUT', '/copy', { headers })).refused('PreconditionFailed')
  })
})
