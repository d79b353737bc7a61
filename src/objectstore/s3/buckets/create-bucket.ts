/** Creates a bucket of the caller. */
import { CREATE_BUCKET_BODY_BYTES_MAX } from '../document-limits.ts'
import { refuse } from '../../refusals.ts'
import { eitherHeader } from '../auth/request-identity.ts'
import { collectBody } from '../body/collect-body.ts'
import type { BucketNameHandler } from '../handler.ts'
import { SYNCED, bucketIdHeader } from '../ids.ts'
import { checkAcl } from '../objects/acl.ts'
import { headerNotImplemented } from '../objects/header-refusals.ts'
import { isBucketName } from './bucket-name.ts'
import { readXml } from '../xml/xml-reader.ts'
import { element, list, once, optional, text } from '../xml/xml-shape.ts'

/** What a region looks like: `eu-central-1`; `EU` is S3's old name of one. */
const REGION = /^(?:[a-z]{2,3}(?:-[a-z]+)+-\d|EU)$/

export const createBucket: BucketNameHandler = async (request, name, { store, region }) => {
  const owner = request.caller.principal?.id
  if (owner === undefined) throw refuse('AccessDenied')
  if (!isBucketName(name)) throw refuse('InvalidBucketName', undefined, { fields: { BucketName: name.slice(0, 255) } })
  checkBucketHeaders(request.headers)
  const asked = readCreateBucketRequest(await collectBody(request, CREATE_BUCKET_BODY_BYTES_MAX))
  if (asked !== null && asked !== region) throw wrongLocation(asked)
  const bucket = await store.createBucket(name, owner)
  return { status: 200, headers: [['Location', `/${name}`], bucketIdHeader(bucket.number), SYNCED] }
}

/** @throws S3Error NotImplemented for what would make it another kind of bucket */
function checkBucketHeaders(headers: ReadonlyMap<string, string>): void {
  checkAcl(headers)
  if (eitherHeader(headers, 'bucket-object-lock-enabled')?.toLowerCase() === 'true') {
    throw headerNotImplemented('x-amz-bucket-object-lock-enabled')
  }
  const ownership = eitherHeader(headers, 'object-ownership')
  if (ownership !== undefined && ownership !== 'BucketOwnerEnforced') {
    throw headerNotImplemented('x-amz-object-ownership')
  }
}

const wrongLocation = (asked: string): Error =>
  REGION.test(asked)
    ? refuse(
        'IllegalLocationConstraintException',
        `The ${asked} location constraint is incompatible for the region specific endpoint this request was sent to.`,
      )
    : refuse('InvalidLocationConstraint', undefined, { fields: { LocationConstraint: asked.slice(0, 128) } })

const CONFIGURATION = {
  name: 'CreateBucketConfiguration',
  bytesMax: CREATE_BUCKET_BODY_BYTES_MAX,
  shape: element({
    LocationConstraint: optional(text),
    Tags: optional(element({ Tag: list(element({ Key: once(text), Value: once(text) }), { min: 0, max: 50 }) })),
  }),
} as const

/**
 * @returns the region asked for, null for the service's own
 * @throws S3Error MalformedXML, EntityTooLarge, NotImplemented for tags of a bucket
 */
export function readCreateBucketRequest(body: Uint8Array): string | null {
  if (body.byteLength === 0) return null
  const { LocationConstraint, Tags } = readXml(body, CONFIGURATION)
  if (Tags !== null && Tags.Tag.length > 0) throw refuse('NotImplemented', 'Tags of buckets are not implemented')
  return LocationConstraint?.trim() || null
}
