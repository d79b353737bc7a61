/** The fields of a browser's form as the headers that say the same of an object. */
import { readTagging } from '../objects/tagging.ts'
import type { Tag } from '../../operations.ts'
import { fieldName } from './form-fields.ts'
import type { FormFields } from './form-fields.ts'

/** Fields that describe the object, or its bytes. The others describe the form itself. */
const OF_THE_OBJECT = /^(?:cache-control|content-(?:disposition|encoding|language|md5|type)|expires|x-amz-.+)$/
/** The header that describes the whole body of the request. */
const OF_THE_BODY = /^x-(?:amz|obj)-content-sha256$/

/** By lower-case name. */
export function formHeaders(fields: FormFields): ReadonlyMap<string, string> {
  const headers = new Map<string, string>()
  for (const [name, value] of fields) {
    if (name === 'acl') headers.set('x-amz-acl', value)
    else if (OF_THE_OBJECT.test(name)) headers.set(name, value)
  }
  headers.delete('x-amz-tagging') // tags are a document here, in a field of their own
  return headers
}

/** Headers of a request that has a form, without those that would describe an object: only fields do, so a policy must not see these headers. */
export const withoutObjectHeaders = (headers: ReadonlyMap<string, string>): ReadonlyMap<string, string> =>
  new Map([...headers].filter(([name]) => OF_THE_BODY.test(name) || !OF_THE_OBJECT.test(fieldName(name))))

/** @throws S3Error MalformedXML, InvalidTag */
export function formTags(fields: FormFields): readonly Tag[] {
  const document = fields.get('tagging')
  return document === null ? [] : readTagging(Buffer.from(document))
}
