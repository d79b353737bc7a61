/** Specification "Gateway routes": every shape is served by its operation, and everything else is NotImplemented. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import type { ObjectReply } from '../../../support/objectstore.ts'
import { store } from './shared-store.ts'

const CORS =
  '<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>'
const TAGGING = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>'

const policyOf = (bucket: string): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: `arn:aws:s3:::${bucket}/*` }],
  })

/** Asserts which operation served the request. Names of handlers begin in lower case. */
function servedBy(reply: ObjectReply, operation: string, status: number): ObjectReply {
  assert.equal(reply.header('x-obj-operation'), operation, reply.text)
  assert.equal(reply.header('x-obj-handler'), operation.charAt(0).toLowerCase() + operation.slice(1))
  return reply.succeeded(status)
}

describe('gateway routes', () => {
  it('GET / is ListBuckets: those of the caller, by name', async () => {
    const headers = { 'x-obj-principal': 'lister' }
    for (const name of ['list-b', 'list-a']) (await store.request('PUT', `/${name}`, { headers })).succeeded(200)
    const reply = servedBy(await store.request('GET', '/', { headers }), 'ListBuckets', 200)
    const listing = reply.document('ListAllMyBucketsResult')
    assert.deepEqual(listing.texts('Buckets/Bucket/Name'), ['list-a', 'list-b'])
    assert.deepEqual([listing.text('Owner/ID'), listing.text('Owner/DisplayName')], ['lister', 'lister'])
    for (const date of listing.texts('Buckets/Bucket/CreationDate'))
      assert.match(date, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const page = (await store.request('GET', '/?max-buckets=1', { headers })).document('ListAllMyBucketsResult')
    assert.deepEqual(page.texts('Buckets/Bucket/Name'), ['list-a'])
    const rest = `/?continuation-token=${encodeURIComponent(page.text('ContinuationToken')!)}`
    const next = (await store.request('GET', rest, { headers })).document('ListAllMyBucketsResult')
    assert.deepEqual([next.texts('Buckets/Bucket/Name'), next.text('ContinuationToken')], [['list-b'], null])
    const prefixed = (await store.request('GET', '/?prefix=list-b', { headers })).document('ListAllMyBucketsResult')
    assert.deepEqual(prefixed.texts('Buckets/Bucket/Name'), ['list-b'])
  })
  it('PUT /{bucket} is CreateBucket', async () => {
    const reply = servedBy(await store.request('PUT', '/created-bucket'), 'CreateBucket', 200)
    assert.deepEqual([reply.header('location'), reply.text], ['/created-bucket', ''])
    assert.match(reply.header('x-obj-bucket-id')!, /./)
  })
  it('HEAD /{bucket} is HeadBucket', async () => {
    const bucket = await store.newBucket()
    const reply = servedBy(await bucket.ask('HEAD', ''), 'HeadBucket', 200)
    assert.equal(reply.header('x-obj-bucket-region'), 'us-east-1')
    ;(await store.request('HEAD', '/absent-bucket')).refused('NoSuchBucket')
  })
  it('GET /{bucket}?location is GetBucketLocation, empty in us-east-1', async () => {
    const bucket = await store.newBucket()
    const reply = servedBy(await bucket.ask('GET', '?location'), 'GetBucketLocation', 200)
    assert.equal(reply.document('LocationConstraint').rootText, '')
  })
  it('DELETE /{bucket} is DeleteBucket', async () => {
    const bucket = await store.newBucket()
    servedBy(await bucket.ask('DELETE', ''), 'DeleteBucket', 204)
    ;(await bucket.ask('HEAD', '')).refused('NoSuchBucket')
  })
  it('PUT, GET, DELETE /{bucket}?cors are the operations of bucket CORS', async () => {
    const bucket = await store.newBucket()
    ;(await bucket.ask('GET', '?cors')).refused('NoSuchCORSConfiguration')
    servedBy(await bucket.ask('PUT', '?cors', { body: CORS }), 'PutBucketCors', 200)
    const got = servedBy(await bucket.ask('GET', '?cors'), 'GetBucketCors', 200).document('CORSConfiguration')
    assert.deepEqual([got.text('CORSRule/AllowedOrigin'), got.text('CORSRule/AllowedMethod')], ['*', 'GET'])
    servedBy(await bucket.ask('DELETE', '?cors'), 'DeleteBucketCors', 204)
    ;(await bucket.ask('GET', '?cors')).refused('NoSuchCORSConfiguration')
  })
  it('PUT, GET, DELETE /{bucket}?policy are the operations of bucket policies, which are given back as they were sent', async () => {
    const bucket = await store.newBucket()
    const policy = policyOf(bucket.name).replace('{', '{ \n ')
    ;(await bucket.ask('GET', '?policy')).refused('NoSuchBucketPolicy')
    servedBy(await bucket.ask('PUT', '?policy', { body: policy }), 'PutBucketPolicy', 204)
    const got = servedBy(await bucket.ask('GET', '?policy'), 'GetBucketPolicy', 200)
    assert.deepEqual([got.header('content-type'), got.text], ['application/json', policy])
    servedBy(await bucket.ask('DELETE', '?policy'), 'DeleteBucketPolicy', 204)
    ;(await bucket.ask('GET', '?policy')).refused('NoSuchBucketPolicy')
  })
  it('OPTIONS /{bucket} and /{bucket}/{key} are CorsPreflight', async () => {
    const bucket = await store.newBucket()
    await bucket.ask('PUT', '?cors', { body: CORS })
    const headers = { origin: 'https://a.example', 'access-control-request-method': 'GET' }
    for (const rest of ['', '/', '/key', '/a/b?c=d'])
      servedBy(await bucket.ask('OPTIONS', rest, { headers }), 'CorsPreflight', 200)
  })
  it('GET /{bucket}?list-type=2 is ListObjectsV2', async () => {
    const bucket = await store.newBucket()
    const reply = servedBy(await bucket.ask('GET', '?list-type=2'), 'ListObjectsV2', 200)
    const listing = reply.document('ListBucketResult')
    assert.deepEqual(
      [listing.text('Name'), listing.text('KeyCount'), listing.text('IsTruncated')],
      [bucket.name, '0', 'false'],
    )
  })
  it('POST /{bucket}?delete is DeleteObjects', async () => {
    const bucket = await store.newBucket()
    await bucket.put('one')
    const body = '<Delete><Object><Key>one</Key></Object><Object><Key>never was</Key></Object></Delete>'
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
    const reply = servedBy(await bucket.ask('POST', '?delete', { body, headers }), 'DeleteObjects', 200)
    assert.deepEqual(reply.document('DeleteResult').texts('Deleted/Key'), ['one', 'never was'])
    assert.deepEqual(await bucket.keys(), [])
  })
  it('POST /{bucket} is PostObject', async () => {
    const bucket = await store.newBucket()
    const body =
      '--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nposted\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nfrom a form\r\n--b--\r\n'
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    servedBy(await bucket.ask('POST', '', { body, headers }), 'PostObject', 204)
    assert.equal(await bucket.read('posted'), 'from a form')
  })
  it('PUT, GET, HEAD, DELETE /{bucket}/{key} are PutObject, GetObject, HeadObject, DeleteObject', async () => {
    const bucket = await store.newBucket()
    const put = servedBy(await bucket.ask('PUT', '/key', { body: 'content' }), 'PutObject', 200)
    const etag = `"${createHash('md5').update('content').digest('hex')}"`
    assert.equal(put.header('etag'), etag)
    const got = servedBy(await bucket.ask('GET', '/key'), 'GetObject', 200)
    const head = servedBy(await bucket.ask('HEAD', '/key'), 'HeadObject', 200)
    assert.deepEqual([got.text, head.text], ['content', ''])
    for (const reply of [got, head]) {
      assert.deepEqual(
        ['etag', 'content-length', 'content-type', 'accept-ranges'].map((name) => reply.header(name)),
        [etag, '7', 'binary/octet-stream', 'bytes'],
      )
      assert.match(reply.header('last-modified')!, /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/)
    }
    servedBy(await bucket.ask('DELETE', '/key'), 'DeleteObject', 204)
    ;(await bucket.ask('GET', '/key')).refused('NoSuchKey')
  })
  it('PUT /{bucket}/{key} with header x-obj-copy-source is CopyObject', async () => {
    const bucket = await store.newBucket()
    await bucket.put('a +é', 'copied')
    for (const name of ['x-obj-copy-source', 'x-amz-copy-source']) {
      for (const source of [`/${bucket.name}/a%20%2B%C3%A9`, `${bucket.name}/a%20%2B%C3%A9`]) {
        const reply = servedBy(await bucket.ask('PUT', '/copy', { headers: { [name]: source } }), 'CopyObject', 200)
        assert.equal(
          reply.document('CopyObjectResult').text('ETag'),
          `"${createHash('md5').update('copied').digest('hex')}"`,
        )
        assert.equal(await bucket.read('copy'), 'copied')
      }
    }
  })
  it('GET, PUT, DELETE /{bucket}/{key}?tagging are the operations of object tags', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key')
    const tags = async () =>
      servedBy(await bucket.ask('GET', '/key?tagging'), 'GetObjectTagging', 200).document('Tagging')
    assert.deepEqual([(await tags()).names, (await tags()).texts('TagSet/Tag/Key')], [['TagSet'], []])
    servedBy(await bucket.ask('PUT', '/key?tagging', { body: TAGGING }), 'PutObjectTagging', 200)
    assert.deepEqual([(await tags()).texts('TagSet/Tag/Key'), (await tags()).texts('TagSet/Tag/Value')], [['k'], ['v']])
    servedBy(await bucket.ask('DELETE', '/key?tagging'), 'DeleteObjectTagging', 204)
    assert.deepEqual((await tags()).texts('TagSet/Tag/Key'), [])
  })
  it('POST /{bucket}/{key}?uploads to DELETE …?uploadId=ID: CreateMultipartUpload, UploadPart, UploadPartCopy, ListParts, AbortMultipartUpload', async () => {
    const bucket = await store.newBucket()
    await bucket.put('source', '0123456789')
    const created = servedBy(await bucket.ask('POST', '/key?uploads'), 'CreateMultipartUpload', 200)
    const initiated = created.document('InitiateMultipartUploadResult')
    assert.deepEqual([initiated.text('Bucket'), initiated.text('Key')], [bucket.name, 'key'])
    const upload = `/key?uploadId=${encodeURIComponent(initiated.text('UploadId')!)}`
    servedBy(await bucket.ask('PUT', `${upload}&partNumber=1`, { body: 'part' }), 'UploadPart', 200)
    const headers = { 'x-obj-copy-source': `${bucket.name}/source`, 'x-obj-copy-source-range': 'bytes=2-4' }
    const copied = servedBy(await bucket.ask('PUT', `${upload}&partNumber=2`, { headers }), 'UploadPartCopy', 200)
    assert.equal(copied.document('CopyPartResult').text('ETag'), `"${createHash('md5').update('234').digest('hex')}"`)
    const parts = servedBy(await bucket.ask('GET', upload), 'ListParts', 200).document('ListPartsResult')
    assert.deepEqual(
      [parts.texts('Part/PartNumber'), parts.texts('Part/Size')],
      [
        ['1', '2'],
        ['4', '3'],
      ],
    )
    servedBy(await bucket.ask('DELETE', upload), 'AbortMultipartUpload', 204)
    ;(await bucket.ask('GET', upload)).refused('NoSuchUpload')
  })
  it('POST /{bucket}/{key}?uploadId=ID is CompleteMultipartUpload', async () => {
    const bucket = await store.newBucket()
    const upload = await bucket.newUpload('key')
    const etag = await upload.part(7, 'part')
    const reply = servedBy(await upload.complete([[7, etag]]), 'CompleteMultipartUpload', 200)
    const completed = reply.document('CompleteMultipartUploadResult')
    assert.deepEqual([completed.text('Bucket'), completed.text('Key')], [bucket.name, 'key'])
    assert.match(completed.text('ETag')!, /^"[0-9a-f]{32}-1"$/)
    assert.equal(await bucket.read('key'), 'part')
  })
  it('GET /{bucket}?uploads is ListMultipartUploads', async () => {
    const bucket = await store.newBucket()
    const uploads = [await bucket.newUpload('b'), await bucket.newUpload('a'), await bucket.newUpload('a')]
    const reply = servedBy(await bucket.ask('GET', '?uploads'), 'ListMultipartUploads', 200)
    const listing = reply.document('ListMultipartUploadsResult')
    assert.deepEqual(listing.texts('Upload/Key'), ['a', 'a', 'b'])
    assert.deepEqual(listing.texts('Upload/UploadId'), [uploads[1]!.id, uploads[2]!.id, uploads[0]!.id])
  })
})

describe('any other request', () => {
  const OTHERS = [
    ['POST', '/'],
    ['PUT', '/'],
    ['DELETE', '/'],
    ['OPTIONS', '/'],
    ['HEAD', '/'],
    ['GET', '/BUCKET'],
    ['GET', '/BUCKET?list-type=1'],
    ['GET', '/BUCKET?versions'],
    ['PATCH', '/BUCKET/key'],
    ['POST', '/BUCKET/key'],
    ['POST', '/BUCKET/key?restore'],
    ['POST', '/BUCKET/key?select&select-type=2'],
    ['GET', '/BUCKET/key?versionId=1'],
    ['GET', '/BUCKET/key?attributes'],
    ['GET', '/BUCKET/key?torrent'],
    ['PUT', '/BUCKET/key?acl'],
    ['GET', '/BUCKET/key?retention'],
    ['PUT', '/BUCKET/key?legal-hold'],
    ...[
      'acl',
      'versioning',
      'object-lock',
      'lifecycle',
      'replication',
      'inventory',
      'notification',
      'website',
      'encryption',
      'logging',
      'tagging',
    ].flatMap((name) => ['GET', 'PUT'].map((method) => [method, `/BUCKET?${name}`])),
  ] as const
  for (const [method, target] of OTHERS)
    it(`${method} ${target}: NotImplemented`, async () => {
      const reply = await store.request(method, target.replace('BUCKET', 'any-bucket'))
      reply.refused('NotImplemented')
      assert.equal(reply.header('x-obj-operation'), 'Unsupported')
    })
  it('parameters that select nothing are ignored', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key', 'content')
    assert.equal((await bucket.ask('GET', '/key?x-id=GetObject&unknown=1')).succeeded(200).text, 'content')
  })
})
