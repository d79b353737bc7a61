import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { getObject, headObject } from '../../../../src/objectstore/s3/objects/get-object.ts'
import { TestGateway, assertRefusal, headerOf, headersOf, requestOf, textOf } from '../../../support/object-handlers.ts'
import type { RequestParts } from '../../../support/object-handlers.ts'

const MD5_OF_HELLO = '5d41402abc4b2a76b9719d911017c592'

/** Asserts that GetObject and HeadObject answer alike. @returns the answer of GetObject */
async function readBoth(gateway: TestGateway, key: string, parts: RequestParts = {}) {
  const got = await gateway.object(getObject, key, parts)
  const told = await gateway.object(headObject, key, parts)
  assert.equal(told.status, got.status)
  assert.deepEqual(headersOf(told), headersOf(got))
  const text = await textOf(got)
  assert.equal(told.body?.contentType, got.body?.contentType)
  assert(told.body && 'source' in told.body)
  assert.equal(told.body.lengthBytes, text.length)
  assert.equal(await told.body.source.next(), null)
  gateway.assertClean()
  return { status: got.status, text, type: got.body?.contentType, header: (name: string) => headerOf(got, name) }
}

describe('GetObject and HeadObject', () => {
  it('give an object with all that is known of it', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello', {
      'content-type': 'text/plain',
      'cache-control': 'no-cache',
      'content-disposition': 'inline',
      'content-encoding': 'gzip',
      'content-language': 'de',
      expires: 'Fri, 20 Nov 2026 09:30:05 GMT',
      'x-amz-meta-colour': 'blue',
      'x-amz-tagging': 'a=1&b=2',
      'x-amz-server-side-encryption': 'AES256',
    })
    const got = await gateway.object(getObject, 'k')
    assert.equal(got.status, 200)
    assert.deepEqual(headersOf(got), [
      ['Last-Modified', 'Fri, 20 Nov 2026 09:30:05 GMT'],
      ['ETag', `"${MD5_OF_HELLO}"`],
      ['Accept-Ranges', 'bytes'],
      ['Cache-Control', 'no-cache'],
      ['Content-Disposition', 'inline'],
      ['Content-Encoding', 'gzip'],
      ['Content-Language', 'de'],
      ['Expires', 'Fri, 20 Nov 2026 09:30:05 GMT'],
      ['x-obj-meta-colour', 'blue'],
      ['x-obj-server-side-encryption', 'AES256'],
      ['x-obj-bucket-id', 'bkt-00000001'],
      ['x-obj-object-id', 'obj-000000000001'],
      ['x-obj-version-id', 'ver-000000000001'],
      ['x-obj-commit-sequence', '1'],
      ['x-obj-tagging-count', '2'],
    ])
    assert.equal(await textOf(got), 'hello')
    const { text, type } = await readBoth(gateway, 'k')
    assert.deepEqual({ text, type }, { text: 'hello', type: 'text/plain' })
  })

  it('give an object of no bytes, and a large one piece by piece', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('empty', '')
    await gateway.put('large', 'x'.repeat(300_000))
    assert.equal((await readBoth(gateway, 'empty')).text, '')
    assert.equal((await readBoth(gateway, 'large')).text.length, 300_000)
  })

  it('give a range, and say where it is', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    const { status, text, header } = await readBoth(gateway, 'k', { headers: { range: 'bytes=1-3' } })
    assert.deepEqual([status, text, header('content-range')], [206, 'ell', 'bytes 1-3/5'])

    const whole = await readBoth(gateway, 'k', { headers: { range: 'bytes=3-1' } })
    assert.deepEqual([whole.status, whole.text, whole.header('content-range')], [200, 'hello', undefined])

    for (const handler of [getObject, headObject]) {
      await assertRefusal(gateway.object(handler, 'k', { headers: { range: 'bytes=5-' } }), 'InvalidRange', {
        headers: { 'Content-Range': 'bytes */5' },
      })
    }
    gateway.assertClean()
  })

  it('give checksums when they are asked for, of the whole only with the whole', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    const checksums = async (
      headers: Readonly<Record<string, string>>,
      query: Readonly<Record<string, string>> = {},
    ) => {
      const { header } = await readBoth(gateway, 'k', { headers, query })
      return [header('x-obj-checksum-crc64nvme'), header('x-obj-checksum-type')]
    }
    const all = ['M3eFcAZSQlc=', 'FULL_OBJECT']
    const none = [undefined, undefined]
    assert.deepEqual(await checksums({ 'x-amz-checksum-mode': 'ENABLED' }), all)
    assert.deepEqual(await checksums({ 'x-obj-checksum-mode': 'enabled' }), all)
    assert.deepEqual(await checksums({ 'x-amz-checksum-mode': 'ENABLED' }, { partNumber: '1' }), all)
    assert.deepEqual(await checksums({}), none)
    assert.deepEqual(await checksums({ 'x-amz-checksum-mode': 'ENABLED', range: 'bytes=0-4' }), none)
  })

  it('give a part of an object that came in parts, with its own checksum', async () => {
    const gateway = await TestGateway.open()
    await gateway.putParts('k', ['one', 'three'], ['first', 'second'])
    const headers = { 'x-amz-checksum-mode': 'ENABLED' }
    const part = await readBoth(gateway, 'k', { headers, query: { partNumber: '2' } })
    assert.deepEqual([part.status, part.text, part.header('content-range')], [206, 'three', 'bytes 3-7/8'])
    assert.equal(part.header('x-obj-mp-parts-count'), '2')
    assert.equal(part.header('x-obj-checksum-sha256'), 'second')
    assert.equal(part.header('x-obj-checksum-type'), 'COMPOSITE')

    const whole = await readBoth(gateway, 'k', { headers })
    assert.equal(whole.header('x-obj-checksum-sha256'), 'whole-2')
    assert.equal(whole.header('x-obj-mp-parts-count'), undefined)
  })

  it('take an object that came in one piece for its only part', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    await gateway.put('empty', '')
    const part = await readBoth(gateway, 'k', { query: { partNumber: '1' } })
    assert.deepEqual([part.status, part.text, part.header('content-range')], [206, 'hello', 'bytes 0-4/5'])
    assert.equal(part.header('x-obj-mp-parts-count'), undefined)
    const empty = await readBoth(gateway, 'empty', { query: { partNumber: '1' } })
    assert.deepEqual([empty.status, empty.header('content-range')], [200, undefined])
    await assertRefusal(gateway.object(getObject, 'k', { query: { partNumber: '2' } }), 'InvalidPartNumber')
  })

  it('judge conditions before ranges', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    const headers = { 'if-none-match': `"${MD5_OF_HELLO}"`, range: 'bytes=99-' }
    await assertRefusal(gateway.object(getObject, 'k', { headers }), 'NotModified', {
      headers: { ETag: `"${MD5_OF_HELLO}"`, 'Last-Modified': 'Fri, 20 Nov 2026 09:30:05 GMT' },
    })
    await assertRefusal(gateway.object(headObject, 'k', { headers: { 'if-match': 'x' } }), 'PreconditionFailed')
  })

  it('say to caches of an object that is not modified what they say of one that is', async () => {
    const gateway = await TestGateway.open()
    const expires = 'Fri, 20 Nov 2026 09:30:05 GMT'
    await gateway.put('k', 'hello', { 'cache-control': 'max-age=60', expires })
    const known = { ETag: `"${MD5_OF_HELLO}"`, 'Last-Modified': expires }
    const headers = { 'if-none-match': '*' }
    await assertRefusal(gateway.object(getObject, 'k', { headers }), 'NotModified', {
      headers: { ...known, 'Cache-Control': 'max-age=60', Expires: expires },
    })
    const query = { 'response-cache-control': 'private' }
    await assertRefusal(gateway.object(headObject, 'k', { headers, query }), 'NotModified', {
      headers: { ...known, 'Cache-Control': 'private', Expires: expires },
    })
  })

  it('say other things of an object when they are told to', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello', { 'content-type': 'text/plain', 'content-language': 'de' })
    const query = {
      'response-content-type': 'image/png',
      'response-cache-control': 'private',
      'response-content-disposition': 'attachment; filename=a.png',
      'response-content-encoding': 'br',
      'response-content-language': 'en',
      'response-expires': 'never',
    }
    const { type, header } = await readBoth(gateway, 'k', { query })
    assert.equal(type, 'image/png')
    assert.deepEqual(
      ['cache-control', 'content-disposition', 'content-encoding', 'content-language', 'expires'].map(header),
      ['private', 'attachment; filename=a.png', 'br', 'en', 'never'],
    )
    const kept = await readBoth(gateway, 'k', { query: { 'response-content-type': '' } })
    assert.deepEqual([kept.type, kept.header('content-language')], ['text/plain', 'de'])
  })

  it('are not told so by nobody in particular, and not to break a header', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    const query = { 'response-content-type': 'text/html' }
    await assertRefusal(gateway.object(getObject, 'k', { query, principal: null }), 'InvalidRequest')
    const breaking = { 'response-content-disposition': 'a\r\nset-cookie: b' }
    await assertRefusal(gateway.object(getObject, 'k', { query: breaking }), 'InvalidArgument')
  })

  it('open what a customer encrypted with its key', async () => {
    const gateway = await TestGateway.open()
    const key = Buffer.alloc(32, 1)
    const headers = {
      'x-amz-server-side-encryption-customer-algorithm': 'AES256',
      'x-amz-server-side-encryption-customer-key': key.toString('base64'),
      'x-amz-server-side-encryption-customer-key-md5': createHash('md5').update(key).digest('base64'),
    }
    await gateway.put('k', 'hello', headers)
    const { text, header } = await readBoth(gateway, 'k', { headers })
    assert.equal(text, 'hello')
    assert.equal(header('x-obj-server-side-encryption-customer-algorithm'), 'AES256')
    for (const handler of [getObject, headObject]) await assertRefusal(gateway.object(handler, 'k'), 'InvalidRequest')
  })

  it('do not find what is not there', async () => {
    const gateway = await TestGateway.open()
    for (const handler of [getObject, headObject]) {
      await assertRefusal(gateway.object(handler, 'k'), 'NoSuchKey', { fields: { Key: 'k' } })
    }
    assert.deepEqual(gateway.asked, [])
  })

  it('tell whom a policy lets read that a key is absent only when it may list them', async () => {
    const gateway = await TestGateway.open()
    await assertRefusal(gateway.object(getObject, 'k', { principal: 'bob' }), 'NoSuchKey')
    assert.deepEqual(gateway.asked, ['s3:ListBucket photos/ bob'])
    gateway.refused.add('s3:ListBucket')
    for (const principal of ['bob', null]) {
      await assertRefusal(gateway.object(getObject, 'k', { principal }), 'AccessDenied')
    }
    await assertRefusal(gateway.object(getObject, 'k'), 'NoSuchKey')
  })

  it('tell how many tags there are whom a policy lets read them, and the owner without asking it', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello', { 'x-amz-tagging': 'a=1&b=2' })
    await gateway.put('untagged', 'hello')
    gateway.asked.length = 0
    const countFor = async (principal: string | null, key = 'k') =>
      (await readBoth(gateway, key, { principal })).header('x-obj-tagging-count')
    assert.equal(await countFor('alice'), '2')
    assert.equal(await countFor('bob', 'untagged'), undefined)
    assert.deepEqual(gateway.asked, [])
    assert.equal(await countFor('bob'), '2')
    gateway.refused.add('s3:GetObjectTagging')
    for (const principal of ['bob', null]) assert.equal(await countFor(principal), undefined)
    assert.equal(await countFor('alice'), '2')
  })

  it('do not take a failure for a refusal', async () => {
    const gateway = await TestGateway.open()
    const context = { ...gateway.context, authorize: async () => assert.fail('a bug') }
    const request = requestOf({ principal: 'bob' })
    await assert.rejects(async () => getObject(request, gateway.bucket, 'k', context), /a bug/)
  })
})
