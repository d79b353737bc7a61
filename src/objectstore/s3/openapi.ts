/**
 * The gateway's operations for the OpenAPI document, from their table. Operations of one path and method are told apart as the table does:
 * by what follows the path, `?cors`, or `#x-obj-copy-source` for a header that they need.
 */
import { ENDPOINT_HELPER_PATH_PARAMETERS } from '../../endpoint-helper/routes.ts'
import { openApiDocument } from '../../http/openapi.ts'
import type { DocumentedRoute } from '../../http/openapi.ts'
import type { OperationDocument } from '../../http/routes.ts'
import { OPERATIONS } from './operations-table.ts'
import type { Extension, Operation, OperationTarget } from './operations-table.ts'

const PATHS: Readonly<Record<OperationTarget, readonly string[]>> = {
  service: ['/'],
  bucket: ['/:bucket'],
  object: ['/:bucket/:key'],
  'bucket or object': ['/:bucket', '/:bucket/:key'],
}
const XML = 'application/xml'
const TEXT = { type: 'string' }

/** @param management routes beside the gateway */
export const openApiOf = (
  version: string,
  management: readonly DocumentedRoute[],
  extensions: ReadonlySet<Extension>,
): object =>
  openApiDocument(
    { title: 'trilog object store, profile objapi-core-v1', version },
    [
      ...management,
      ...OPERATIONS.filter(({ extension }) => extension === null || extensions.has(extension)).flatMap(routesOf),
    ],
    { pathParameters: ENDPOINT_HELPER_PATH_PARAMETERS },
  )

function routesOf(operation: Operation): DocumentedRoute[] {
  const { method, target, selectors, header } = operation
  const query = selectors.map(({ name, value }) => (value === null ? name : `${name}=${value}`)).join('&')
  const suffix = `${query === '' ? '' : `?${query}`}${header === null ? '' : `#x-obj-${header}`}`
  return PATHS[target].map((path) => ({ method, path: path + suffix, endpoint: { document: documentOf(operation) } }))
}

function documentOf({ name, selectors, parameters, body }: Operation): OperationDocument {
  const asked = [...selectors.map((selector) => selector.name), ...(parameters ?? [])]
  return {
    summary: name,
    query: asked.map((parameter) => ({ name: parameter, schema: TEXT })),
    ...(body !== 'none' && {
      requestBody: { mediaTypes: [body === 'buffered' ? XML : 'application/octet-stream'], optional: true },
    }),
    replies: [
      { status: 200, description: "as Amazon S3's REST API for the same operation" },
      { status: 'default', description: 'an error', mediaType: XML },
    ],
  }
}
