import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { copyObject } from '../../../../src/objectstore/s3/objects/copy-object.ts'
import { TestGateway, assertRefusal, headerOf, textOf } from '../../../support/object-handlers.ts'
import type { RequestParts } from '../../../support/object-handlers.ts'

type Headers = Readonly<Record<string, string>>

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64')
const SOURCE_HEADERS = { 'content-type': 'text/plain', 'x-amz-meta-a': '1', 'x-amz-tagging': 't=1', expires: 'never' }

async function withSource(): Promise<TestGateway> {
  const gateway = await TestGateway.open()
  await gateway.put('source', 'hello', SOURCE_HEADERS)
  gateway.asked.length = 0
  return gateway
}

const copy = (gateway: TestGateway, key: string, headers: Headers = {}, parts: RequestParts = {}) =>
  gateway.object(copyObject, key, { ...parts, headers: { 'x-amz-copy-source': '/photos/source', ...headers } })

describe('CopyObject', () => {
  it('makes an object like another', async () => {
    const gateway = await withSource()
    gateway.store.nowMs += 60_000
    const answer = await copy(gateway, 'target')
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.headers, [
      ['ETag', '"5d41402abc4b2a76b9719d911017c592"'],
      ['x-obj-checksum-crc64nvme', 'M3eFcAZSQlc='],
      ['x-obj-checksum-type', 'FULL_OBJECT'],
      ['x-obj-bucket-id', 'bkt-00000001'],
      ['x-obj-object-id', 'obj-000000000002'],
      ['x-obj-version-id', 'ver-000000000002'],
      ['x-obj-commit-sequence', '2'],
      ['x-obj-durability', 'synced'],
      ['x-obj-copy-source', 'photos/source'],
    ])
    assert.equal(
      await textOf(answer),
      '<?xml version="1.0" encoding="UTF-8"?>\n<CopyObjectResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
        '<LastModified>2026-11-20T09:31:05.250Z</LastModified><ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag>' +
        '<ChecksumCRC64NVME>M3eFcAZSQlc=</ChecksumCRC64NVME><ChecksumType>FULL_OBJECT</ChecksumType></CopyObjectResult>',
    )
    const target = await gateway.store.object(gateway.bucket, 'target')
    assert.equal(target?.contentType, 'text/plain')
    assert.equal(target.expires, 'never')
    assert.deepEqual(target.metadata, { a: '1' })
    assert.deepEqual(target.tags, [{ key: 't', value: '1' }])
    assert.equal(await gateway.bytesOf('target'), 'hello')
    assert.deepEqual(gateway.asked, [
      's3:GetObject photos/source alice',
      's3:GetObjectTagging photos/source alice',
      's3:PutObjectTagging photos/target alice',
    ])
    gateway.assertClean()
  })

  it('replaces what it is told to', async () => {
    const gateway = await withSource()
    await copy(gateway, 'target', {
      'x-amz-metadata-directive': 'REPLACE',
      'x-amz-meta-b': '2',
      'content-type': 'image/png',
      'x-amz-tagging-directive': 'REPLACE',
      'x-amz-tagging': 'u=2',
    })
    const target = await gateway.store.object(gateway.bucket, 'target')
    assert.deepEqual([target?.contentType, target?.expires], ['image/png', null])
    assert.deepEqual(target?.metadata, { b: '2' })
    assert.deepEqual(target.tags, [{ key: 'u', value: '2' }])

    await copy(gateway, 'third', { 'x-amz-meta-b': '2', 'x-amz-tagging': 'u=2', 'content-type': 'image/png' })
    const third = await gateway.store.object(gateway.bucket, 'third')
    assert.deepEqual([third?.contentType, third?.metadata, third?.tags[0]?.key], ['text/plain', { a: '1' }, 't'])
  })

  it('asks for tags only where it takes some over, or brings some', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('source', 'hello', { 'x-amz-tagging': 't=1' })
    await gateway.put('untagged', 'hello')
    const replace = { 'x-amz-tagging-directive': 'REPLACE' }
    for (const [headers, actions] of [
      [{}, ['s3:GetObjectTagging photos/source alice', 's3:PutObjectTagging photos/target alice']],
      [{ 'x-amz-copy-source': 'photos/untagged' }, []],
      [replace, []],
      [{ ...replace, 'x-amz-tagging': 'u=2' }, ['s3:PutObjectTagging photos/target alice']],
    ] as const) {
      gateway.asked.length = 0
      await copy(gateway, 'target', headers)
      assert.deepEqual(
        gateway.asked.filter((asked) => asked.includes('Tagging')),
        actions,
      )
    }
  })

  it('of tags that the caller may not read there, or may not put here, is none', async () => {
    for (const refused of ['s3:GetObjectTagging source', 's3:PutObjectTagging target']) {
      const gateway = await withSource()
      gateway.refused.add(refused)
      await assertRefusal(copy(gateway, 'target'), 'AccessDenied')
      assert.equal(await gateway.bytesOf('target'), null)
      gateway.assertClean()
    }
  })

  it('knows no other directives', async () => {
    const gateway = await withSource()
    for (const name of ['x-amz-metadata-directive', 'x-obj-tagging-directive']) {
      await assertRefusal(copy(gateway, 'target', { [name]: 'MERGE' }), 'InvalidArgument')
    }
  })

  it('of an object to itself must change something', async () => {
    const gateway = await withSource()
    const illegal = /trying to copy an object to itself/
    await assertRefusal(copy(gateway, 'source'), 'InvalidRequest', { message: illegal })
    await assertRefusal(copy(gateway, 'source', { 'x-amz-tagging-directive': 'REPLACE' }), 'InvalidRequest', {
      message: illegal,
    })
    for (const headers of [
      { 'x-amz-metadata-directive': 'REPLACE', 'x-amz-meta-b': '2' },
      { 'x-amz-server-side-encryption': 'AES256' },
      { 'x-amz-storage-class': 'STANDARD' },
      { 'x-amz-checksum-algorithm': 'SHA256' },
    ] as readonly Headers[]) {
      assert.equal((await copy(gateway, 'source', headers)).status, 200)
      assert.equal(await gateway.bytesOf('source'), 'hello')
    }
  })

  it('is of a source that is there, that the caller may read, and that is as the caller wants it', async () => {
    const gateway = await withSource()
    await assertRefusal(copy(gateway, 'target', { 'x-amz-copy-source': 'photos/none' }), 'NoSuchKey')
    await assertRefusal(copy(gateway, 'target', { 'x-amz-copy-source': 'elsewhere/source' }), 'NoSuchBucket')
    const condition = { 'x-amz-copy-source-if-none-match': '*' }
    await assertRefusal(copy(gateway, 'target', condition), 'PreconditionFailed', {
      fields: { Condition: 'x-amz-copy-source-If-None-Match' },
    })
    gateway.refused.add('s3:GetObject source')
    await assertRefusal(copy(gateway, 'target'), 'AccessDenied')
    assert.equal(await gateway.bytesOf('target'), null)
    gateway.assertClean()
  })

  it('is of a source of the owner that the caller expects', async () => {
    const gateway = await withSource()
    for (const name of ['x-amz-source-expected-bucket-owner', 'x-obj-source-expected-bucket-owner']) {
      await assertRefusal(copy(gateway, 'target', { [name]: 'bob' }), 'AccessDenied')
      assert.equal(await gateway.bytesOf('target'), null)
    }
    assert.equal((await copy(gateway, 'target', { 'x-amz-source-expected-bucket-owner': 'alice' })).status, 200)
    gateway.assertClean()
  })

  it('goes where the caller wants it to go only', async () => {
    const gateway = await withSource()
    await gateway.put('target', 'there')
    await assertRefusal(copy(gateway, 'target', { 'if-none-match': '*' }), 'PreconditionFailed')
    await assertRefusal(copy(gateway, 'target', { 'if-match': '"no"' }), 'PreconditionFailed')
    assert.equal(await gateway.bytesOf('target'), 'there')
    gateway.assertClean()
  })

  it('checks the checksum of what is copied, and keeps it', async () => {
    const gateway = await withSource()
    await assertRefusal(copy(gateway, 'target', { 'x-obj-checksum-sha256': sha256('other') }), 'BadDigest')
    await assertRefusal(copy(gateway, 'target', { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' }), 'BadDigest')
    assert.equal(await gateway.bytesOf('target'), null)

    const declared = await copy(gateway, 'target', { 'x-obj-checksum-sha256': sha256('hello') })
    assert.equal(headerOf(declared, 'x-obj-checksum-sha256'), sha256('hello'))
    const emptyBody = await copy(gateway, 'target', { 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==' })
    assert.equal(emptyBody.status, 200)
    gateway.assertClean()
  })

  it('computes the checksum that is asked for, or that the source has', async () => {
    const gateway = await withSource()
    const chosen = await copy(gateway, 'target', { 'x-amz-checksum-algorithm': 'SHA256' })
    assert.equal(headerOf(chosen, 'x-obj-checksum-sha256'), sha256('hello'))
    const again = await copy(gateway, 'third', { 'x-amz-copy-source': 'photos/target' })
    assert.equal(headerOf(again, 'x-obj-checksum-sha256'), sha256('hello'))
  })

  it('makes one piece of what came in parts', async () => {
    const gateway = await TestGateway.open()
    await gateway.putParts('source', ['hel', 'lo'], ['first', 'second'])
    const answer = await copy(gateway, 'target')
    assert.equal(headerOf(answer, 'etag'), '"5d41402abc4b2a76b9719d911017c592"')
    const target = await gateway.store.object(gateway.bucket, 'target')
    assert.equal(target?.parts, null)
    assert.deepEqual(target.checksums, [{ algorithm: 'SHA256', value: sha256('hello'), type: 'FULL_OBJECT' }])
  })

  it('refuses what is too large to be copied at once', async () => {
    const gateway = await withSource()
    const source = await gateway.store.object(gateway.bucket, 'source')
    gateway.store.object = async () => ({ ...source!, size: 5 * 1024 ** 3 + 1 })
    await assertRefusal(copy(gateway, 'target'), 'InvalidRequest', {
      message: /larger than the maximum allowable size/,
    })
    gateway.assertClean()
  })

  it('copies at the pace of the store', async () => {
    const gateway = await TestGateway.open()
    const bytes = 'x'.repeat(700_000)
    await gateway.put('source', bytes)
    await copy(gateway, 'target')
    assert.equal(await gateway.bytesOf('target'), bytes)
    gateway.assertClean()
  })

  it('changes the encryption to what is asked for', async () => {
    const gateway = await TestGateway.open()
    const key = Buffer.alloc(32, 1)
    const keyMd5 = createHash('md5').update(key).digest('base64')
    const ofKey = (prefix: string): Headers => ({
      [`x-amz-${prefix}server-side-encryption-customer-algorithm`]: 'AES256',
      [`x-amz-${prefix}server-side-encryption-customer-key`]: key.toString('base64'),
      [`x-amz-${prefix}server-side-encryption-customer-key-md5`]: keyMd5,
    })
    await gateway.put('source', 'hello', ofKey(''))
    await assertRefusal(copy(gateway, 'target'), 'InvalidRequest')
    const plain = await copy(gateway, 'target', ofKey('copy-source-'))
    assert.equal(headerOf(plain, 'x-obj-server-side-encryption-customer-algorithm'), undefined)
    const encrypted = await copy(gateway, 'third', { 'x-amz-copy-source': 'photos/target', ...ofKey('') })
    assert.equal(headerOf(encrypted, 'x-obj-server-side-encryption-customer-key-md5'), keyMd5)
  })
})
