import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { putObject } from '../../../../src/objectstore/s3/objects/put-object.ts'
import { FakeBody, TestGateway, assertRefusal, headerOf, headersOf } from '../../../support/object-handlers.ts'

const md5 = (text: string): Buffer => createHash('md5').update(text).digest()
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

describe('PutObject', () => {
  it('keeps an object and says what it is', async () => {
    const gateway = await TestGateway.open()
    const answer = await gateway.object(putObject, 'a/b', { body: 'hello', headers: { 'content-type': 'text/plain' } })

    assert.equal(answer.status, 200)
    assert.equal(answer.body, undefined)
    assert.deepEqual(headersOf(answer), [
      ['ETag', `"${md5('hello').toString('hex')}"`],
      ['x-obj-checksum-crc64nvme', 'M3eFcAZSQlc='],
      ['x-obj-checksum-type', 'FULL_OBJECT'],
      ['x-obj-bucket-id', 'bkt-00000001'],
      ['x-obj-object-id', 'obj-000000000001'],
      ['x-obj-version-id', 'ver-000000000001'],
      ['x-obj-commit-sequence', '1'],
      ['x-obj-durability', 'synced'],
    ])
    const object = await gateway.store.object(gateway.bucket, 'a/b')
    assert.equal(object?.contentType, 'text/plain')
    assert.equal(await gateway.bytesOf('a/b'), 'hello')
    gateway.assertClean()
  })

  it('keeps the checksum that came with the object instead of its own', async () => {
    const gateway = await TestGateway.open()
    const value = sha256('hello').toString('base64')
    const answer = await gateway.object(putObject, 'k', { body: 'hello', headers: { 'x-obj-checksum-sha256': value } })

    assert.equal(headerOf(answer, 'x-obj-checksum-sha256'), value)
    assert.equal(headerOf(answer, 'x-obj-checksum-crc64nvme'), undefined)
    const object = await gateway.store.object(gateway.bucket, 'k')
    assert.deepEqual(object?.checksums, [{ algorithm: 'SHA256', value, type: 'FULL_OBJECT' }])
  })

  it('keeps nothing of a body that is not what the request says', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'before')
    for (const [headers, code] of [
      [{ 'content-md5': md5('other').toString('base64') }, 'BadDigest'],
      [{ 'content-md5': 'no' }, 'InvalidDigest'],
      [{ 'x-amz-checksum-sha256': sha256('other').toString('base64') }, 'BadDigest'],
      [{ 'x-amz-content-sha256': sha256('other').toString('hex') }, 'XAmzContentSHA256Mismatch'],
      [{ 'x-amz-checksum-crc32': 'bad' }, 'InvalidRequest'],
    ] as const) {
      await assertRefusal(gateway.object(putObject, 'k', { body: 'hello', headers }), code)
    }
    assert.equal(await gateway.bytesOf('k'), 'before')
    gateway.assertClean()
  })

  it('takes a body out of its framing, with the checksum behind it', async () => {
    const gateway = await TestGateway.open()
    const value = sha256('hello').toString('base64')
    const answer = await gateway.object(putObject, 'k', {
      body: `5\r\nhello\r\n0\r\nx-amz-checksum-sha256:${value}\r\n\r\n`,
      headers: {
        'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
        'x-amz-decoded-content-length': '5',
        'x-amz-trailer': 'x-amz-checksum-sha256',
        'content-encoding': 'aws-chunked',
      },
    })
    assert.equal(headerOf(answer, 'x-obj-checksum-sha256'), value)
    const object = await gateway.store.object(gateway.bucket, 'k')
    assert.equal(object?.contentEncoding, null)
    assert.equal(await gateway.bytesOf('k'), 'hello')
  })

  it('goes on at the pace of the store', async () => {
    const gateway = await TestGateway.open()
    const bytes = 'x'.repeat(700_000)
    await gateway.put('k', bytes)
    assert.equal(await gateway.bytesOf('k'), bytes)
    gateway.assertClean()
  })

  it('refuses before it reads what it can judge by the headers', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'before')
    const refused = async (code: Parameters<typeof assertRefusal>[1], headers: Readonly<Record<string, string>>) => {
      const body = new FakeBody(Buffer.from('hello'))
      await assertRefusal(gateway.object(putObject, 'k', { body, headers }), code)
      assert(!body.wasTaken, code)
    }
    await refused('PreconditionFailed', { 'if-none-match': '*' })
    await refused('InvalidTag', { 'x-amz-tagging': 'a=1&a=2' })
    await refused('MetadataTooLarge', { 'x-amz-meta-a': 'v'.repeat(3000) })
    await refused('InvalidEncryptionAlgorithmError', { 'x-amz-server-side-encryption-customer-algorithm': 'DES' })

    const large = new FakeBody(Buffer.alloc((1 << 20) + 1))
    await assertRefusal(gateway.object(putObject, 'k', { body: large }), 'EntityTooLarge', {
      fields: { ProposedSize: (1 << 20) + 1, MaxSizeAllowed: 1 << 20 },
    })
    assert(!large.wasTaken)
    gateway.assertClean()
  })

  it('needs to know the length of the body, or that it comes in chunks', async () => {
    const gateway = await TestGateway.open()
    const body = () => new FakeBody(Buffer.from('hello'), { isDeclared: false })
    await assertRefusal(gateway.object(putObject, 'k', { body: body() }), 'MissingContentLength')
    await gateway.object(putObject, 'k', { body: body(), headers: { 'transfer-encoding': 'chunked' } })
    assert.equal(await gateway.bytesOf('k'), 'hello')

    const large = new FakeBody(Buffer.alloc((1 << 20) + 1), { isDeclared: false })
    const headers = { 'transfer-encoding': 'chunked' }
    await assertRefusal(gateway.object(putObject, 'k', { body: large, headers }), 'EntityTooLarge')
    gateway.assertClean()
  })

  it('lets one of two that want to be the first have its way', async () => {
    const gateway = await TestGateway.open()
    const headers = { 'if-none-match': '*' }
    const both = ['one', 'two'].map((body) => gateway.object(putObject, 'k', { body, headers }))
    const outcomes = await Promise.allSettled(both)
    assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
    gateway.assertClean()
  })

  it('says which encryption was asked for', async () => {
    const gateway = await TestGateway.open()
    const headers = { 'x-amz-server-side-encryption': 'AES256' }
    const answer = await gateway.object(putObject, 'k', { body: '', headers })
    assert.equal(headerOf(answer, 'x-obj-server-side-encryption'), 'AES256')
  })
})
