/** Names that a bucket may have. Source: Amazon S3 user guide, "Bucket naming rules". */
import { isIPv4 } from 'node:net'

const NAME = /^[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]$/
const BAD_NEIGHBOURS = /\.\.|\.-|-\./

export const isBucketName = (name: string): boolean => NAME.test(name) && !BAD_NEIGHBOURS.test(name) && !isIPv4(name)
