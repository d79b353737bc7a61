/** What the three operations on an object's tags answer. */
import type { Bucket, ObjectSummary } from '../../operations.ts'
import type { HeaderLine } from '../handler.ts'
import { SYNCED, bucketIdHeader, objectIdHeaders } from '../ids.ts'

export const taggedObjectHeaders = (bucket: Bucket, { commitSequence }: ObjectSummary): readonly HeaderLine[] => [
  bucketIdHeader(bucket.number),
  ...objectIdHeaders(commitSequence),
]

export const retaggedObjectHeaders = (bucket: Bucket, object: ObjectSummary): readonly HeaderLine[] => [
  ...taggedObjectHeaders(bucket, object),
  SYNCED,
]
