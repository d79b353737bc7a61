/** Request bodies of DeleteObjects, CompleteMultipartUpload and CreateBucket. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CHECKSUM_ALGORITHMS } from '../../../src/objectstore/bodies/checksums.ts'
import { readCompleteRequest } from '../../../src/objectstore/s3/multipart/complete-request.ts'
import { readCreateBucketRequest } from '../../../src/objectstore/s3/buckets/create-bucket.ts'
import { readDeleteRequest } from '../../../src/objectstore/s3/objects/delete-request.ts'
import { COMPLETE_BODY_BYTES_MAX, DELETE_BODY_BYTES_MAX } from '../../../src/objectstore/s3/document-limits.ts'
import { atOnce } from '../../../src/steps.ts'
import { escapeXml } from '../../../src/objectstore/s3/xml/xml-text.ts'
import { assertRefuses, bytes, xmlText } from '../../support/documents.ts'

const S3 = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'

describe('a DeleteObjects body', () => {
  const read = (inner: string) => atOnce(readDeleteRequest(bytes(`<Delete ${S3}>${inner}</Delete>`)))

  it('names keys, versions and ETags', () => {
    const request = read(
      '<Object><Key>a/b c</Key></Object><Object><Key> </Key><VersionId>null</VersionId><ETag>"x"</ETag></Object>',
    )
    assert.deepEqual(request, {
      quiet: false,
      objects: [
        { key: 'a/b c', versionId: null, etag: null },
        { key: ' ', versionId: 'null', etag: '"x"' },
      ],
    })
  })

  it('is quiet when it says so', () => {
    const quiet = (word: string): boolean => read(`<Quiet>${word}</Quiet><Object><Key>k</Key></Object>`).quiet
    assert.deepEqual([quiet('true'), quiet('True'), quiet('1'), quiet(' true ')], [true, true, true, true])
    assert.deepEqual([quiet('false'), quiet('0')], [false, false])
    assertRefuses(() => quiet('yes'), 'MalformedXML')
    assertRefuses(() => quiet(''), 'MalformedXML')
  })

  it('has 1 to 1000 keys', () => {
    const object = '<Object><Key>k</Key></Object>'
    assert.equal(read(object.repeat(1000)).objects.length, 1000)
    assertRefuses(() => read(object.repeat(1001)), 'MalformedXML')
    assertRefuses(() => read(''), 'MalformedXML')
    assertRefuses(() => atOnce(readDeleteRequest(bytes(''))), 'MalformedXML')
  })

  it('is refused without a key, with an unknown element, and over 1 MiB', () => {
    assertRefuses(() => read('<Object><VersionId>v</VersionId></Object>'), 'MalformedXML')
    assertRefuses(() => read('<Object><Key></Key></Object>'), 'MalformedXML')
    assertRefuses(() => read('<Object><Key>k</Key><Kind>x</Kind></Object>'), 'MalformedXML')
    assertRefuses(() => atOnce(readDeleteRequest(Buffer.alloc(DELETE_BODY_BYTES_MAX + 1))), 'EntityTooLarge')
  })

  it('is not implemented with conditions on size and time', () => {
    assertRefuses(() => read('<Object><Key>k</Key><Size>1</Size></Object>'), 'NotImplemented')
    const time = '<LastModifiedTime>Wed, 21 Oct 2026 07:28:00 GMT</LastModifiedTime>'
    assertRefuses(() => read(`<Object><Key>k</Key>${time}</Object>`), 'NotImplemented')
  })

  it('gives back every key that XML can carry', () => {
    const keys = fc.array(
      xmlText.filter((key) => key !== ''),
      { minLength: 1 },
    )
    fc.assert(
      fc.property(keys, (keys) => {
        const { objects } = read(keys.map((key) => `<Object><Key>${escapeXml(key)}</Key></Object>`).join('\n'))
        assert.deepEqual(
          objects.map(({ key }) => key),
          keys,
        )
      }),
    )
  })
})

describe('a CompleteMultipartUpload body', () => {
  const read = (inner: string) =>
    atOnce(readCompleteRequest(bytes(`<CompleteMultipartUpload ${S3}>${inner}</CompleteMultipartUpload>`), 'upload-1'))
  const part = (n: number | string, more = '') =>
    `<Part><PartNumber>${n}</PartNumber><ETag>"e${n}"</ETag>${more}</Part>`

  it('names parts in order, with ETags without quotes and checksums', () => {
    const bare = '<Part><ETag>e2</ETag><PartNumber> 2 </PartNumber></Part>'
    assert.deepEqual(read(`${part(1, '<ChecksumSHA256>AA==</ChecksumSHA256>')}${bare}${part(10_000)}`), [
      { partNumber: 1, etag: 'e1', checksums: [{ algorithm: 'SHA256', value: 'AA==' }] },
      { partNumber: 2, etag: 'e2', checksums: [] },
      { partNumber: 10_000, etag: 'e10000', checksums: [] },
    ])
  })

  it('reads every checksum', () => {
    const checksums = [...CHECKSUM_ALGORITHMS]
    const elements = checksums.map((algorithm) => `<Checksum${algorithm}>v</Checksum${algorithm}>`)
    const [read1] = read(part(1, elements.join('')))
    assert.deepEqual(
      read1!.checksums.map(({ algorithm }) => algorithm),
      checksums,
    )
  })

  it('is refused without parts, and malformed without a body', () => {
    const message = 'You must specify at least one part'
    assertRefuses(() => read(''), 'InvalidRequest', { message })
    assertRefuses(() => atOnce(readCompleteRequest(bytes(''), 'upload-1')), 'MalformedXML')
  })

  it('is refused out of order, also with a part twice', () => {
    const fields = { UploadId: 'upload-1' }
    assertRefuses(() => read(part(2) + part(1)), 'InvalidPartOrder', { fields })
    assertRefuses(() => read(part(1) + part(1)), 'InvalidPartOrder', { fields })
  })

  it('is refused for part numbers out of range or that are none', () => {
    for (const n of [0, -1]) {
      assertRefuses(() => read(part(n)), 'InvalidArgument', {
        fields: { ArgumentName: 'PartNumber', ArgumentValue: n },
      })
    }
    assertRefuses(() => read(part(10_001)), 'InvalidArgument')
    for (const n of ['', 'one', '1.5', '1e3', '0x1', '9'.repeat(40)]) assertRefuses(() => read(part(n)), 'MalformedXML')
  })

  it('gives a part without an ETag one that no part has', () => {
    assert.equal(read('<Part><PartNumber>1</PartNumber></Part>')[0]!.etag, '')
  })

  it('is read in slices', () => {
    const parts = Array.from({ length: 10_000 }, (_, i) => part(i + 1, ' '.repeat(100)))
    const body = bytes(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`)
    const steps = [...readCompleteRequest(body, 'upload-1')]
    assert.ok(steps.length > 40, `${steps.length} slices`)
    assert.ok(steps.reduce((sum, each) => sum + each, 0) > body.length)
    assert.ok(steps.length > 10_000, 'each part is a slice of its own when the document is read')
  })

  it('has room for 10 000 parts, not for one more', () => {
    const sha256 = `<ChecksumSHA256>${'A'.repeat(44)}</ChecksumSHA256>`
    const parts = Array.from({ length: 10_001 }, (_, i) => part(i + 1, sha256))
    assert.equal(read(parts.slice(0, 10_000).join('\n    ')).length, 10_000)
    assertRefuses(() => read(parts.join('')), 'MalformedXML')
    assertRefuses(() => atOnce(readCompleteRequest(Buffer.alloc(COMPLETE_BODY_BYTES_MAX + 1), 'u')), 'EntityTooLarge')
  })
})

describe('a CreateBucket body', () => {
  const read = (inner: string) =>
    readCreateBucketRequest(bytes(`<CreateBucketConfiguration ${S3}>${inner}</CreateBucketConfiguration>`))

  it('may name a region', () => {
    assert.equal(read('<LocationConstraint>eu-west-1</LocationConstraint>'), 'eu-west-1')
    assert.equal(read(''), null)
    assert.equal(read('<LocationConstraint/>'), null)
    assert.equal(readCreateBucketRequest(bytes('')), null)
  })

  it('may have no tags', () => {
    assert.equal(read('<Tags/>'), null)
    assertRefuses(() => read('<Tags><Tag><Key>k</Key><Value>v</Value></Tag></Tags>'), 'NotImplemented')
  })

  it('is refused when it is something else', () => {
    assertRefuses(() => read('<Place>x</Place>'), 'MalformedXML')
    assertRefuses(() => readCreateBucketRequest(bytes('eu-west-1')), 'MalformedXML')
  })
})
