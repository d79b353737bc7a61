/** Specification "Errors", row by row, with status, category and retryable of the contract (held by `refused`). */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { eventually } from '../../../support/waiting.ts'
import { store } from './shared-store.ts'

const bucket = await store.newBucket()
await bucket.put('key', 'content')
const upload = await bucket.newUpload('upload')
const as = (principal: string) => ({ headers: { 'x-obj-principal': principal } })
const keyOf = (byte: string) => Buffer.alloc(32, byte)
const CONCURRENT_MAX = 1024

describe('errors', () => {
  it('NotImplemented: unsupported operations, and headers of them', async () => {
    ;(await bucket.ask('GET', '?versioning')).refused('NotImplemented')
    for (const headers of [
      { 'x-amz-acl': 'public-read' },
      { 'x-obj-grant-read': 'id=1' },
      { 'x-amz-object-lock-mode': 'GOVERNANCE' },
      { 'x-amz-website-redirect-location': '/' },
      { 'x-amz-server-side-encryption': 'aws:kms:dsse' },
      { 'if-match': '*', 'if-none-match': '*' },
    ]) {
      ;(await bucket.ask('PUT', '/key', { body: '', headers })).refused('NotImplemented')
    }
    for (const acl of ['private', 'bucket-owner-full-control']) await bucket.put('acl', '', { 'x-amz-acl': acl })
  })
  it('AccessDenied: a permission that the principal lacks', async () => {
    const lacks = (permissions: string) => ({ headers: { 'x-obj-permissions': permissions } })
    for (const [method, rest, permissions] of [
      ['GET', '/key', 'write,list,delete,admin'],
      ['HEAD', '/key', 'write'],
      ['GET', '/key?tagging', 'write'],
      ['GET', `/upload?uploadId=${upload.id}`, 'write,list,delete,admin'],
      ['GET', '?list-type=2', 'read,write,delete,admin'],
      ['GET', '?uploads', 'read,write,delete,admin'],
      ['PUT', '/key', 'read,list,delete,admin'],
      ['POST', '/key?uploads', 'read'],
      ['PUT', '/key?tagging', 'read'],
      ['DELETE', '/key', 'read,write,list,admin'],
      ['DELETE', `/upload?uploadId=${upload.id}`, 'read,write,list,admin'],
      ['POST', '?delete', 'read,write,list,admin'],
      ['DELETE', '', 'read,write,list,delete'],
      ['PUT', '?cors', 'write'],
      ['GET', '?policy', 'read'],
      ['GET', '/key', ''],
    ] as const) {
      ;(await bucket.ask(method, rest, lacks(permissions))).refused('AccessDenied')
    }
    ;(await store.request('PUT', '/never-created', lacks('read,write,list,delete'))).refused('AccessDenied')
    ;(await store.request('GET', '/', lacks('read,write,delete,admin'))).refused('AccessDenied')
    assert.equal(await bucket.read('key'), 'content')
  })
  it('AccessDenied: a policy that denies, an owner that was not expected, a preflight, another customer key', async () => {
    const denying = await store.newBucket()
    await denying.put('key')
    const statement = {
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: `arn:aws:s3:::${denying.name}/*`,
    }
    await denying.ask('PUT', '?policy', { body: JSON.stringify({ Version: '2012-10-17', Statement: [statement] }) })
    ;(await denying.ask('GET', '/key')).refused('AccessDenied')
    ;(await bucket.ask('GET', '/key', { headers: { 'x-amz-expected-bucket-owner': 'other' } })).refused('AccessDenied')
    const copy = { 'x-amz-copy-source': `${bucket.name}/key`, 'x-amz-source-expected-bucket-owner': 'other' }
    ;(await bucket.ask('PUT', '/copy', { headers: copy })).refused('AccessDenied')
    const preflight = { origin: 'https://a.example', 'access-control-request-method': 'GET' }
    ;(await bucket.ask('OPTIONS', '/key', { headers: preflight })).refused('AccessDenied')
    const customer = (byte: string) => ({
      'x-amz-server-side-encryption-customer-algorithm': 'AES256',
      'x-amz-server-side-encryption-customer-key': keyOf(byte).toString('base64'),
      'x-amz-server-side-encryption-customer-key-md5': createHash('md5').update(keyOf(byte)).digest('base64'),
    })
    await bucket.put('secret', 'secret', customer('a'))
    ;(await bucket.ask('GET', '/secret', { headers: customer('b') })).refused('AccessDenied')
    ;(await bucket.ask('HEAD', '/secret', { headers: customer('b') })).refused('AccessDenied')
    const secretly = await bucket.newUpload('secretly', customer('a'))
    const source = { 'x-amz-copy-source': `${bucket.name}/key` }
    for (const asked of [{ body: 'x' }, { headers: source }]) {
      const withKey = (headers: object) => ({ ...asked, headers: { ...asked.headers, ...headers } })
      ;(await secretly.ask('PUT', '&partNumber=1', withKey(customer('b')))).refused('AccessDenied')
      ;(await secretly.ask('PUT', '&partNumber=1', withKey({}))).refused('InvalidRequest')
      ;(await secretly.ask('PUT', '&partNumber=1', withKey(customer('a')))).succeeded(200)
    }
    ;(await bucket.ask('GET', '/secret')).refused('InvalidRequest')
    const read = await bucket.ask('GET', '/secret', { headers: customer('a') })
    assert.equal(read.succeeded(200).text, 'secret')
    assert.equal(read.header('x-amz-server-side-encryption-customer-algorithm'), 'AES256')
  })
  it('NoSuchBucket: bucket, object, list and multipart routes', async () => {
    for (const [method, rest] of [
      ['HEAD', ''],
      ['DELETE', ''],
      ['GET', '?location'],
      ['GET', '?cors'],
      ['GET', '?policy'],
      ['GET', '?list-type=2'],
      ['GET', '?uploads'],
      ['POST', '?delete'],
      ['GET', '/key'],
      ['HEAD', '/key'],
      ['PUT', '/key'],
      ['DELETE', '/key'],
      ['GET', '/key?tagging'],
      ['POST', '/key?uploads'],
      ['PUT', '/key?partNumber=1&uploadId=a'],
      ['POST', '/key?uploadId=a'],
      ['DELETE', '/key?uploadId=a'],
      ['GET', '/key?uploadId=a'],
    ] as const) {
      ;(await store.request(method, `/absent-bucket${rest}`, { body: '' })).refused('NoSuchBucket')
      ;(await bucket.ask(method, rest, as('stranger'))).refused('NoSuchBucket')
    }
    const headers = { 'x-obj-copy-source': 'absent-bucket/key' }
    ;(await bucket.ask('PUT', '/copy', { headers })).refused('NoSuchBucket')
  })
  it('NoSuchKey: object reads, copy source, tags, reads behind a delete marker', async () => {
    await bucket.put('deleted')
    await bucket.ask('DELETE', '/deleted')
    for (const key of ['absent', 'deleted']) {
      const refused = (await bucket.ask('GET', `/${key}`)).refused('NoSuchKey')
      assert.equal(refused.text('Key'), key)
      ;(await bucket.ask('HEAD', `/${key}`)).refused('NoSuchKey')
      for (const method of ['GET', 'DELETE']) (await bucket.ask(method, `/${key}?tagging`)).refused('NoSuchKey')
      ;(await bucket.ask('PUT', `/${key}?tagging`, { body: '<Tagging><TagSet/></Tagging>' })).refused('NoSuchKey')
      const headers = { 'x-obj-copy-source': `${bucket.name}/${key}` }
      ;(await bucket.ask('PUT', '/copy', { headers })).refused('NoSuchKey')
    }
  })
  it('BucketAlreadyOwnedByYou: CreateBucket again; BucketAlreadyExists when it is of another principal', async () => {
    ;(await bucket.ask('PUT', '')).refused('BucketAlreadyOwnedByYou')
    ;(await bucket.ask('PUT', '', as('stranger'))).refused('BucketAlreadyExists')
  })
  it('BucketNotEmpty: DeleteBucket while visible objects remain', async () => {
    ;(await bucket.ask('DELETE', '')).refused('BucketNotEmpty')
  })
  it('BadDigest: PutObject, UploadPart, CopyObject', async () => {
    const md5 = { 'content-md5': Buffer.alloc(16).toString('base64') }
    const crc = { 'x-obj-checksum-crc32': 'AAAAAA==' }
    for (const headers of [md5, crc]) {
      ;(await bucket.ask('PUT', '/bad', { body: 'x', headers })).refused('BadDigest')
      ;(await upload.ask('PUT', '&partNumber=1', { body: 'x', headers })).refused('BadDigest')
    }
    const headers = { ...crc, 'x-obj-copy-source': `${bucket.name}/key` }
    ;(await bucket.ask('PUT', '/bad', { headers })).refused('BadDigest')
    ;(await bucket.ask('HEAD', '/bad')).refused('NoSuchKey')
  })
  it('EntityTooLarge: bodies above their caps', async () => {
    ;(await bucket.ask('PUT', '?cors', { body: ' '.repeat(65_537) })).refused('EntityTooLarge')
    ;(await bucket.ask('PUT', '/key?tagging', { body: ' '.repeat(100_000) })).refused('EntityTooLarge')
  })
  it('SlowDown: ingress saturated by 1024 requests, with Retry-After: 1, retryable', async () => {
    const head = `PUT /${bucket.name}/held HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n`
    const connections = await Promise.all(Array.from({ length: CONCURRENT_MAX }, () => store.connect()))
    for (const connection of connections) connection.write(head)
    const refused = await untilRefused()
    assert.deepEqual(
      ['x-obj-error-code', 'x-obj-error-category', 'x-obj-error-retryable', 'retry-after'].map((n) =>
        refused.header(n),
      ),
      ['SlowDown', 'throttle', 'true', '1'],
    )
    assert.equal((await store.request('GET', '/health')).status, 200, 'management is not refused')
    const [first, ...others] = connections
    first!.write('12345')
    ;(await first!.reply()).succeeded(200)
    for (const connection of others) connection.close()
    await eventually(async () => (await bucket.ask('GET', '/held')).text === '12345')
    first!.close()
  })
  it('InvalidURI: invalid target, authority or dotted bucket over TLS', async () => {
    for (const target of ['//key', '/%zz', '/bucket/%ff', '/bucket/%c0%af', '/bucket/key?a=%e0%80']) {
      ;(await store.request('GET', target)).refused('InvalidURI')
    }
    for (const host of ['a b', 'a/b', 'user@a', 'a:port', 'a:99999', '[zz]']) {
      ;(await bucket.ask('GET', '/key', { headers: { host } })).refused('InvalidURI')
    }
  })
  it('PreconditionFailed: conditional reads, writes, copies', async () => {
    const none = { 'if-match': '"0"' }
    const read = (await bucket.ask('GET', '/key', { headers: none })).refused('PreconditionFailed')
    assert.equal(read.text('Condition'), 'If-Match')
    ;(await bucket.ask('HEAD', '/key', { headers: none })).refused('PreconditionFailed')
    ;(await bucket.ask('PUT', '/key', { body: '', headers: none })).refused('PreconditionFailed')
    ;(await bucket.ask('PUT', '/key', { body: '', headers: { 'if-none-match': '*' } })).refused('PreconditionFailed')
    const headers = { 'x-obj-copy-source': `${bucket.name}/key`, 'x-obj-copy-source-if-match': '"0"' }
    ;(await bucket.ask('PUT', '/copy', { headers })).refused('PreconditionFailed')
  })
})

/** Asks until it is refused: the requests take their slots once the server has read their headers, and nothing tells when. */
async function untilRefused() {
  for (;;) {
    const reply = await bucket.ask('HEAD', '/key')
    if (reply.status === 503) return reply
    reply.succeeded(200)
  }
}
