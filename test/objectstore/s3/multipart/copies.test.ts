import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { copyBody } from '../../../../src/objectstore/s3/objects/copy-body.ts'
import type { ByteSource } from '../../../../src/objectstore/operations.ts'
import { refuse } from '../../../../src/objectstore/refusals.ts'
import { headerOf } from '../../../support/object-handlers.ts'
import { MemoryStore } from '../../../support/memory-store.ts'
import { elementOf, TestUploads, textOf } from './support.ts'

const SOURCE = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251))

async function withSource(): Promise<{ uploads: TestUploads; uploadId: string }> {
  const uploads = await TestUploads.open()
  await uploads.gateway.put('from/ä b', SOURCE)
  return { uploads, uploadId: await uploads.begin('to') }
}

describe('a part that is copied', () => {
  it('has the bytes of its source, the whole or a range', async () => {
    for (const [range, from, to] of [
      [undefined, 0, SOURCE.length],
      ['bytes=100000-250000', 100_000, 250_001],
      ['bytes=0-0', 0, 1],
      ['bytes=299999-299999', 299_999, 300_000],
    ] as const) {
      const { uploads, uploadId } = await withSource()
      const headers: Record<string, string> = range === undefined ? {} : { 'x-amz-copy-source-range': range }
      const answer = await uploads.partCopy('to', uploadId, '/photos/from/%C3%A4%20b', headers)
      const bytes = SOURCE.subarray(from, to)
      const etag = createHash('md5').update(bytes).digest('hex')
      assert.equal(answer.status, 200)
      assert.match(textOf(answer), /<CopyPartResult /)
      assert.equal(elementOf(answer, 'ETag'), `&quot;${etag}&quot;`)
      assert.equal(elementOf(answer, 'LastModified'), '2026-11-20T09:30:05.250Z')
      assert.equal(headerOf(answer, 'x-obj-copy-source'), 'photos/from/%C3%A4%20b')
      assert.equal(headerOf(answer, 'x-obj-durability'), 'synced')
      assert.deepEqual(uploads.gateway.asked, ['s3:GetObject photos/from/ä b alice'])
      await uploads.complete('to', uploadId, [{ partNumber: 1, etag }])
      assert.deepEqual(await uploads.read('to'), bytes)
      uploads.gateway.assertClean()
    }
  })

  it('shows the checksum that was chosen', async () => {
    const { uploads } = await withSource()
    const uploadId = await uploads.begin('to', { 'x-amz-checksum-algorithm': 'SHA256' })
    const answer = await uploads.partCopy('to', uploadId, 'photos/from/ä b')
    assert.equal(elementOf(answer, 'ChecksumSHA256'), createHash('sha256').update(SOURCE).digest('base64'))
  })

  it('is refused with a range that is none, or not within the source', async () => {
    const { uploads, uploadId } = await withSource()
    const copy = (range: string) =>
      uploads.partCopy('to', uploadId, 'photos/from/ä b', { 'x-amz-copy-source-range': range })
    for (const range of ['bytes=5-', 'bytes=-5', 'bytes=2-1', 'bytes=0-1,3-4', '0-1', 'bytes= 0-1', '']) {
      await assert.rejects(copy(range), {
        code: 'InvalidArgument',
        message: /must be of the form bytes=first-last/,
        fields: { ArgumentName: 'x-amz-copy-source-range', ArgumentValue: range },
      })
    }
    await assert.rejects(copy('bytes=0-300000'), {
      code: 'InvalidArgument',
      message: 'Range specified is not valid for source object of size: 300000',
    })
  })

  it('is refused without a source that the caller may read', async () => {
    const { uploads, uploadId } = await withSource()
    const refused = (source: string, code: string): Promise<void> =>
      assert.rejects(uploads.partCopy('to', uploadId, source), { code })
    await refused('photos/nothing', 'NoSuchKey')
    await refused('nothing/from', 'NoSuchBucket')
    await refused('photos', 'InvalidArgument')
    await refused('photos/', 'InvalidArgument')
    await refused('/', 'InvalidArgument')
    await refused('photos/%E4', 'InvalidArgument')
    await refused(`photos/${'k'.repeat(1025)}`, 'KeyTooLongError')
    await refused(`photos/${'%C3%A4'.repeat(512)}`, 'NoSuchKey')
    await refused(`photos/${'%C3%A4'.repeat(512)}k`, 'KeyTooLongError')
    await refused('photos/from/%C3%A4%20b?versionId=ver-1', 'NotImplemented')
    assert.equal((await uploads.partCopy('to', uploadId, 'photos/from/%C3%A4%20b?versionId=null')).status, 200)
    uploads.gateway.refused.add('s3:GetObject')
    await refused('photos/from/%C3%A4%20b', 'AccessDenied')
  })

  it('is refused when its source is not as the request wants it', async () => {
    const { uploads, uploadId } = await withSource()
    const headers = { 'x-amz-copy-source-if-match': '"x"' }
    await assert.rejects(uploads.partCopy('to', uploadId, 'photos/from/ä b', headers), {
      code: 'PreconditionFailed',
    })
  })

  it('is refused when its source is of another owner than the request expects', async () => {
    const { uploads, uploadId } = await withSource()
    const copy = (owner: string) =>
      uploads.partCopy('to', uploadId, 'photos/from/ä b', { 'x-obj-source-expected-bucket-owner': owner })
    await assert.rejects(copy('bob'), { code: 'AccessDenied', status: 403 })
    assert.equal((await copy('alice')).status, 200)
  })

  it('whose upload ends while it is copied is refused, and leaves nothing', async () => {
    const { uploads, uploadId } = await withSource()
    const copy = uploads.partCopy('to', uploadId, 'photos/from/ä b')
    const aborted = uploads.abort('to', uploadId)
    await assert.rejects(copy, { code: 'NoSuchUpload' })
    await aborted
    uploads.gateway.assertClean()
  })
})

describe('the copying of a body', () => {
  it('ends both when what is read is damaged', async () => {
    const store = new MemoryStore()
    const bucket = await store.createBucket('photos', 'alice')
    const writer = store.receive(null, { checksums: [], sha256: false }, { bucket, key: 'k', upload: null })
    let [pieces, closed] = [0, 0]
    const source: ByteSource = {
      next: async () => {
        if (pieces++ === 0) return Buffer.from('sound')
        throw refuse('InternalError')
      },
      close: () => void closed++,
    }
    await assert.rejects(copyBody(source, writer), { code: 'InternalError' })
    assert.equal(closed, 1)
    assert.equal(store.open.bodies, 0)
  })
})
