/** Body of CreateBucket: none, or `CreateBucketConfiguration{LocationConstraint?, Tags?}`. */
import { refuse } from '../../refusals.ts'
import { CREATE_BUCKET_BODY_BYTES_MAX } from '../document-limits.ts'
import { readXml } from '../xml/xml-reader.ts'
import { element, list, once, optional, text } from '../xml/xml-shape.ts'

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
