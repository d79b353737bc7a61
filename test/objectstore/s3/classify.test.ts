import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Addressing } from '../../../src/objectstore/s3/addressing.ts'
import { classify } from '../../../src/objectstore/s3/classify.ts'
import { EXTENSIONS, OPERATIONS } from '../../../src/objectstore/s3/operations-table.ts'
import type { Extension } from '../../../src/objectstore/s3/operations-table.ts'

const addressing = new Addressing('s3.local')

function classified(
  line: string,
  headers: Record<string, string> = {},
  extensions: readonly Extension[] = [],
): ReturnType<typeof classify> {
  const [method = '', target = ''] = line.split(' ')
  const at = target.indexOf('?')
  const [path, query] = at < 0 ? [target, ''] : [target.slice(0, at), target.slice(at + 1)]
  const all = new Map(Object.entries({ host: 'localhost', ...headers }))
  return classify({ method, path, query, headers: all, isSecure: false }, addressing, new Set(extensions))
}

const COPY = { 'x-obj-copy-source': '/from/key' }

/** The query of a pre-signed URL, in the form of most signers. */
const PRESIGNED =
  'X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=KEY%2F20261124%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20261124T000000Z' +
  `&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=${'a'.repeat(64)}`

const SHAPES: readonly (readonly [line: string, operation: string, headers?: Record<string, string>])[] = [
  ['GET /', 'ListBuckets'],
  ['GET /?prefix=a&max-buckets=3', 'ListBuckets'],
  ['PUT /bkt', 'CreateBucket'],
  ['PUT /bkt/', 'CreateBucket'],
  ['HEAD /bkt', 'HeadBucket'],
  ['GET /bkt?location', 'GetBucketLocation'],
  ['GET /bkt/?location=', 'GetBucketLocation'],
  ['DELETE /bkt', 'DeleteBucket'],
  ['PUT /bkt?cors', 'PutBucketCors'],
  ['GET /bkt?cors', 'GetBucketCors'],
  ['DELETE /bkt?cors', 'DeleteBucketCors'],
  ['PUT /bkt?policy', 'PutBucketPolicy'],
  ['GET /bkt?policy', 'GetBucketPolicy'],
  ['DELETE /bkt?policy', 'DeleteBucketPolicy'],
  ['OPTIONS /bkt', 'CorsPreflight'],
  ['OPTIONS /bkt/key', 'CorsPreflight'],
  ['OPTIONS /bkt?list-type=2&uploads&acl', 'CorsPreflight'],
  ['GET /bkt?list-type=2', 'ListObjectsV2'],
  ['GET /bkt?prefix=a&list-type=2&max-keys=1&fetch-owner=true', 'ListObjectsV2'],
  ['GET /bkt?uploads', 'ListMultipartUploads'],
  ['GET /bkt?uploads&prefix=a&key-marker=b&upload-id-marker=c', 'ListMultipartUploads'],
  ['POST /bkt?delete', 'DeleteObjects'],
  ['POST /bkt', 'PostObject'],
  ['PUT /bkt/key', 'PutObject'],
  ['PUT /bkt/key?x-id=PutObject', 'PutObject'],
  ['PUT /bkt/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=1', 'PutObject'],
  ['GET /bkt/key', 'GetObject'],
  [`GET /bkt/key?${PRESIGNED}`, 'GetObject'],
  [`GET /bkt/key?${PRESIGNED}&tagging`, 'GetObjectTagging'],
  [`GET /bkt/key?tagging&${PRESIGNED}`, 'GetObjectTagging'],
  [`PUT /bkt?${PRESIGNED}`, 'CreateBucket'],
  ['GET /bkt/key?partNumber=2', 'GetObject'],
  ['GET /bkt/key?response-content-type=a/b&cache-buster=7', 'GetObject'],
  ['HEAD /bkt/key', 'HeadObject'],
  ['HEAD /bkt/key?partNumber=2', 'HeadObject'],
  ['DELETE /bkt/key', 'DeleteObject'],
  ['PUT /bkt/key', 'CopyObject', COPY],
  ['PUT /bkt/key', 'CopyObject', { 'x-amz-copy-source': 'from/key' }],
  ['GET /bkt/key?tagging', 'GetObjectTagging'],
  ['PUT /bkt/key?tagging', 'PutObjectTagging'],
  ['PUT /bkt/key?tagging', 'PutObjectTagging', COPY],
  ['DELETE /bkt/key?tagging', 'DeleteObjectTagging'],
  ['POST /bkt/key?uploads', 'CreateMultipartUpload'],
  ['PUT /bkt/key?partNumber=1&uploadId=u', 'UploadPart'],
  ['PUT /bkt/key?uploadId=u&partNumber=1', 'UploadPartCopy', COPY],
  ['POST /bkt/key?uploadId=u', 'CompleteMultipartUpload'],
  ['DELETE /bkt/key?uploadId=u', 'AbortMultipartUpload'],
  ['GET /bkt/key?uploadId=u', 'ListParts'],
  ['GET /bkt/key?uploadId=u&max-parts=2&part-number-marker=1', 'ListParts'],
]

const OUTSIDE = [
  'GET /bkt', // ListObjects version 1
  'GET /bkt?prefix=a',
  'GET /bkt?list-type=1',
  'GET /bkt?list-type=2&versions',
  'GET /bkt?versioning',
  'PUT /bkt?versioning',
  'GET /bkt?acl',
  'PUT /bkt?lifecycle',
  'GET /bkt?tagging',
  'GET /bkt?object-lock',
  'GET /bkt?website',
  'DELETE /bkt?delete',
  'HEAD /bkt?location',
  'POST /bkt?restore',
  'GET /bkt/key?acl',
  `GET /bkt/key?${PRESIGNED}&acl`,
  `GET /bkt?${PRESIGNED}`,
  'GET /bkt/key?versionId=3',
  'GET /bkt/key?uploads',
  'GET /bkt/key?uploadId=u&partNumber=1',
  'GET /bkt/key?cors',
  'PUT /bkt/key?partNumber=1',
  'PUT /bkt/key?uploadId=u',
  'PUT /bkt/key?retention',
  'POST /bkt/key',
  'POST /bkt/key?select&select-type=2',
  'DELETE /bkt/key?versionId=3',
  'GET /bkt/key?versionId',
  'GET /bkt/key?tagging&versionId=ver-000000000001',
  'PUT /bkt/key?versionId=null',
  'POST /bkt/key?uploads&versionId=null',
  'GET /bkt?versionId=null',
  'POST /',
  'PUT /',
  'HEAD /',
  'OPTIONS /',
  'PATCH /bkt/key',
  'TRACE /bkt',
]

/** Requests for version `null`, the only one there is, wherever S3 takes a version. */
const OF_THE_ONLY_VERSION = [
  ['GET /bkt/key?versionId=null', 'GetObject'],
  ['HEAD /bkt/key?versionId=null&partNumber=1', 'HeadObject'],
  ['DELETE /bkt/key?versionId=null', 'DeleteObject'],
  ['GET /bkt/key?tagging&versionId=null', 'GetObjectTagging'],
  ['PUT /bkt/key?versionId=null&tagging', 'PutObjectTagging'],
  ['DELETE /bkt/key?tagging&versionId=null', 'DeleteObjectTagging'],
] as const

describe('a request', () => {
  for (const [line, operation] of OF_THE_ONLY_VERSION) {
    it(`${line} is ${operation}`, () => assert.equal(classified(line).operation.name, operation))
  }

  for (const [line, operation, headers] of SHAPES) {
    it(`${line}${headers ? ' with a copy source' : ''} is ${operation}`, () => {
      assert.equal(classified(line, headers).operation.name, operation)
    })
  }

  for (const line of OUTSIDE) {
    it(`${line} is not implemented`, () => {
      assert.throws(() => classified(line), { code: 'NotImplemented', status: 501 })
    })
  }

  it('for version 1 of the listing is one with the extension, and only then', () => {
    for (const line of ['GET /bkt', 'GET /bkt?marker=a&prefix=b']) {
      assert.equal(classified(line, {}, ['list-v1']).operation.name, 'ListObjects')
    }
    assert.throws(() => classified('GET /bkt?acl', {}, EXTENSIONS), { code: 'NotImplemented' })
  })

  it('that is not implemented is told what of it', () => {
    assert.throws(() => classified('GET /bkt'), /^S3Error: ListObjects needs the extension list-v1/)
    assert.throws(() => classified('GET /bkt?versioning'), /^S3Error: The parameter versioning of this operation/)
    assert.throws(() => classified('PATCH /bkt'), /^S3Error: This operation is outside/)
  })

  it('reaches every operation of the table', () => {
    const reached = new Set(SHAPES.map(([, operation]) => operation))
    assert.deepEqual(
      OPERATIONS.map(({ name }) => name).filter((name) => !reached.has(name)),
      ['ListObjects'],
    )
  })

  it('has its parameters decoded, the first of each name', () => {
    const { query } = classified('GET /bkt?list-type=2&prefix=a+b%2Bc%C3%BC&prefix=z&&delimiter=%2F&fetch-owner')
    assert.deepEqual(
      [...query],
      [
        ['list-type', '2'],
        ['prefix', 'a b+cü'],
        ['delimiter', '/'],
        ['fetch-owner', ''],
      ],
    )
  })
})

describe('the size of a request', () => {
  it('is bounded in its target, the query included', () => {
    const target = (bytes: number): string => `GET /bkt/key?x=${'a'.repeat(bytes - '/bkt/key?x='.length)}`
    assert.equal(classified(target(8192)).operation.name, 'GetObject')
    assert.throws(() => classified(target(8193)), { code: 'InvalidURI', status: 400 })
  })

  it('is bounded in all its headers together', () => {
    const given = 'host'.length + 'localhost'.length + 'x-filler'.length
    const filler = (bytes: number) => ({ 'x-filler': 'a'.repeat(bytes - given) })
    assert.equal(classified('GET /', filler(32_768)).operation.name, 'ListBuckets')
    assert.throws(() => classified('GET /', filler(32_769)), { code: 'RequestHeaderSectionTooLarge', status: 400 })
  })

  it('is bounded in the number of its parameters', () => {
    const parameters = (count: number): string => Array.from({ length: count }, (_, n) => `p${n}=1`).join('&')
    assert.equal(classified(`GET /bkt/key?${parameters(64)}`).operation.name, 'GetObject')
    assert.throws(() => classified(`GET /bkt/key?${parameters(65)}`), { code: 'InvalidURI' })
  })
})

describe('a query that is not percent-encoded UTF-8', () => {
  for (const query of ['prefix=%zz', 'prefix=%ff', '%=1', 'prefix=%C3', 'prefix=\ufffd']) {
    it(`is an invalid URI: ${query}`, () => {
      assert.throws(() => classified(`GET /bkt?list-type=2&${query}`), { code: 'InvalidURI' })
    })
  }
})
