/**
 * What do the documents of the object store cost the main thread: a page of 1000 keys, the bodies of requests, a policy asked, a form of 16
 * MiB? `--smoke` runs each case once, so that CI catches rot.
 */
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { readCompleteRequest } from '../src/objectstore/s3/multipart/complete-request.ts'
import { readDeleteRequest } from '../src/objectstore/s3/objects/delete-request.ts'
import { PostForm } from '../src/objectstore/s3/form/post-form.ts'
import { renderObjectListing } from '../src/objectstore/s3/buckets/object-listing.ts'
import type { ObjectListing } from '../src/objectstore/s3/buckets/object-listing.ts'
import { BucketPolicy } from '../src/objectstore/s3/policy/bucket-policy.ts'
import { readTagging, renderTagging } from '../src/objectstore/s3/objects/tagging.ts'
import { atOnce } from '../src/steps.ts'

const smoke = process.argv.includes('--smoke')
let checksum = 0 // same documents, same number
const count = (text: string): number => {
  checksum = crc32(text, checksum)
  return Buffer.byteLength(text)
}

const FIRST_TIME_MS = Date.UTC(2026, 0)
const pageOf = (keyOf: (i: number) => string, urlEncoded: boolean): ObjectListing => ({
  bucket: 'photos',
  prefix: '',
  delimiter: null,
  maxKeys: 1000,
  isTruncated: true,
  urlEncoded,
  contents: Array.from({ length: 1000 }, (_, i) => ({
    key: keyOf(i),
    lastModifiedMs: FIRST_TIME_MS + i * 3_600_000,
    etag: (i * 7919).toString(16).padStart(32, '0'),
    size: i * 1000,
    checksumAlgorithms: ['CRC64NVME'],
    checksumType: 'FULL_OBJECT',
    storageClass: 'STANDARD',
  })),
  commonPrefixes: [],
  owner: null,
  continuationToken: null,
  nextContinuationToken: 'next',
  startAfter: null,
})
const plainPage = pageOf((i) => `backups/2026/db-${String(i).padStart(6, '0')}.tar.zst`, false)
const encodedPage = pageOf((i) => `backups/2026/db ${String(i).padStart(6, '0')} (größe).tar.zst`, true)

const bodyOf = (root: string, parts: readonly string[]): Buffer => Buffer.from(`<${root}>${parts.join('')}</${root}>`)
const deletion = bodyOf(
  'Delete',
  plainPage.contents.map(({ key }) => `<Object><Key>${key.toString()}</Key></Object>`),
)
const completion = (parts: number): Buffer =>
  bodyOf(
    'CompleteMultipartUpload',
    Array.from({ length: parts }, (_, i) => {
      const etag = `<ETag>"${'0'.repeat(32)}"</ETag><ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME>`
      return `<Part><PartNumber>${i + 1}</PartNumber>${etag}</Part>`
    }),
  )
const tagging = Buffer.from(renderTagging(Array.from({ length: 10 }, (_, i) => ({ key: `key-${i}`, value: 'value' }))))

const statements = Array.from({ length: 20 }, (_, i) => ({
  Effect: i % 4 === 0 ? 'Deny' : 'Allow',
  Principal: { AWS: [`ci-${i}`, 'ann'] },
  Action: ['s3:GetObject', 's3:Put*'],
  Resource: `arn:aws:s3:::photos/team-${i}/*`,
  Condition: { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } },
}))
const policy = BucketPolicy.parse(Buffer.from(JSON.stringify({ Statement: statements })), 'photos')
const asked = {
  principal: 'ann',
  action: 's3:GetObject',
  bucket: 'photos',
  key: 'team-19/backups/2026/db.tar.zst',
  valuesOf: () => ['10.1.2.3'],
  isOfUpload: false,
} as const

const CHUNK = Buffer.alloc(64 << 10, 'some bytes\r\n')
const formHead = Buffer.from(
  '--form\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--form\r\nContent-Disposition: form-data; name="file"\r\n\r\n',
)
const formEnd = Buffer.from('\r\n--form--\r\n')
function uploadForm(): number {
  let fileBytes = 0
  const form = new PostForm('form', {
    onFields: () => {},
    onFile: (bytes) => {
      fileBytes += bytes.length
    },
  })
  form.push(formHead)
  for (let i = 0; i < 256; i++) form.push(CHUNK)
  form.push(formEnd)
  form.end()
  return fileBytes
}

const rendered = (page: ObjectListing): string => Array.from(renderObjectListing(page)).join('')

const pageBytes = count(rendered(plainPage))
count(rendered(encodedPage))
count(
  JSON.stringify([
    atOnce(readDeleteRequest(deletion)),
    atOnce(readCompleteRequest(completion(100), 'u')),
    readTagging(tagging),
  ]),
)
count(`${atOnce(policy.evaluate(asked))} ${uploadForm()}`)

const bench = new Bench({ name: 'documents', ...(smoke && { time: 0, iterations: 1, warmup: false }) })
const longCompletion = completion(10_000)
const shortCompletion = completion(100)
bench.add('page of 1000 keys', () => rendered(plainPage))
bench.add('page of 1000 keys, as bytes', () => Buffer.from(rendered(plainPage)))
bench.add('page of 1000 keys, URL-encoded', () => rendered(encodedPage))
bench.add('DeleteObjects of 1000 keys', () => atOnce(readDeleteRequest(deletion)))
bench.add('CompleteMultipartUpload of 100 parts', () => atOnce(readCompleteRequest(shortCompletion, 'u')))
bench.add('CompleteMultipartUpload of 10 000 parts', () => atOnce(readCompleteRequest(longCompletion, 'u')))
bench.add('10 tags', () => readTagging(tagging))
bench.add('policy of 20 statements', () => atOnce(policy.evaluate(asked)))
bench.add('form with a file of 16 MiB', () => uploadForm())
await bench.run()

const medianMs = (name: string): number => {
  const result = bench.getTask(name)?.result
  return result && 'latency' in result ? result.latency.p50 : Number.NaN
}
console.table(bench.tasks.map(({ name }) => ({ case: name, µs: Number((medianMs(name) * 1000).toFixed(1)) })))
console.log({
  node: process.version,
  checksum,
  pageBytes,
  pageMegabytesPerSecond: Math.round(pageBytes / medianMs('page of 1000 keys') / 1000),
})
