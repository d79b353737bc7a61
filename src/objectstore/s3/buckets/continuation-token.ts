/** Where the next page of a listing begins, in a form that cannot be mistaken for a key: base64url of a version and the bytes of the name. */
import { refuse } from '../../refusals.ts'

const VERSION = '1'

export const tokenOf = (place: Buffer): string => VERSION + place.toString('base64url')

/** @throws S3Error InvalidArgument for what `tokenOf` never gave */
export function readToken(token: string): Buffer {
  const place = Buffer.from(token.slice(VERSION.length), 'base64url')
  if (place.length > 0 && tokenOf(place) === token) return place
  throw refuse('InvalidArgument', 'The continuation token provided is incorrect', {
    fields: { ArgumentName: 'continuation-token' },
  })
}
