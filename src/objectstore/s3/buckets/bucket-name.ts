/** Names that a new bucket may have. A bucket that has another name already is used like any. Source: Amazon S3 user guide, "Bucket naming rules". */
import { isIPv4 } from 'node:net'

const NAME = /^[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]$/
const BAD_NEIGHBOURS = /\.\.|\.-|-\./
/** Names of access points, and of other kinds of buckets. S3 also reserves amzn-s3-demo- for documentation; not here, as people copy from that. */
const RESERVED = /^(?:xn--|sthree-)|(?:-s3alias|--ol-s3|\.mrap|--x-s3|--table-s3)$/

export const isBucketName = (name: string): boolean =>
  NAME.test(name) && !BAD_NEIGHBOURS.test(name) && !isIPv4(name) && !RESERVED.test(name)
