/** ListObjectsV2 and ListMultipartUploads, page by page. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { XmlDocument } from '../../../support/objectstore.ts'
import { store } from './shared-store.ts'

const bucket = await store.newBucket()
const KEYS = ['a', 'b/1', 'b/2', 'b/c/3', 'c', 'd/4', 'd/5', 'e']
for (const key of KEYS) await bucket.put(key, key)

const list = async (query: string): Promise<XmlDocument> =>
  (await bucket.ask('GET', `?list-type=2${query}`)).document('ListBucketResult')
const entries = (page: XmlDocument): readonly string[] => [
  ...page.texts('Contents/Key'),
  ...page.texts('CommonPrefixes/Prefix'),
]

describe('ListObjectsV2', () => {
  it('shows each key with LastModified, ETag, Size and StorageClass', async () => {
    const [first] = (await list('&max-keys=1')).all('Contents')
    assert.match(first!.text('LastModified')!, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.deepEqual(
      ['Key', 'ETag', 'Size', 'StorageClass'].map((name) => first!.text(name)),
      ['a', '"0cc175b9c0f1b6a831c399e269772661"', '1', 'STANDARD'],
    )
    assert.equal(first!.text('Owner/ID'), null, 'owners are shown when they are asked for')
  })
  it('prefix, delimiter: what shares all up to the delimiter is one common prefix', async () => {
    const page = await list('&delimiter=/')
    assert.deepEqual(
      [page.texts('Contents/Key'), page.texts('CommonPrefixes/Prefix')],
      [
        ['a', 'c', 'e'],
        ['b/', 'd/'],
      ],
    )
    assert.deepEqual(entries(await list('&delimiter=/&prefix=b/')), ['b/1', 'b/2', 'b/c/'])
    assert.deepEqual(entries(await list('&prefix=b')), ['b/1', 'b/2', 'b/c/3'])
    assert.deepEqual(entries(await list('&prefix=nothing')), [])
    assert.equal((await list('&delimiter=')).text('Delimiter'), null, 'an empty one is none')
    const echoed = await list('&delimiter=/&prefix=b/')
    assert.deepEqual([echoed.text('Delimiter'), echoed.text('Prefix')], ['/', 'b/'])
  })
  it('max-keys counts keys and prefixes; all pages together are the listing, whatever their size', async () => {
    for (const [query, all] of [
      ['', KEYS],
      ['&delimiter=/', ['a', 'b/', 'c', 'd/', 'e']],
    ] as const) {
      for (let max = 1; max <= all.length; max++) {
        const seen: string[] = []
        let token: string | null = null
        do {
          const from: string = token === null ? '' : `&continuation-token=${encodeURIComponent(token)}`
          const page = await list(`${query}&max-keys=${max}${from}`)
          seen.push(...entries(page))
          assert.equal(page.text('KeyCount'), String(entries(page).length))
          token = page.text('NextContinuationToken')
          assert.equal(page.text('IsTruncated'), String(token !== null))
        } while (token !== null)
        assert.deepEqual(seen.toSorted(), all)
      }
    }
  })
  it('max-keys: 0 shows nothing and is not truncated; at most 1000; no number is InvalidArgument', async () => {
    const none = await list('&max-keys=0')
    assert.deepEqual([none.text('KeyCount'), none.text('IsTruncated')], ['0', 'false'])
    assert.equal((await list('&max-keys=5000')).text('MaxKeys'), '1000')
    for (const max of ['-1', 'a', '1.5'])
      (await bucket.ask('GET', `?list-type=2&max-keys=${max}`)).refused('InvalidArgument')
  })
  it('start-after begins behind a key that need not be there, and is ignored with a token', async () => {
    assert.deepEqual(entries(await list('&start-after=b/2')), ['b/c/3', 'c', 'd/4', 'd/5', 'e'])
    assert.deepEqual(entries(await list('&start-after=bb')), ['c', 'd/4', 'd/5', 'e'])
    const token = (await list('&max-keys=7')).text('NextContinuationToken')!
    assert.deepEqual(entries(await list(`&start-after=a&continuation-token=${encodeURIComponent(token)}`)), ['e'])
  })
  it('a token that none of ours is InvalidArgument; encoding-type other than url too', async () => {
    for (const query of ['&continuation-token=nonsense', '&encoding-type=base64']) {
      ;(await bucket.ask('GET', `?list-type=2${query}`)).refused('InvalidArgument')
    }
  })
  it('pages skip and repeat nothing while keys come and go', async () => {
    const changing = await store.newBucket()
    for (const key of ['a', 'c', 'e']) await changing.put(key)
    const first = (await changing.ask('GET', '?list-type=2&max-keys=2')).document('ListBucketResult')
    await changing.ask('DELETE', '/c')
    await changing.put('b')
    await changing.put('d')
    const token = encodeURIComponent(first.text('NextContinuationToken')!)
    assert.deepEqual(await changing.keys(`&continuation-token=${token}`), ['d', 'e'])
  })
})

describe('ListMultipartUploads', () => {
  it('pages by key and upload, with prefixes and delimiters; markers are filled in', async () => {
    const uploading = await store.newBucket()
    for (const key of ['a', 'b%2F1', 'b%2F2', 'c']) await uploading.newUpload(key)
    const page = async (query: string) =>
      (await uploading.ask('GET', `?uploads${query}`)).document('ListMultipartUploadsResult')
    const first = await page('&max-uploads=2&delimiter=/')
    assert.deepEqual([first.texts('Upload/Key'), first.texts('CommonPrefixes/Prefix')], [['a'], ['b/']])
    assert.deepEqual([first.text('IsTruncated'), first.text('NextKeyMarker')], ['true', 'b/'])
    const rest = await page('&delimiter=/&key-marker=b/')
    assert.deepEqual([rest.texts('Upload/Key'), rest.text('IsTruncated')], [['c'], 'false'])
    const inside = await page('&delimiter=/&key-marker=b/1')
    assert.deepEqual([inside.texts('Upload/Key'), inside.texts('CommonPrefixes/Prefix')], [['c'], []])
    assert.deepEqual((await page('&prefix=b/')).texts('Upload/Key'), ['b/1', 'b/2'])
    const about = rest.all('Upload')[0]!
    assert.deepEqual(
      ['Initiator/ID', 'Owner/ID', 'StorageClass'].map((name) => about.text(name)),
      ['local', 'local', 'STANDARD'],
    )
    ;(await uploading.ask('GET', '?uploads&max-uploads=x')).refused('InvalidArgument')
  })
})
