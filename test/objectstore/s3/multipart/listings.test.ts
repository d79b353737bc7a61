import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { uploadPage } from '../../../../src/objectstore/s3/multipart/upload-page.ts'
import type { UploadPageOptions } from '../../../../src/objectstore/s3/multipart/upload-page.ts'
import type { Upload } from '../../../../src/objectstore/operations.ts'
import { headerOf } from '../../../support/object-handlers.ts'
import { elementOf, elementsOf, TestUploads, textOf } from './support.ts'

describe('a listing of parts', () => {
  it('is in the order of their numbers, with all that is known of them', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k', {
      'x-amz-checksum-algorithm': 'CRC32',
      'x-amz-checksum-type': 'FULL_OBJECT',
    })
    const crc = { 'x-amz-checksum-crc32': 'AAAAAA==' }
    for (const partNumber of [7, 2]) await uploads.part('k', uploadId, partNumber, { body: '', headers: crc })
    const answer = await uploads.parts('k', uploadId)
    assert.equal(answer.status, 200)
    assert.equal(headerOf(answer, 'x-obj-upload-id'), uploadId)
    assert.deepEqual(elementsOf(answer, 'PartNumber'), ['2', '7'])
    assert.deepEqual(elementsOf(answer, 'Size'), ['0', '0'])
    assert.deepEqual(elementsOf(answer, 'ChecksumCRC32'), ['AAAAAA==', 'AAAAAA=='])
    assert.equal(elementOf(answer, 'ChecksumAlgorithm'), 'CRC32')
    assert.equal(elementOf(answer, 'ChecksumType'), 'FULL_OBJECT')
    assert.equal(elementOf(answer, 'IsTruncated'), 'false')
    assert.equal(elementOf(answer, 'NextPartNumberMarker'), '7')
    assert.match(textOf(answer), /<Initiator><ID>alice<\/ID>.*<Owner><ID>alice<\/ID>/)
  })

  it('comes in pages', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    for (const partNumber of [1, 2, 5, 9]) await uploads.send('k', uploadId, partNumber, 'x')
    const page = async (query: Record<string, string>): Promise<string[]> => {
      const answer = await uploads.parts('k', uploadId, query)
      return [...elementsOf(answer, 'PartNumber'), elementOf(answer, 'IsTruncated'), elementOf(answer, 'MaxParts')]
    }
    assert.deepEqual(await page({ 'max-parts': '2' }), ['1', '2', 'true', '2'])
    assert.deepEqual(await page({ 'max-parts': '2', 'part-number-marker': '2' }), ['5', '9', 'false', '2'])
    assert.deepEqual(await page({ 'max-parts': '0' }), ['false', '0'])
    assert.deepEqual(await page({ 'max-parts': '', 'part-number-marker': '' }), ['1', '2', '5', '9', 'false', '1000'])
    assert.deepEqual(await page({ 'max-parts': '5000', 'part-number-marker': '9' }), ['false', '1000'])
  })

  it('is refused with bounds that are no numbers', async () => {
    const uploads = await TestUploads.open()
    const uploadId = await uploads.begin('k')
    for (const name of ['max-parts', 'part-number-marker']) {
      for (const value of ['-1', 'x', '2147483648', '1e3']) {
        const fields = { ArgumentName: name, ArgumentValue: value }
        await assert.rejects(uploads.parts('k', uploadId, { [name]: value }), { code: 'InvalidArgument', fields })
      }
    }
  })
})

describe('a listing of uploads', () => {
  it('has those of the bucket by key, then by when they began', async () => {
    const uploads = await TestUploads.open()
    const later = await uploads.begin('b')
    const first = await uploads.begin('a')
    const latest = await uploads.begin('b')
    const answer = await uploads.uploads()
    assert.deepEqual(elementsOf(answer, 'UploadId'), [first, later, latest])
    assert.deepEqual(elementsOf(answer, 'Key'), ['a', 'b', 'b'])
    assert.equal(elementOf(answer, 'NextKeyMarker'), 'b')
    assert.equal(elementOf(answer, 'NextUploadIdMarker'), latest)
    assert.equal(elementOf(answer, 'MaxUploads'), '1000')
    assert.equal(elementOf(answer, 'Initiated'), '2026-11-20T09:30:05.250Z')
    assert.doesNotMatch(textOf(answer), /ChecksumAlgorithm/)
  })

  it('goes on behind the markers, and from the begin of the key when their upload is gone', async () => {
    const uploads = await TestUploads.open()
    const ids = [await uploads.begin('k'), await uploads.begin('k'), await uploads.begin('l')]
    const listed = async (query: Record<string, string>) => elementsOf(await uploads.uploads(query), 'UploadId')
    assert.deepEqual(await listed({ 'key-marker': 'k' }), [ids[2]])
    assert.deepEqual(await listed({ 'key-marker': 'k', 'upload-id-marker': ids[0]! }), [ids[1], ids[2]])
    assert.deepEqual(await listed({ 'upload-id-marker': ids[0]! }), ids)
    await uploads.abort('k', ids[0]!)
    assert.deepEqual(await listed({ 'key-marker': 'k', 'upload-id-marker': ids[0]! }), [ids[1], ids[2]])
  })

  it('gathers keys up to a delimiter', async () => {
    const uploads = await TestUploads.open()
    for (const key of ['a/1', 'a/2', 'b', 'c/1']) await uploads.begin(key)
    const answer = await uploads.uploads({ delimiter: '/', 'max-uploads': '2' })
    assert.deepEqual(elementsOf(answer, 'Key'), ['b'])
    assert.match(textOf(answer), /<CommonPrefixes><Prefix>a\/<\/Prefix><\/CommonPrefixes>/)
    assert.equal(elementOf(answer, 'IsTruncated'), 'true')
  })

  it('names keys as the request wants them named', async () => {
    const uploads = await TestUploads.open()
    await uploads.begin('a b/\u0001')
    assert.equal(elementOf(await uploads.uploads({ 'encoding-type': 'url' }), 'Key'), 'a%20b/%01')
    await assert.rejects(uploads.uploads({ 'encoding-type': 'hex' }), {
      code: 'InvalidArgument',
      message: 'Invalid Encoding Method specified in Request',
    })
    await assert.rejects(uploads.uploads({ 'max-uploads': '-1' }), { code: 'InvalidArgument' })
  })
})

const keys = fc.array(
  fc.string({ unit: fc.constantFrom('a', 'b', '/', 'ä', '\u{1f600}', '\uffee'), minLength: 1, maxLength: 4 }),
  {
    maxLength: 12,
  },
)
const texts = fc.string({ unit: fc.constantFrom('a', '/', 'ä'), maxLength: 2 })

/** Like `ObjectStore.uploads`, for these uploads. */
const fromOf = (all: readonly Upload[], looked: () => void = () => {}) =>
  function* (from: Buffer, behind: string | null): Generator<Upload> {
    const at = all.findIndex(({ key, uploadId }) => key === from.toString() && uploadId === behind)
    const rest = at < 0 ? all.filter(({ key }) => from.compare(Buffer.from(key)) <= 0) : all.slice(at + 1)
    for (const upload of rest) {
      looked()
      yield upload
    }
  }

test('a page looks at no more uploads than it has entries, and one', () => {
  const all = Array.from({ length: 3000 }, (_, i) => {
    const key = `${String.fromCharCode(97 + Math.floor(i / 1000))}/${String(i).padStart(4, '0')}`
    return { key, uploadId: `u${i}` } as Upload
  })
  const looksFor = (options: Partial<UploadPageOptions>): number => {
    let looks = 0
    const asked = { prefix: '', delimiter: '', keyMarker: '', uploadIdMarker: '', max: 1000, ...options }
    uploadPage(
      fromOf(all, () => void looks++),
      asked,
    )
    return looks
  }
  assert.equal(looksFor({ max: 1 }), 2)
  assert.equal(looksFor({ max: 1, prefix: 'b/', keyMarker: 'b/1500', uploadIdMarker: 'u1500' }), 2)
  assert.equal(looksFor({ delimiter: '/' }), 3)
  assert.equal(looksFor({ delimiter: '/', keyMarker: 'a/' }), 3)
  assert.equal(looksFor({ prefix: 'd' }), 0)
})

test('pages one behind the other have every upload once, and every common prefix once', () => {
  fc.assert(
    fc.property(keys, texts, texts, fc.integer({ min: 1, max: 4 }), (names, prefix, delimiter, max) => {
      const all = names
        .toSorted((a, b) => Buffer.from(a).compare(Buffer.from(b)))
        .map((key, i) => ({ key, uploadId: `u${i}` }) as Upload) // the listing reads nothing else
      const expected = new Set<string>()
      for (const { key, uploadId } of all) {
        if (!key.startsWith(prefix)) continue
        const at = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
        expected.add(at < 0 ? uploadId : `prefix ${key.slice(0, at + delimiter.length)}`)
      }

      const listed: string[] = []
      let markers = { keyMarker: '', uploadIdMarker: '' }
      for (let pages = 0; ; pages++) {
        assert(pages <= all.length)
        const options: UploadPageOptions = { prefix, delimiter, max, ...markers }
        const page = uploadPage(fromOf(all), options)
        assert(page.uploads.length + page.commonPrefixes.length <= max)
        listed.push(
          ...page.uploads.map(({ uploadId }) => uploadId),
          ...page.commonPrefixes.map((each) => `prefix ${each}`),
        )
        if (!page.isTruncated) break
        markers = { keyMarker: page.nextKeyMarker, uploadIdMarker: page.nextUploadIdMarker }
      }
      assert.deepEqual(listed.toSorted(), [...expected].toSorted())
    }),
  )
})
