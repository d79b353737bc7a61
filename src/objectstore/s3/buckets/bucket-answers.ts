/** Answers about buckets: ListBuckets, GetBucketLocation. */
import { ownerElement } from '../owner.ts'
import { escapeXml, isoTime, s3Document, textElement } from '../xml/xml-text.ts'

export interface BucketListing {
  readonly owner: string
  readonly buckets: readonly ListedBucket[]
  /** Null on the last page. */
  readonly continuationToken: string | null
  readonly prefix: string | null
}

interface ListedBucket {
  readonly name: string
  readonly createdMs: number
  /** Shown when the request pages or filters, as S3 does. */
  readonly region: string | null
}

export function renderBucketListing({ owner, buckets, continuationToken, prefix }: BucketListing): string {
  const elements = buckets.map(({ name, createdMs, region }) => {
    const about = `<Name>${escapeXml(name)}</Name><CreationDate>${isoTime(createdMs)}</CreationDate>`
    return `<Bucket>${about}${textElement('BucketRegion', region)}</Bucket>`
  })
  const page = textElement('ContinuationToken', continuationToken) + textElement('Prefix', prefix)
  return s3Document('ListAllMyBucketsResult', `${ownerElement(owner)}<Buckets>${elements.join('')}</Buckets>${page}`)
}

const REGION_WITHOUT_NAME = 'us-east-1'

export const renderLocation = (region: string): string =>
  s3Document('LocationConstraint', region === REGION_WITHOUT_NAME ? '' : escapeXml(region))
