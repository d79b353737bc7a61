import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { attributesOf } from '../../../../src/objectstore/s3/objects/attributes.ts'
import {
  checkCopySourceKey,
  checkCustomerKey,
  checkPartKey,
  encryptionHeaders,
  encryptionOf,
} from '../../../../src/objectstore/s3/objects/encryption.ts'
import type { Encryption } from '../../../../src/objectstore/operations.ts'
import { assertRefuses, refusalOf } from '../../../support/documents.ts'

type Headers = Readonly<Record<string, string>>

const mapOf = (headers: Headers) => new Map(Object.entries(headers))
const attributes = (headers: Headers) => attributesOf({ headers: mapOf(headers) })

describe('what a request says of its object', () => {
  it('is nothing much by default', () => {
    assert.deepEqual(attributes({}), {
      contentType: 'binary/octet-stream',
      cacheControl: null,
      contentDisposition: null,
      contentEncoding: null,
      contentLanguage: null,
      expires: null,
      metadata: {},
      tags: [],
      storageClass: 'STANDARD',
      encryption: null,
    })
  })

  it('is the same when only other headers say more', () => {
    const ofRequest = { host: 'a', 'x-amz-date': '20261124T000000Z', 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' }
    const general = { ...ofRequest, 'x-amz-storage-class': 'STANDARD' }
    for (const type of ['', 'text/plain', 'x/'.padEnd(300, 'y')]) {
      const said = { 'content-type': type }
      const expected = attributes({ ...general, ...said })
      for (let i = 0; i < 2; i++) assert.deepEqual(attributes({ ...ofRequest, ...said }), expected)
      assert.notDeepEqual(attributes({ ...ofRequest, ...said, 'x-amz-meta-a': 'b' }), expected)
      assert.notDeepEqual(attributes({ ...ofRequest, ...said, expires: '0' }), expected)
    }
    assert.throws(() => attributes({ 'content-type': 'a\u0001' }), { code: 'InvalidArgument' })
  })

  it('is kept as it was sent', () => {
    assert.deepEqual(
      attributes({
        'content-type': 'text/plain; charset=utf-8',
        'cache-control': 'no-cache',
        'content-disposition': 'attachment; filename="ü.txt"',
        'content-encoding': 'aws-chunked, gzip',
        'content-language': 'de',
        expires: 'never',
        'x-amz-meta-colour': 'blue',
        'x-obj-meta-size': 'big',
        'x-amz-tagging': 'b=2&a=1%20and',
        'x-amz-server-side-encryption': 'AES256',
        'x-amz-storage-class': 'STANDARD_IA',
        'x-amz-acl': 'private',
      }),
      {
        contentType: 'text/plain; charset=utf-8',
        cacheControl: 'no-cache',
        contentDisposition: 'attachment; filename="ü.txt"',
        contentEncoding: 'gzip',
        contentLanguage: 'de',
        expires: 'never',
        metadata: { colour: 'blue', size: 'big' },
        tags: [
          { key: 'a', value: '1 and' },
          { key: 'b', value: '2' },
        ],
        storageClass: 'STANDARD_IA',
        encryption: { kind: 'AES256' },
      },
    )
  })

  it('has metadata under either name, ours first, and no name is special', () => {
    const { metadata } = attributes({ 'x-obj-meta-a': 'ours', 'x-amz-meta-a': 'theirs', 'x-amz-meta-__proto__': 'p' })
    assert.deepEqual(Object.entries(metadata), [
      ['a', 'ours'],
      ['__proto__', 'p'],
    ])
  })

  it('has metadata within its limits, in bytes of UTF-8', () => {
    const key = 'k'.repeat(128)
    assert.doesNotThrow(() => attributes({ [`x-amz-meta-${key}`]: 'v' }))
    assertRefuses(() => attributes({ [`x-amz-meta-${key}k`]: 'v' }), 'MetadataTooLarge')
    assert.doesNotThrow(() => attributes({ 'x-amz-meta-k': 'ü'.repeat(1023) }))
    assertRefuses(() => attributes({ 'x-amz-meta-k': 'ü'.repeat(1024) }), 'MetadataTooLarge')
  })

  it('cannot end the line of a header', () => {
    for (const header of ['content-type', 'cache-control', 'content-encoding', 'expires', 'x-amz-meta-a']) {
      assertRefuses(() => attributes({ [header]: 'a\r\nset-cookie: b' }), 'InvalidArgument')
    }
    for (const name of ['', 'a b', 'a:b', 'a\r\nb', 'ü']) {
      assertRefuses(() => attributes({ [`x-amz-meta-${name}`]: 'v' }), 'InvalidArgument')
    }
  })

  it('asks for no ACL but those that change nothing', () => {
    for (const acl of ['private', 'bucket-owner-full-control'])
      assert.doesNotThrow(() => attributes({ 'x-obj-acl': acl }))
    for (const headers of [{ 'x-amz-acl': 'public-read' }, { 'x-obj-acl': '' }, { 'x-amz-grant-read': 'id=1' }]) {
      assertRefuses(() => attributes(headers), 'NotImplemented')
    }
  })

  it('asks for nothing that is not there', () => {
    for (const name of [
      'GLACIER',
      'DEEP_ARCHIVE',
      'REDUCED_REDUNDANCY',
      'EXPRESS_ONEZONE',
      'OUTPOSTS',
      'standard',
      '',
    ]) {
      assertRefuses(() => attributes({ 'x-amz-storage-class': name }), 'InvalidStorageClass')
    }
    for (const name of ['object-lock-mode', 'website-redirect-location', 'object-lock-legal-hold']) {
      assertRefuses(() => attributes({ [`x-amz-${name}`]: 'on' }), 'NotImplemented')
    }
  })
})

const KEY = Buffer.alloc(32, 7)
const OTHER_KEY = Buffer.alloc(32, 8)
const md5 = (bytes: Uint8Array): string => createHash('md5').update(bytes).digest('base64')
const customer = (key: Buffer, prefix = 'x-amz-'): Headers => ({
  [`${prefix}server-side-encryption-customer-algorithm`]: 'AES256',
  [`${prefix}server-side-encryption-customer-key`]: key.toString('base64'),
  [`${prefix}server-side-encryption-customer-key-md5`]: md5(key),
})
const withKey: Encryption = { kind: 'customer', keyMd5: md5(KEY) }

describe('encryption', () => {
  const encryption = (headers: Headers) => encryptionOf(mapOf(headers))

  it('is by the service, by a key management, or by the customer', () => {
    assert.equal(encryption({}), null)
    assert.deepEqual(encryption({ 'x-amz-server-side-encryption': 'AES256' }), { kind: 'AES256' })
    assert.deepEqual(encryption({ 'x-obj-server-side-encryption': 'aws:kms' }), {
      kind: 'aws:kms',
      keyId: null,
      bucketKey: false,
    })
    assert.deepEqual(
      encryption({
        'x-amz-server-side-encryption': 'aws:kms',
        'x-amz-server-side-encryption-aws-kms-key-id': 'key-1',
        'x-amz-server-side-encryption-bucket-key-enabled': 'true',
      }),
      { kind: 'aws:kms', keyId: 'key-1', bucketKey: true },
    )
    assert.deepEqual(encryption(customer(KEY)), withKey)
    assert.deepEqual(encryption(customer(KEY, 'x-obj-')), withKey)
  })

  it('is refused when it is none of these', () => {
    assertRefuses(() => encryption({ 'x-amz-server-side-encryption': 'ROT13' }), 'InvalidArgument')
    assertRefuses(() => encryption({ 'x-amz-server-side-encryption': 'aws:kms:dsse' }), 'NotImplemented')
    for (const method of [{}, { 'x-amz-server-side-encryption': 'AES256' }]) {
      assertRefuses(
        () => encryption({ ...method, 'x-amz-server-side-encryption-aws-kms-key-id': 'key-1' }),
        'InvalidArgument',
      )
    }
    assertRefuses(() => encryption({ ...customer(KEY), 'x-amz-server-side-encryption': 'AES256' }), 'InvalidArgument')
  })

  it('takes a context that is a map of strings, whatever the method', () => {
    const context = (text: string): Headers => ({
      'x-amz-server-side-encryption-context': Buffer.from(text).toString('base64'),
    })
    for (const text of ['{}', '{"a":"1","ü":""}', ' { "a" : "b" } ']) {
      for (const method of [{}, { 'x-amz-server-side-encryption': 'aws:kms' }, customer(KEY)]) {
        assert.doesNotThrow(() => encryption({ ...method, ...context(text) }))
      }
    }
    const about = { ArgumentName: 'x-amz-server-side-encryption-context' }
    for (const text of ['', 'a', '[]', 'null', '"a"', '{"a":1}', '{"a":{"b":"c"}}', '{"a":null}', '{"a":"b"']) {
      const headers = context(text)
      const [value] = Object.values(headers)
      assertRefuses(() => encryption(headers), 'InvalidArgument', { fields: { ...about, ArgumentValue: value! } })
    }
    for (const value of ['{"a":"b"}', 'e30', 'e30=\n', Buffer.from('{"a":"\xff"}', 'latin1').toString('base64')]) {
      assertRefuses(() => encryption({ 'x-obj-server-side-encryption-context': value }), 'InvalidArgument', {
        fields: { ...about, ArgumentValue: value },
      })
    }
  })

  it('with a bucket key or without says true or false', () => {
    const name = 'x-amz-server-side-encryption-bucket-key-enabled'
    for (const method of [{}, { 'x-amz-server-side-encryption': 'AES256' }]) {
      for (const value of ['true', 'false']) assert.doesNotThrow(() => encryption({ ...method, [name]: value }))
    }
    for (const value of ['', 'yes', '1', 'TRUE']) {
      assertRefuses(() => encryption({ 'x-amz-server-side-encryption': 'aws:kms', [name]: value }), 'InvalidArgument', {
        fields: { ArgumentName: name, ArgumentValue: value },
      })
    }
  })

  it('with a customer key needs all three headers, and that they fit', () => {
    for (const missing of Object.keys(customer(KEY))) {
      const { [missing]: _, ...rest } = customer(KEY)
      assertRefuses(() => encryption(rest), 'InvalidArgument', { fields: { ArgumentName: missing, ArgumentValue: '' } })
    }
    const prefix = 'x-amz-server-side-encryption-customer'
    const but = (name: string, value: string) => () => encryption({ ...customer(KEY), [`${prefix}-${name}`]: value })
    assertRefuses(but('algorithm', 'AES128'), 'InvalidEncryptionAlgorithmError')
    assertRefuses(but('key', Buffer.alloc(16).toString('base64')), 'InvalidArgument', {
      message: /secret key was invalid/,
    })
    assertRefuses(but('key', 'not base64'), 'InvalidArgument', { message: /secret key was invalid/ })
    assertRefuses(but('key-md5', md5(OTHER_KEY)), 'InvalidArgument', { message: /did not match/ })
  })

  it('never shows a key in what it refuses', () => {
    const wrong = { ...customer(KEY), 'x-amz-server-side-encryption-customer-key-md5': md5(OTHER_KEY) }
    const { message, fields } = refusalOf(() => encryption(wrong))
    assert(!JSON.stringify([message, fields]).includes(KEY.toString('base64')))
  })

  it('is told in answers', () => {
    assert.deepEqual(encryptionHeaders(null), [])
    assert.deepEqual(encryptionHeaders({ kind: 'AES256' }), [['x-obj-server-side-encryption', 'AES256']])
    assert.deepEqual(encryptionHeaders({ kind: 'aws:kms', keyId: 'key-1', bucketKey: true }), [
      ['x-obj-server-side-encryption', 'aws:kms'],
      ['x-obj-server-side-encryption-aws-kms-key-id', 'key-1'],
      ['x-obj-server-side-encryption-bucket-key-enabled', 'true'],
    ])
    assert.deepEqual(encryptionHeaders({ kind: 'aws:kms', keyId: null, bucketKey: false }), [
      ['x-obj-server-side-encryption', 'aws:kms'],
    ])
    assert.deepEqual(encryptionHeaders(withKey), [
      ['x-obj-server-side-encryption-customer-algorithm', 'AES256'],
      ['x-obj-server-side-encryption-customer-key-md5', md5(KEY)],
    ])
  })
})

describe('the key of a customer', () => {
  const copySource = (key: Buffer): Headers => customer(key, 'x-amz-copy-source-')

  it('opens what was stored with it, for a read and for a copy', () => {
    assert.doesNotThrow(() => checkCustomerKey(mapOf(customer(KEY)), withKey))
    assert.doesNotThrow(() => checkCopySourceKey(mapOf(copySource(KEY)), withKey))
    assertRefuses(() => checkCustomerKey(mapOf(customer(OTHER_KEY)), withKey), 'AccessDenied')
    assertRefuses(() => checkCopySourceKey(mapOf(copySource(OTHER_KEY)), withKey), 'AccessDenied')
  })

  it('is needed for it, and for nothing else', () => {
    assertRefuses(() => checkCustomerKey(mapOf({}), withKey), 'InvalidRequest')
    assertRefuses(() => checkCopySourceKey(mapOf(customer(KEY)), withKey), 'InvalidRequest')
    assert.doesNotThrow(() => checkCustomerKey(mapOf({}), null))
    assert.doesNotThrow(() => checkCustomerKey(mapOf({}), { kind: 'AES256' }))
    assertRefuses(() => checkCustomerKey(mapOf(customer(KEY)), { kind: 'AES256' }), 'InvalidRequest')
    assertRefuses(() => checkCopySourceKey(mapOf(copySource(KEY)), null), 'InvalidRequest')
  })

  it('comes alone with a read', () => {
    assertRefuses(() => checkCustomerKey(mapOf({ 'x-amz-server-side-encryption': 'AES256' }), null), 'InvalidArgument')
  })

  it('is the same for all parts of an upload', () => {
    assert.doesNotThrow(() => checkPartKey(mapOf(customer(KEY)), withKey))
    assert.doesNotThrow(() => checkPartKey(mapOf({}), null))
    assertRefuses(() => checkPartKey(mapOf({}), withKey), 'InvalidRequest')
    assertRefuses(() => checkPartKey(mapOf(customer(KEY)), null), 'InvalidRequest')
    assertRefuses(() => checkPartKey(mapOf(customer(OTHER_KEY)), withKey), 'AccessDenied')
  })
})
