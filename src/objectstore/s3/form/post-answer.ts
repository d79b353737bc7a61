/** The answer to a browser's form: a redirect, a document, or headers alone. */
import type { FormFields } from './form-fields.ts'
import { renderPostResponse } from '../objects/object-answers.ts'
import type { PostedObject } from '../objects/object-answers.ts'
import { urlEncode } from '../xml/xml-text.ts'
import type { NewObject, ObjectSummary } from '../../operations.ts'
import type { Answer, GatewayRequest, HeaderLine } from '../handler.ts'
import { writtenObjectHeaders } from '../objects/object-headers.ts'

export function postAnswer(
  { url }: GatewayRequest,
  fields: FormFields,
  object: NewObject,
  summary: ObjectSummary,
): Answer {
  const { bucket, key } = object
  const location = `${url.replace(/\/$/, '')}/${urlEncode(key)}`
  const posted = { location, bucket: bucket.name, key, etag: summary.etag }
  const headersTo = (target: string): readonly HeaderLine[] => [
    ['Location', target],
    ...writtenObjectHeaders(object, summary),
  ]
  const redirect = successRedirect(fields.get('success_action_redirect') ?? fields.get('redirect'), posted)
  if (redirect !== null) return { status: 303, headers: headersTo(redirect) }
  switch (fields.get('success_action_status')) {
    case '200':
      return { status: 200, headers: headersTo(location) }
    case '201': {
      const body = { contentType: 'application/xml', bytes: renderPostResponse(posted) }
      return { status: 201, headers: headersTo(location), body }
    }
    default:
      return { status: 204, headers: headersTo(location) }
  }
}

// oxlint-disable-next-line no-control-regex -- they would end the header that the URL stands in
const NOT_IN_URL = /[\u0000-\u0020\u007f-\uffff]/

/** @returns value of `Location`; null when the form has none, or one that no browser can go to, which S3 ignores */
export function successRedirect(
  url: string | null,
  { bucket, key, etag }: Omit<PostedObject, 'location'>,
): string | null {
  if (url === null || !/^https?:\/\//i.test(url) || NOT_IN_URL.test(url) || !URL.canParse(url)) return null
  const [address, fragment] = url.split('#', 2) as [string, string?]
  const query = `bucket=${encodeURIComponent(bucket)}&key=${encodeURIComponent(key)}&etag=%22${etag}%22`
  return `${address}${address.includes('?') ? '&' : '?'}${query}${fragment === undefined ? '' : `#${fragment}`}`
}
