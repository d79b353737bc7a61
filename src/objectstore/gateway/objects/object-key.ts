/** Keys that come in a body: those in a target are checked where it is taken apart. */
import { refuse } from '../../refusals.ts'
import { KEY_BYTES_MAX } from '../limits.ts'

/** @throws S3Error KeyTooLongError */
export function checkKey(key: string): void {
  const bytes = Buffer.byteLength(key)
  if (bytes <= KEY_BYTES_MAX) return
  throw refuse('KeyTooLongError', undefined, { fields: { Size: bytes, MaxSizeAllowed: KEY_BYTES_MAX } })
}
