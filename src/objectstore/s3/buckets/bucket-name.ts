/** Names that a bucket may be given: one that has another is used like any. Source: Amazon S3 user guide, "Bucket naming rules". */
import { isIPv4 } from 'node:net'

const NAME = /^[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]$/
const BAD_NEIGHBOURS = /\.\.|\.-|-\./
/** For access points, and for kinds of buckets that have their own names. S3 also keeps amzn-s3-demo- for documentation, which people copy from. */
const RESERVED = /^(?:xn--|sthree-)|(?:-s3alias|--ol-s3|\.mrap|--x-s3|--table-s3)$/

export const isBucketName = (name: string): boolean =>
  NAME.test(name) && !BAD_NEIGHBOURS.test(name) && !isIPv4(name) && !RESERVED.test(name)
