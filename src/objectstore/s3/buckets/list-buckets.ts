/** The caller's own buckets, by name. Pages only when it is asked for. */
import { renderBucketListing } from './bucket-answers.ts'
import { refuse } from '../../refusals.ts'
import type { Bucket } from '../../operations.ts'
import { LISTED_BUCKET_BYTES } from '../document-bytes.ts'
import type { ServiceHandler } from '../handler.ts'
import { integer } from '../page-bounds.ts'
import { readToken, tokenOf } from './continuation-token.ts'

const BUCKETS_MAX = 10_000

export const listBuckets: ServiceHandler = async ({ query, caller, reserveRoom }, { store, region }) => {
  if (caller.principal === null) throw refuse('AccessDenied')
  const owner = caller.principal.id
  const prefix = query.get('prefix') ?? null
  const token = query.get('continuation-token') ?? null
  const max = maxOf(query)
  await reserveRoom(LISTED_BUCKET_BYTES * max)
  const isPaged = query.has('max-buckets') || token !== null || prefix !== null

  const after = token === null ? '' : readToken(token).toString()
  const isOurs = (query.get('bucket-region') || region) === region
  const page: Bucket[] = []
  let isTruncated = false
  for (const bucket of isOurs ? store.buckets(owner, firstName(prefix, after)) : []) {
    if (prefix !== null && !bucket.name.startsWith(prefix)) break
    isTruncated = page.length === max
    if (isTruncated) break
    page.push(bucket)
  }
  const buckets = page.map(({ name, createdMs }) => ({ name, createdMs, region: isPaged ? region : null }))
  const continuationToken = isTruncated ? tokenOf(Buffer.from(page.at(-1)!.name)) : null // max is at least 1
  const bytes = renderBucketListing({ owner, buckets, continuationToken, prefix })
  return { status: 200, body: { contentType: 'application/xml', bytes } }
}

/** The lowest name above `after` that can have the prefix. */
function firstName(prefix: string | null, after: string): string {
  const above = after === '' ? '' : `${after}\0`
  return prefix !== null && prefix > above ? prefix : above
}

function maxOf(query: ReadonlyMap<string, string>): number {
  const max = integer(query, 'max-buckets', BUCKETS_MAX)
  if (max >= 1) return Math.min(max, BUCKETS_MAX)
  throw refuse('InvalidArgument', `Argument max-buckets must be an integer between 1 and ${BUCKETS_MAX}`, {
    fields: { ArgumentName: 'max-buckets', ArgumentValue: max },
  })
}
