/** Pages of a bucket's keys: ListObjectsV2, and version 1 where the extension is on. */
import { renderObjectListing, renderObjectListingV1 } from './object-listing.ts'
import type { Bucket, ObjectPage, ObjectStore } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import { LISTED_OBJECT_BYTES } from '../document-bytes.ts'
import type { BucketHandler } from '../handler.ts'
import { bucketIdHeader } from '../ids.ts'
import { pageMax } from '../page-bounds.ts'
import { readToken, tokenOf } from './continuation-token.ts'

const NOTHING = Buffer.alloc(0)

export const listObjectsV2: BucketHandler = async ({ query, reserveRoom }, bucket, { store }) => {
  const asked = askedPage(query)
  const continuationToken = query.get('continuation-token') ?? null
  const startAfter = query.get('start-after') ?? null
  const from = continuationToken ? readToken(continuationToken) : NOTHING
  const after = continuationToken || startAfter === null ? NOTHING : Buffer.from(startAfter)
  await reserveRoom(LISTED_OBJECT_BYTES * asked.maxKeys)
  const page = await pageOf(store, bucket, asked, from, after)
  const pieces = renderObjectListing({
    ...asked,
    contents: page.objects,
    commonPrefixes: page.commonPrefixes,
    isTruncated: page.next !== null,
    bucket: bucket.name,
    owner: query.get('fetch-owner') === 'true' ? bucket.owner : null,
    continuationToken,
    nextContinuationToken: page.next && tokenOf(page.next),
    startAfter,
  })
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number)],
    body: { contentType: 'application/xml', pieces },
  }
}

export const listObjects: BucketHandler = async ({ query, reserveRoom }, bucket, { store }) => {
  const asked = askedPage(query)
  const marker = query.get('marker') ?? ''
  await reserveRoom(LISTED_OBJECT_BYTES * asked.maxKeys)
  const page = await pageOf(store, bucket, asked, behindPrefix(asked, marker), Buffer.from(marker))
  const { objects, commonPrefixes } = page
  const isTruncated = page.next !== null
  const pieces = renderObjectListingV1({
    ...asked,
    contents: objects,
    commonPrefixes,
    isTruncated,
    bucket: bucket.name,
    owner: bucket.owner,
    marker,
    nextMarker: isTruncated && asked.delimiter !== null ? lastOf(page) : null,
  })
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number)],
    body: { contentType: 'application/xml', pieces },
  }
}

interface AskedPage {
  readonly prefix: string
  /** Null: none. */
  readonly delimiter: string | null
  readonly maxKeys: number
  readonly urlEncoded: boolean
}

function askedPage(query: ReadonlyMap<string, string>): AskedPage {
  const encoding = query.get('encoding-type') ?? ''
  if (encoding !== '' && encoding !== 'url') {
    throw refuse('InvalidArgument', 'Invalid Encoding Method specified in Request', {
      fields: { ArgumentName: 'encoding-type', ArgumentValue: encoding.slice(0, 128) },
    })
  }
  return {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') || null,
    maxKeys: pageMax(query, 'max-keys'),
    urlEncoded: encoding === 'url',
  }
}

async function pageOf(
  store: ObjectStore,
  bucket: Bucket,
  { prefix, delimiter, maxKeys }: AskedPage,
  from: Buffer,
  after: Buffer,
): Promise<ObjectPage> {
  if (maxKeys === 0) return { objects: [], commonPrefixes: [], next: null }
  const options = { prefix: Buffer.from(prefix), delimiter: Buffer.from(delimiter ?? ''), from, after, max: maxKeys }
  return await store.list(bucket, options)
}

/** The key or common prefix that comes last in the order of bytes. */
function lastOf({ objects, commonPrefixes }: ObjectPage): string {
  const key = objects.at(-1)?.key ?? NOTHING
  const prefix = commonPrefixes.at(-1) ?? NOTHING
  return (key.compare(prefix) < 0 ? prefix : key).toString()
}

/** A marker in a common prefix stands for all of it: the page begins behind the prefix. */
function behindPrefix({ prefix, delimiter }: AskedPage, marker: string): Buffer {
  const at = delimiter === null || !marker.startsWith(prefix) ? -1 : marker.indexOf(delimiter, prefix.length)
  if (delimiter === null || at < 0) return NOTHING
  const behind = Buffer.from(marker.slice(0, at + delimiter.length))
  behind[behind.length - 1]!++ // a byte of UTF-8, so less than 0xff
  return behind
}
