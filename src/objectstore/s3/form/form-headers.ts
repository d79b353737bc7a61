/** The fields of a browser's form as the headers that say the same of an object. */
import { readTagging } from '../objects/tagging.ts'
import type { Tag } from '../../operations.ts'
import type { FormFields } from './form-fields.ts'

/** Fields that describe the object, or its bytes. The others describe the form itself. */
const OF_THE_OBJECT = /^(?:cache-control|content-(?:disposition|encoding|language|md5|type)|expires|x-amz-.+)$/

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

/** @throws S3Error MalformedXML, InvalidTag */
export function formTags(fields: FormFields): readonly Tag[] {
  const document = fields.get('tagging')
  return document === null ? [] : readTagging(Buffer.from(document))
}
