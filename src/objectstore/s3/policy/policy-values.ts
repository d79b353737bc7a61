/** Values of a request for the keys that conditions of a policy ask for. */
import { eitherHeader } from '../auth/request-identity.ts'
import type { ConditionKey, ConditionValues } from './conditions.ts'
import { parseTaggingHeader } from '../objects/tagging.ts'
import type { Tag } from '../../operations.ts'
import type { GatewayRequest } from '../handler.ts'
import type { OperationName } from '../operations-table.ts'

export type AskedRequest = Pick<
  GatewayRequest,
  'operation' | 'caller' | 'query' | 'headers' | 'isSecure' | 'sourceAddress' | 'requestTags'
>

/** @param existingTags of the object that is asked for */
export function policyValues(request: AskedRequest, existingTags: readonly Tag[], nowMs: number): ConditionValues {
  const { caller, query, headers } = request
  let requestTags: readonly Tag[] | null = null // read once: a policy may ask for them hundreds of times
  const tagsOfRequest = (): readonly Tag[] => (requestTags ??= tagsOf(request))
  return ({ name, tag }) => {
    switch (name) {
      case 'aws:currenttime':
        return [new Date(nowMs).toISOString()]
      case 'aws:epochtime':
        return [String(Math.floor(nowMs / 1000))]
      case 'aws:referer':
        return present(headers.get('referer'))
      case 'aws:securetransport':
        return [String(request.isSecure)]
      case 'aws:sourceip':
        return present(request.sourceAddress?.() || undefined)
      case 'aws:useragent':
        return present(headers.get('user-agent'))
      case 'aws:username':
        return present(caller.principal?.id)
      case 's3:delimiter':
      case 's3:max-keys':
      case 's3:prefix':
        return present(query.get(name.slice('s3:'.length)))
      case 's3:if-match':
      case 's3:if-none-match':
        return present(headers.get(name.slice('s3:'.length)))
      case 's3:objectcreationoperation':
        return present(createsObject(request.operation)?.toString())
      case 's3:existingobjecttag/':
        return valuesOf(existingTags, tag)
      case 's3:requestobjecttag/':
        return valuesOf(tagsOfRequest(), tag)
      case 's3:requestobjecttagkeys':
        return tagsOfRequest().map(({ key }) => key)
      default:
        return present(eitherHeader(headers, name.slice('s3:x-amz-'.length)))
    }
  }
}

/**
 * Whether an operation puts an object under its key. A policy that demands `If-None-Match` needs to know: other steps of an upload in parts do not have
 * that header. Undefined: the operation stores no bytes.
 */
function createsObject(operation: OperationName): boolean | undefined {
  switch (operation) {
    case 'PutObject':
    case 'PostObject':
    case 'CopyObject':
    case 'CompleteMultipartUpload':
      return true
    case 'CreateMultipartUpload':
    case 'UploadPart':
    case 'UploadPartCopy':
      return false
    default:
      return undefined
  }
}

const present = (value: string | undefined): readonly string[] => (value === undefined ? [] : [value])

const valuesOf = (tags: readonly Tag[], wanted: string): readonly string[] =>
  tags.filter(({ key }) => key === wanted).map(({ value }) => value)

/** Tags that the request brings: in its body when that has been read, else in its header, which a copy that keeps the tags of its source ignores. */
function tagsOf({ operation, headers, requestTags }: AskedRequest): readonly Tag[] {
  if (requestTags !== undefined) return requestTags
  const header = eitherHeader(headers, 'tagging')
  const isIgnored = operation === 'CopyObject' && eitherHeader(headers, 'tagging-directive') !== 'REPLACE'
  return header === undefined || isIgnored ? [] : parseTaggingHeader(header)
}

/** True when a condition looks at the tags of the stored object, which have to be fetched. */
export const asksForExistingTags = (keys: readonly ConditionKey[]): boolean =>
  keys.some(({ name }) => name === 's3:existingobjecttag/')

/** True when a condition looks at the tags that the request brings. */
export const asksForRequestTags = (keys: readonly ConditionKey[]): boolean =>
  keys.some(({ name }) => name === 's3:requestobjecttag/' || name === 's3:requestobjecttagkeys')
