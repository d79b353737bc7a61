/** Where a browser goes after its upload: `success_action_redirect` with bucket, key and ETag behind it. */
import type { PostedObject } from '../objects/object-answers.ts'

// oxlint-disable-next-line no-control-regex -- they would end the header it stands in
const NOT_IN_URL = /[\u0000-\u0020\u007f-\uffff]/

/** @returns value of `Location`; null when the form has no URL that can be gone to, which S3 takes for none */
export function successRedirect(
  url: string | null,
  { bucket, key, etag }: Omit<PostedObject, 'location'>,
): string | null {
  if (url === null || !/^https?:\/\//i.test(url) || NOT_IN_URL.test(url) || !URL.canParse(url)) return null
  const [address, fragment] = url.split('#', 2) as [string, string?]
  const query = `bucket=${encodeURIComponent(bucket)}&key=${encodeURIComponent(key)}&etag=%22${etag}%22`
  return `${address}${address.includes('?') ? '&' : '?'}${query}${fragment === undefined ? '' : `#${fragment}`}`
}
