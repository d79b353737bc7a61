/** Every XML answer of the gateway has the elements of S3, in its order. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { renderBucketListing, renderLocation } from '../../../src/objectstore/s3/buckets/bucket-answers.ts'
import { renderError } from '../../../src/objectstore/s3/error-answer.ts'
import {
  renderCompletedUpload,
  renderInitiatedUpload,
  renderPartListing,
  renderUploadListing,
} from '../../../src/objectstore/s3/multipart/multipart-answers.ts'
import {
  renderCopyObject,
  renderCopyPart,
  renderDeleteResult,
  renderPostResponse,
} from '../../../src/objectstore/s3/objects/object-answers.ts'
import { renderObjectListing, renderObjectListingV1 } from '../../../src/objectstore/s3/buckets/object-listing.ts'
import type { ListedObject, ObjectListing } from '../../../src/objectstore/s3/buckets/object-listing.ts'
import { refuse } from '../../../src/objectstore/refusals.ts'
import { anyText, parseTree, plain, xmlText } from '../../support/documents.ts'
import type { Plain } from '../../support/documents.ts'

const whole = (pieces: Iterable<string>): string => Array.from(pieces).join('')

const TIME_MS = Date.UTC(2026, 10, 20, 9, 30, 5, 250)
const TIME = '2026-11-20T09:30:05.250Z'
const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/'
const OWNER: Plain = [
  ['ID', 'local'],
  ['DisplayName', 'local'],
]
const CHECKSUMS = [{ algorithm: 'CRC32C', value: 'AAAAAA==-2', type: 'COMPOSITE' }] as const

/** @param namespace null: S3 sends this answer without a namespace */
function assertAnswer(xml: string, root: string, expected: Plain, namespace: string | null = NAMESPACE): void {
  assert.ok(xml.startsWith('<?xml version="1.0" encoding="UTF-8"?>\n'))
  const tree = parseTree(xml)
  assert.deepEqual([tree.name, tree.namespace], [root, namespace])
  assert.deepEqual(plain(tree), expected)
}

describe('answers about buckets', () => {
  it('ListBuckets', () => {
    const buckets = [
      { name: 'one', createdMs: TIME_MS, region: null },
      { name: 'two', createdMs: TIME_MS, region: 'us-east-1' },
    ]
    assertAnswer(
      renderBucketListing({ owner: 'local', buckets, continuationToken: null, prefix: null }),
      'ListAllMyBucketsResult',
      [
        ['Owner', OWNER],
        [
          'Buckets',
          [
            [
              'Bucket',
              [
                ['Name', 'one'],
                ['CreationDate', TIME],
              ],
            ],
            [
              'Bucket',
              [
                ['Name', 'two'],
                ['CreationDate', TIME],
                ['BucketRegion', 'us-east-1'],
              ],
            ],
          ],
        ],
      ],
    )
    const page = { owner: 'local', buckets: [], continuationToken: 't', prefix: 'a&' }
    assertAnswer(renderBucketListing(page), 'ListAllMyBucketsResult', [
      ['Owner', OWNER],
      ['Buckets', ''],
      ['ContinuationToken', 't'],
      ['Prefix', 'a&'],
    ])
  })

  it('GetBucketLocation, which has no text for us-east-1', () => {
    assertAnswer(renderLocation('us-east-1'), 'LocationConstraint', '')
    assertAnswer(renderLocation('eu-west-1'), 'LocationConstraint', 'eu-west-1')
  })
})

const LISTED: ListedObject = {
  key: 'a/b',
  lastModifiedMs: TIME_MS,
  etag: 'e1-2',
  size: 5,
  checksumAlgorithms: [],
  checksumType: null,
  storageClass: 'STANDARD',
}

const PAGE: ObjectListing = {
  bucket: 'one',
  prefix: '',
  delimiter: null,
  maxKeys: 1000,
  isTruncated: false,
  urlEncoded: false,
  contents: [],
  commonPrefixes: [],
  owner: null,
  continuationToken: null,
  nextContinuationToken: null,
  startAfter: null,
}

describe('a listing of objects', () => {
  it('is empty but for what was asked', () => {
    assertAnswer(whole(renderObjectListing({ ...PAGE, delimiter: '' })), 'ListBucketResult', [
      ['Name', 'one'],
      ['Prefix', ''],
      ['KeyCount', '0'],
      ['MaxKeys', '1000'],
      ['IsTruncated', 'false'],
    ])
  })

  it('has objects, then common prefixes, and says how to go on', () => {
    const page: ObjectListing = {
      ...PAGE,
      prefix: 'a',
      delimiter: '/',
      maxKeys: 3,
      isTruncated: true,
      contents: [LISTED, { ...LISTED, key: 'b', checksumAlgorithms: ['CRC64NVME'], checksumType: 'FULL_OBJECT' }],
      commonPrefixes: ['a/x/'],
      owner: 'local',
      continuationToken: '',
      nextContinuationToken: 'next',
      startAfter: 'a',
    }
    assertAnswer(whole(renderObjectListing(page)), 'ListBucketResult', [
      ['Name', 'one'],
      ['Prefix', 'a'],
      ['Delimiter', '/'],
      ['KeyCount', '3'],
      ['ContinuationToken', ''],
      ['NextContinuationToken', 'next'],
      ['StartAfter', 'a'],
      ['MaxKeys', '3'],
      ['IsTruncated', 'true'],
      [
        'Contents',
        [
          ['Key', 'a/b'],
          ['LastModified', TIME],
          ['ETag', '"e1-2"'],
          ['Owner', OWNER],
          ['Size', '5'],
          ['StorageClass', 'STANDARD'],
        ],
      ],
      [
        'Contents',
        [
          ['Key', 'b'],
          ['LastModified', TIME],
          ['ETag', '"e1-2"'],
          ['ChecksumAlgorithm', 'CRC64NVME'],
          ['ChecksumType', 'FULL_OBJECT'],
          ['Owner', OWNER],
          ['Size', '5'],
          ['StorageClass', 'STANDARD'],
        ],
      ],
      ['CommonPrefixes', [['Prefix', 'a/x/']]],
    ])
  })

  it('is URL-encoded when that was asked, the token is not', () => {
    const page = {
      ...PAGE,
      prefix: 'p +',
      delimiter: '+',
      urlEncoded: true,
      contents: [{ ...LISTED, key: 'k\u0001&' }],
      commonPrefixes: ['p +'],
      nextContinuationToken: 'a+b',
      startAfter: ' ',
    }
    const answer = plain(parseTree(whole(renderObjectListing(page)))) as readonly (readonly [string, Plain])[]
    const of = (name: string): Plain => answer.find(([each]) => each === name)![1]
    assert.deepEqual(['Prefix', 'Delimiter', 'StartAfter', 'NextContinuationToken', 'EncodingType'].map(of), [
      'p%20%2B',
      '%2B',
      '%20',
      'a+b',
      'url',
    ])
    assert.deepEqual(of('Contents').at(0), ['Key', 'k%01%26'])
    assert.deepEqual(of('CommonPrefixes'), [['Prefix', 'p%20%2B']])
  })

  it('of version 1 has markers in place of tokens', () => {
    const { continuationToken: _1, nextContinuationToken: _2, startAfter: _3, ...common } = PAGE
    assertAnswer(
      whole(renderObjectListingV1({ ...common, delimiter: '/', isTruncated: true, marker: '', nextMarker: 'b' })),
      'ListBucketResult',
      [
        ['Name', 'one'],
        ['Prefix', ''],
        ['Delimiter', '/'],
        ['Marker', ''],
        ['NextMarker', 'b'],
        ['MaxKeys', '1000'],
        ['IsTruncated', 'true'],
      ],
    )
  })

  it('carries every key, exactly when it is URL-encoded', () => {
    fc.assert(
      fc.property(fc.array(anyText), fc.array(xmlText), fc.boolean(), (odd, keys, urlEncoded) => {
        const listed = urlEncoded ? [...odd, ...keys] : keys
        const contents = listed.map((key) => ({ ...LISTED, key }))
        const { children } = parseTree(whole(renderObjectListing({ ...PAGE, contents, urlEncoded })))
        const found = children.filter(({ name }) => name === 'Contents').map((each) => each.children[0]!.text)
        assert.deepEqual(urlEncoded ? found.map(decodeURIComponent) : found, listed)
      }),
    )
  })
})

describe('answers about objects', () => {
  it('CopyObject and UploadPartCopy', () => {
    const copy = { etag: 'e', lastModifiedMs: TIME_MS, checksums: CHECKSUMS }
    const expected: Plain = [
      ['LastModified', TIME],
      ['ETag', '"e"'],
      ['ChecksumCRC32C', 'AAAAAA==-2'],
      ['ChecksumType', 'COMPOSITE'],
    ]
    assertAnswer(renderCopyObject(copy), 'CopyObjectResult', expected)
    assertAnswer(renderCopyPart(copy), 'CopyPartResult', expected)
    assertAnswer(renderCopyObject({ ...copy, checksums: [] }), 'CopyObjectResult', expected.slice(0, 2))
  })

  it('DeleteObjects', () => {
    const deleted = [
      { key: 'a&b', versionId: null, deleteMarker: true, deleteMarkerVersionId: 'v1' },
      { key: 'c', versionId: 'null', deleteMarker: false, deleteMarkerVersionId: null },
    ]
    const failures = [{ key: 'd', versionId: null, refusal: refuse('AccessDenied') }]
    assertAnswer(renderDeleteResult(deleted, failures), 'DeleteResult', [
      [
        'Deleted',
        [
          ['Key', 'a&b'],
          ['DeleteMarker', 'true'],
          ['DeleteMarkerVersionId', 'v1'],
        ],
      ],
      [
        'Deleted',
        [
          ['Key', 'c'],
          ['VersionId', 'null'],
        ],
      ],
      [
        'Error',
        [
          ['Key', 'd'],
          ['Code', 'AccessDenied'],
          ['Message', 'Access Denied'],
        ],
      ],
    ])
    assertAnswer(renderDeleteResult([], []), 'DeleteResult', '')
  })

  it('PostObject, without a namespace', () => {
    const posted = { location: 'http://127.0.0.1:9000/one/a%20b', bucket: 'one', key: 'a b', etag: 'e' }
    assertAnswer(
      renderPostResponse(posted),
      'PostResponse',
      [
        ['Location', posted.location],
        ['Bucket', 'one'],
        ['Key', 'a b'],
        ['ETag', '"e"'],
      ],
      null,
    )
  })

  it('a refusal, with its fields before the ids', () => {
    const refusal = refuse('InvalidPart', undefined, { fields: { UploadId: 'u<', PartNumber: 3 } })
    assertAnswer(
      renderError(refusal, { resource: '/one/a&b', requestId: 'objreq-1', hostId: 'node' }),
      'Error',
      [
        ['Code', 'InvalidPart'],
        ['Message', refusal.message],
        ['UploadId', 'u<'],
        ['PartNumber', '3'],
        ['Resource', '/one/a&b'],
        ['RequestId', 'objreq-1'],
        ['HostId', 'node'],
      ],
      null,
    )
  })
})

describe('answers about multipart uploads', () => {
  const NAME = { bucket: 'one', key: 'a b&', uploadId: 'u-1' }
  const NAMED: readonly (readonly [string, Plain])[] = [
    ['Bucket', 'one'],
    ['Key', 'a b&'],
    ['UploadId', 'u-1'],
  ]

  it('CreateMultipartUpload', () => {
    assertAnswer(renderInitiatedUpload(NAME), 'InitiateMultipartUploadResult', NAMED)
  })

  it('CompleteMultipartUpload', () => {
    const upload = { location: 'http://h/one/a', bucket: 'one', key: 'a', etag: 'e-2', checksums: CHECKSUMS }
    assertAnswer(renderCompletedUpload(upload), 'CompleteMultipartUploadResult', [
      ['Location', 'http://h/one/a'],
      ['Bucket', 'one'],
      ['Key', 'a'],
      ['ETag', '"e-2"'],
      ['ChecksumCRC32C', 'AAAAAA==-2'],
      ['ChecksumType', 'COMPOSITE'],
    ])
  })

  it('ListParts, whose next marker is the last part, 0 without parts', () => {
    const page = {
      ...NAME,
      initiator: 'local',
      owner: 'local',
      partNumberMarker: 1,
      maxParts: 1000,
      isTruncated: false,
      checksumAlgorithm: 'SHA256',
      checksumType: 'COMPOSITE',
      storageClass: 'STANDARD_IA',
      parts: [],
    } as const
    const head = (nextMarker: string): (readonly [string, Plain])[] => [
      ...NAMED,
      ['PartNumberMarker', '1'],
      ['NextPartNumberMarker', nextMarker],
      ['MaxParts', '1000'],
      ['IsTruncated', 'false'],
      ['Initiator', OWNER],
      ['Owner', OWNER],
      ['StorageClass', 'STANDARD_IA'],
      ['ChecksumAlgorithm', 'SHA256'],
      ['ChecksumType', 'COMPOSITE'],
    ]
    assertAnswer(renderPartListing(page), 'ListPartsResult', head('0'))
    const checksums = [{ algorithm: 'SHA256', value: 'AA==' }] as const
    const part = { partNumber: 7, lastModifiedMs: TIME_MS, etag: 'p7', size: 5, checksums }
    assertAnswer(renderPartListing({ ...page, parts: [part] }), 'ListPartsResult', [
      ...head('7'),
      [
        'Part',
        [
          ['PartNumber', '7'],
          ['LastModified', TIME],
          ['ETag', '"p7"'],
          ['Size', '5'],
          ['ChecksumSHA256', 'AA=='],
        ],
      ],
    ])
  })

  it('ListMultipartUploads', () => {
    const page = {
      bucket: 'one',
      keyMarker: '',
      uploadIdMarker: '',
      nextKeyMarker: 'a+',
      nextUploadIdMarker: 'u-1',
      prefix: '',
      delimiter: '/',
      maxUploads: 1000,
      isTruncated: false,
      urlEncoded: true,
      uploads: [
        {
          key: 'a+',
          uploadId: 'u-1',
          initiator: 'local',
          owner: 'local',
          initiatedMs: TIME_MS,
          checksumAlgorithm: 'CRC32',
          checksumType: 'FULL_OBJECT',
          storageClass: 'GLACIER_IR',
        },
      ],
      commonPrefixes: ['b+/'],
    } as const
    assertAnswer(renderUploadListing(page), 'ListMultipartUploadsResult', [
      ['Bucket', 'one'],
      ['KeyMarker', ''],
      ['UploadIdMarker', ''],
      ['NextKeyMarker', 'a%2B'],
      ['NextUploadIdMarker', 'u-1'],
      ['Delimiter', '/'],
      ['EncodingType', 'url'],
      ['MaxUploads', '1000'],
      ['IsTruncated', 'false'],
      [
        'Upload',
        [
          ['Key', 'a%2B'],
          ['UploadId', 'u-1'],
          ['Initiator', OWNER],
          ['Owner', OWNER],
          ['StorageClass', 'GLACIER_IR'],
          ['Initiated', TIME],
          ['ChecksumAlgorithm', 'CRC32'],
          ['ChecksumType', 'FULL_OBJECT'],
        ],
      ],
      ['CommonPrefixes', [['Prefix', 'b%2B/']]],
    ])
  })
})
