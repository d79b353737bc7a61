/**
 * ACLs are outside the profile. Those that many tools always send are accepted, as they say only what holds anyway. With the extension
 * `ignore-acl-headers` all ACLs are taken out of requests and forms, and only policies see them.
 */
import { eitherHeader } from '../auth/request-identity.ts'
import { headerNotImplemented } from './header-refusals.ts'

const ACL_HEADER = /^x-(?:obj|amz)-(?:acl|grant-.+)$/
const ACCEPTED: ReadonlySet<string> = new Set(['private', 'bucket-owner-full-control'])

export const withoutAcls = (headers: ReadonlyMap<string, string>): ReadonlyMap<string, string> =>
  new Map([...headers].filter(([name]) => !ACL_HEADER.test(name)))

/** @throws S3Error NotImplemented */
export function checkAcl(headers: ReadonlyMap<string, string>): void {
  const acl = eitherHeader(headers, 'acl')
  if (acl !== undefined && !ACCEPTED.has(acl)) throw headerNotImplemented('x-amz-acl')
  for (const name of headers.keys()) {
    if (name.startsWith('x-') && ACL_HEADER.test(name) && !name.endsWith('-acl')) throw headerNotImplemented(name)
  }
}
