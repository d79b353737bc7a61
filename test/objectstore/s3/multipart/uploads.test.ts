import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { BodyDigests } from '../../../../src/objectstore/bodies/incremental-digests.ts'
import type { ChecksumAlgorithm } from '../../../../src/objectstore/bodies/checksums.ts'
import { FakeBody, headerOf } from '../../../support/object-handlers.ts'
import { elementOf, MIB, TestUploads, textOf } from './support.ts'

const md5 = (...pieces: readonly Uint8Array[]): Buffer => createHash('md5').update(Buffer.concat(pieces)).digest()
const filled = (bytes: number, byte: number): Buffer => Buffer.alloc(bytes, byte)

function checksumOf(algorithm: ChecksumAlgorithm, bytes: Uint8Array): string {
  const digests = new BodyDigests({ checksums: [algorithm], sha256: false })
  digests.update(bytes)
  return digests.finish().checksums[0]!.value
}

const CUSTOMER_KEY = Buffer.alloc(32, 'k')
const OTHER_KEY = Buffer.alloc(32, 'o')
const keyHeaders = (key: Buffer): Record<string, string> => ({
  'x-amz-server-side-encryption-customer-algorithm': 'AES256',
  'x-amz-server-side-encryption-customer-key': key.toString('base64'),
  'x-amz-server-side-encryption-customer-key-md5': md5(key).toString('base64'),
})

describe('an upload in parts', () => {
  it('becomes one object of its parts, with the attributes it was begun with', async () => {
    const uploads = await TestUploads.open()
    const parts = [filled(5 * MIB, 1), filled(5 * MIB + 7, 2), filled(11, 3)]
    const uploadId = await uploads.begin('trip/a & b', { 'content-type': 'image/png', 'x-amz-meta-who': 'me' })
    const listed = await Promise.all(parts.map((part, i) => uploads.send('trip/a & b', uploadId, 2 * i + 1, part)))

    const answer = await uploads.complete('trip/a & b', uploadId, listed)

    assert.equal(answer.status, 200)
    const etag = `${md5(...parts.map((part) => md5(part))).toString('hex')}-3`
    assert.equal(elementOf(answer, 'ETag'), `&quot;${etag}&quot;`)
    assert.equal(elementOf(answer, 'Location'), 'http://127.0.0.1:9000/photos/trip%2Fa%20%26%20b')
    assert.equal(elementOf(answer, 'Bucket'), 'photos')
    assert.equal(elementOf(answer, 'Key'), 'trip/a &amp; b')
    assert.equal(elementOf(answer, 'ChecksumCRC64NVME'), checksumOf('CRC64NVME', Buffer.concat(parts)))
    assert.equal(elementOf(answer, 'ChecksumType'), 'FULL_OBJECT')
    assert.equal(headerOf(answer, 'etag'), `"${etag}"`)
    assert.equal(headerOf(answer, 'x-obj-durability'), 'synced')
    assert.equal(headerOf(answer, 'x-obj-upload-id'), uploadId)
    assert.match(headerOf(answer, 'x-obj-version-id') ?? '', /^ver-[0-9a-f]{12}$/)
    assert.deepEqual(await uploads.read('trip/a & b'), Buffer.concat(parts))
    const object = await uploads.store.object(uploads.bucket, 'trip/a & b')
    assert.equal(object?.contentType, 'image/png')
    assert.deepEqual(object?.metadata, { who: 'me' })
    uploads.gateway.assertClean()
  })

  it('answers its beginning with its id and what was chosen', async () => {
    const uploads = await TestUploads.open()
    const headers = { 'x-amz-checksum-algorithm': 'SHA256', 'x-amz-server-side-encryption': 'AES256' }
    const answer = await uploads.create('k', { headers })
    assert.equal(answer.status, 200)
    assert.equal(elementOf(answer, 'Key'), 'k')
    assert.equal(headerOf(answer, 'x-obj-upload-id'), elementOf(answer, 'UploadId'))
    assert.equal(headerOf(answer, 'x-obj-checksum-algorithm'), 'SHA256')
    assert.equal(headerOf(answer, 'x-obj-checksum-type'), 'COMPOSITE')
    assert.equal(headerOf(answer, 'x-obj-server-side-encryption'), 'AES256')
    assert.equal(headerOf(answer, 'x-obj-durability'), 'synced')
    assert.equal(headerOf(await uploads.create('k'), 'x-obj-checksum-algorithm'), undefined)
  })

  it('is of a key: under another one it is not there', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('mine')
    const refusal = { code: 'NoSuchUpload', fields: { UploadId: uploadId } }
    await assert.rejects(uploads.part('other', uploadId, 1, { body: 'x' }), refusal)
    await assert.rejects(uploads.parts('other', uploadId), refusal)
    await assert.rejects(uploads.complete('other', uploadId, []), refusal)
    await assert.rejects(uploads.abort('other', uploadId), refusal)
  })

  it('is gone once it was aborted, with its parts', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const part = await uploads.send('k', uploadId, 1, 'x')
    const answer = await uploads.abort('k', uploadId)
    assert.equal(answer.status, 204)
    assert.equal(headerOf(answer, 'x-obj-durability'), 'synced')
    await assert.rejects(uploads.abort('k', uploadId), { code: 'NoSuchUpload' })
    await assert.rejects(uploads.part('k', uploadId, 1, { body: 'x' }), { code: 'NoSuchUpload' })
    await assert.rejects(uploads.complete('k', uploadId, [part]), { code: 'NoSuchUpload' })
  })
})

describe('a part', () => {
  it('has the ETag of its bytes, and replaces the one of its number', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const first = await uploads.part('k', uploadId, 10_000, { body: 'first' })
    assert.equal(first.status, 200)
    assert.equal(headerOf(first, 'etag'), `"${md5(Buffer.from('first')).toString('hex')}"`)
    assert.equal(headerOf(first, 'x-obj-durability'), 'synced')
    const second = await uploads.send('k', uploadId, 10_000, 'second')
    await uploads.complete('k', uploadId, [second])
    assert.equal(String(await uploads.read('k')), 'second')
  })

  it('has a number from 1 to 10000', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    for (const partNumber of ['0', '10001', '-1', 'one', '1.5', '', '123456']) {
      await assert.rejects(uploads.part('k', uploadId, partNumber, { body: 'x' }), {
        code: 'InvalidArgument',
        message: 'Part number must be an integer between 1 and 10000, inclusive',
        fields: { ArgumentName: 'partNumber', ArgumentValue: partNumber },
      })
    }
  })

  it('is refused by its declared length before its body is read, and without one', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const tooLarge = new FakeBody(Buffer.alloc(16 * MIB + 1))
    await assert.rejects(uploads.part('k', uploadId, 1, { body: tooLarge }), {
      code: 'EntityTooLarge',
      fields: { ProposedSize: 16 * MIB + 1, MaxSizeAllowed: 16 * MIB },
    })
    assert.equal(tooLarge.wasTaken, false)
    const body = (): FakeBody => new FakeBody(Buffer.from('x'), { isDeclared: false })
    await assert.rejects(uploads.part('k', uploadId, 1, { body: body() }), { code: 'MissingContentLength' })
    const headers = { 'transfer-encoding': 'chunked' }
    const answer = await uploads.part('k', uploadId, 1, { body: body(), headers })
    assert.equal(answer.status, 200)
  })

  it('is refused, and leaves nothing, when its digest is another than it says', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const sha256 = createHash('sha256').update('other').digest('hex')
    for (const [code, headers] of [
      ['BadDigest', { 'content-md5': md5(Buffer.from('other')).toString('base64') }],
      ['BadDigest', { 'x-amz-checksum-crc32': checksumOf('CRC32', Buffer.from('other')) }],
      ['XAmzContentSHA256Mismatch', { 'x-amz-content-sha256': sha256 }],
      ['InvalidDigest', { 'content-md5': 'no' }],
    ] as const) {
      await assert.rejects(uploads.part('k', uploadId, 1, { body: 'x', headers }), { code })
    }
    assert.doesNotMatch(textOf(await uploads.parts('k', uploadId)), /<Part>/)
    uploads.gateway.assertClean()
  })

  it('may come in chunks with its checksum behind them', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const crc = checksumOf('CRC32', Buffer.from('hello'))
    const headers = {
      'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      'x-amz-decoded-content-length': '5',
      'x-amz-trailer': 'x-amz-checksum-crc32',
    }
    const body = `5\r\nhello\r\n0\r\nx-amz-checksum-crc32:${crc}\r\n\r\n`
    const answer = await uploads.part('k', uploadId, 1, { body, headers })
    assert.equal(headerOf(answer, 'x-obj-checksum-crc32'), crc)
    assert.equal(headerOf(answer, 'x-obj-checksum-crc64nvme'), undefined)
    await uploads.complete('k', uploadId, [{ partNumber: 1, etag: headerOf(answer, 'etag') ?? '' }])
    assert.equal(String(await uploads.read('k')), 'hello')
  })

  it('is answered with the checksum that was chosen, and refused with another one', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k', { 'x-amz-checksum-algorithm': 'SHA1' })
    const sha1 = checksumOf('SHA1', Buffer.from('x'))
    const answer = await uploads.part('k', uploadId, 1, { body: 'x', headers: { 'x-amz-checksum-sha1': sha1 } })
    assert.equal(headerOf(answer, 'x-obj-checksum-sha1'), sha1)
    const crc32 = { 'x-amz-checksum-crc32': checksumOf('CRC32', Buffer.from('x')) }
    await assert.rejects(uploads.part('k', uploadId, 1, { body: 'x', headers: crc32 }), { code: 'InvalidRequest' })
    await assert.rejects(uploads.part('k', uploadId, 1, { body: 'x' }), { code: 'InvalidRequest' })
  })

  it('comes with the customer key that its upload was begun with', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k', keyHeaders(CUSTOMER_KEY))
    const plainId = await uploads.begin('k')
    const answer = await uploads.part('k', uploadId, 1, { body: 'x', headers: keyHeaders(CUSTOMER_KEY) })
    assert.equal(
      headerOf(answer, 'x-obj-server-side-encryption-customer-key-md5'),
      md5(CUSTOMER_KEY).toString('base64'),
    )
    for (const [id, headers, code, message] of [
      [uploadId, {}, 'InvalidRequest', /must include the appropriate encryption parameters/],
      [uploadId, keyHeaders(OTHER_KEY), 'AccessDenied', /did not match the ones used originally/],
      [plainId, keyHeaders(CUSTOMER_KEY), 'InvalidRequest', /did not request encryption/],
    ] as const) {
      await assert.rejects(uploads.part('k', id, 1, { body: 'x', headers }), { code, message })
    }
  })

  it('whose upload ends while it comes is refused, and leaves nothing', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    const part = uploads.part('k', uploadId, 1, { body: 'x' })
    const aborted = uploads.abort('k', uploadId)
    await assert.rejects(part, { code: 'NoSuchUpload' })
    await aborted
    uploads.gateway.assertClean()
  })
})
