/** Keys that come in a body or a header: those in a target are checked where the target is parsed. */
import { refuse } from '../../refusals.ts'
import { KEY_BYTES_MAX } from '../limits.ts'

export interface ObjectName {
  readonly bucketName: string
  readonly key: string
}

export const isObjectKey = (key: string): boolean => Buffer.byteLength(key) <= KEY_BYTES_MAX

/** @throws S3Error KeyTooLongError */
export function checkKey(key: string): void {
  if (isObjectKey(key)) return
  throw refuse('KeyTooLongError', undefined, {
    fields: { Size: Buffer.byteLength(key), MaxSizeAllowed: KEY_BYTES_MAX },
  })
}
