/** Query parameters that replace headers of an answer: for links to an object. */
import { refuse } from '../../refusals.ts'
import type { GatewayRequest } from '../handler.ts'
import { demandPlain } from './attributes.ts'
import type { ContentAttributes } from './attributes.ts'

const PARAMETERS = [
  ['response-content-type', 'contentType'],
  ['response-cache-control', 'cacheControl'],
  ['response-content-disposition', 'contentDisposition'],
  ['response-content-encoding', 'contentEncoding'],
  ['response-content-language', 'contentLanguage'],
  ['response-expires', 'expires'],
] as const satisfies readonly (readonly [string, keyof ContentAttributes])[]

const PREFIX = 'response-'

function hasAny(query: ReadonlyMap<string, string>): boolean {
  for (const name of query.keys()) if (name.startsWith(PREFIX)) return true
  return false
}

/** Null: the request names none. @throws S3Error InvalidRequest for an anonymous caller, InvalidArgument for a value that cannot be a header */
export function responseOverrides({
  query,
  caller,
}: Pick<GatewayRequest, 'query' | 'caller'>): Partial<ContentAttributes> | null {
  if (!hasAny(query)) return null
  const overrides = PARAMETERS.flatMap(([parameter, attribute]) => {
    const value = query.get(parameter)
    if (!value) return []
    demandPlain(parameter, value)
    return [[attribute, value] as const]
  })
  if (overrides.length > 0 && caller.principal === null) {
    throw refuse('InvalidRequest', 'Request specific response headers cannot be used for anonymous GET requests.')
  }
  return overrides.length === 0 ? null : Object.fromEntries(overrides)
}
