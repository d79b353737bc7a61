/**
 * The OpenAPI document of the object store: the gateway's operations, from their table, and the routes beside it.
 *
 * S3 has several operations on one path and method, told apart by query parameters and headers. OpenAPI has only one: it gets the name of the
 * plainest of them, its description lists them, and its parameters are those of all.
 */
import { ENDPOINT_HELPER_OPERATIONS, ENDPOINT_HELPER_PATH_PARAMETERS } from '../../endpoint-helper/routes.ts'
import { openApiDocument } from '../../http/openapi.ts'
import type { DocumentedRoute, OpenApiParts } from '../../http/openapi.ts'
import type { OperationDocument } from '../../http/routes.ts'
import { STANDING_OPERATIONS } from '../../http/standing-endpoints.ts'
import { OPERATIONS, handlerName } from './operations-table.ts'
import type { Extension, Operation, OperationTarget } from './operations-table.ts'

const PATHS: Readonly<Record<OperationTarget, readonly string[]>> = {
  service: ['/'],
  bucket: ['/:bucket'],
  object: ['/:bucket/:key'],
  'bucket or object': ['/:bucket', '/:bucket/:key'],
}
const XML = 'application/xml'
const BYTES = 'application/octet-stream'
const TEXT = { type: 'string' }

const DESCRIPTION =
  "Buckets and objects, as in Amazon S3's REST API. Every x-obj- header may be sent as x-amz-. A key may have slashes: they are not encoded in its path."

const TAGS = {
  buckets: 'Buckets, their policy and CORS rules',
  objects: 'Objects, their tags, and uploads in parts',
  endpoints: 'A small store of objects by activation id',
  node: 'The node itself',
}

/** What an error says, in XML. */
const Refusal = {
  type: 'object',
  xml: { name: 'Error' },
  properties: { Code: TEXT, Message: TEXT, Resource: TEXT, RequestId: TEXT, HostId: TEXT },
  required: ['Code', 'Message', 'RequestId', 'HostId'],
}

const MANAGEMENT: OpenApiParts['operations'] = {
  ...STANDING_OPERATIONS,
  ...ENDPOINT_HELPER_OPERATIONS,
  'GET /v1/platform/capabilities': { id: 'getCapabilities', tag: 'node' },
  'GET /v1/endpoint/:activation_id/recent': { id: 'getNewestObject', tag: 'endpoints' },
}

/** @param management routes beside the gateway */
export function openApiOf(
  version: string,
  management: readonly DocumentedRoute[],
  extensions: ReadonlySet<Extension>,
): object {
  const families = familiesOf(OPERATIONS.filter(({ extension }) => extension === null || extensions.has(extension)))
  const ofGateway = families.map(({ route, operations, path }) => {
    const isPreflight = operations[0]!.target === 'bucket or object'
    const id = `${handlerName(plainest(operations).name)}${isPreflight ? (path === '/:bucket' ? 'OfBucket' : 'OfObject') : ''}`
    return [route, { id, tag: path === '/:bucket/:key' ? 'objects' : 'buckets' }] as const
  })
  return openApiDocument(
    { title: 'trilog object store, profile objapi-core-v1', version, description: DESCRIPTION },
    [
      ...management,
      ...families.map(({ method, path, operations }) => ({
        method,
        path,
        endpoint: { document: documentOf(operations) },
      })),
    ],
    {
      defaultUrl: 'http://127.0.0.1:9000',
      operations: { ...MANAGEMENT, ...Object.fromEntries(ofGateway) },
      tags: TAGS,
      schemas: { Refusal },
      securitySchemes: {
        sigv4: { type: 'apiKey', in: 'header', name: 'authorization', description: 'AWS Signature Version 4' },
      },
      security: [{}, { sigv4: [] }],
      pathParameters: {
        ...ENDPOINT_HELPER_PATH_PARAMETERS,
        bucket: { type: 'string', minLength: 3, maxLength: 63 },
        key: {
          type: 'string',
          minLength: 1,
          maxLength: 1024,
          description: 'key of the object: its length is that of its UTF-8 in bytes, and it may have slashes',
        },
      },
    },
  )
}

/** Operations of one method and path. */
interface Family {
  readonly route: string
  readonly method: string
  readonly path: string
  readonly operations: Operation[]
}

function familiesOf(operations: readonly Operation[]): readonly Family[] {
  const families = new Map<string, Family>()
  for (const operation of operations) {
    const { method } = operation
    for (const path of PATHS[operation.target]) {
      const route = `${method} ${path}`
      const family = families.get(route)
      if (family === undefined) families.set(route, { route, method, path, operations: [operation] })
      else family.operations.push(operation)
    }
  }
  return [...families.values()]
}

/** The operation that names the family: the one that no parameter or header selects, or else the listing. */
const plainest = (operations: readonly Operation[]): Operation =>
  operations.find(({ selectors, header }) => selectors.length === 0 && header === null) ??
  operations.find(({ name }) => name === 'ListObjectsV2') ??
  operations[0]!

function documentOf(operations: readonly Operation[]): OperationDocument {
  const plain = plainest(operations)
  const others = operations.filter((each) => each !== plain)
  const parameters = new Set(
    operations.flatMap((each) => [...each.selectors.map(({ name }) => name), ...(each.parameters ?? [])]),
  )
  const headers = new Set(operations.flatMap(({ header }) => (header === null ? [] : [`x-obj-${header}`])))
  const bodies = new Set(operations.flatMap(({ body }) => (body === 'none' ? [] : [body === 'buffered' ? XML : BYTES])))
  return {
    summary: [plain, ...others].map(({ name }) => name).join(', '),
    ...(others.length > 0 && { description: [plain, ...others].map(asked).join('. ') }),
    query: Array.from(parameters, (name) => ({ name, schema: TEXT })),
    headers: Array.from(headers, (name) => ({ name, required: false, schema: TEXT })),
    ...(bodies.size > 0 && { requestBody: { mediaTypes: [...bodies], optional: true } }),
    replies: [
      { status: 200, description: "as Amazon S3's REST API for the same operation" },
      { status: 'default', description: 'an error', mediaType: XML, schema: Refusal },
    ],
  }
}

/** What a request for the operation has: 'PutBucketCors: with ?cors'. */
function asked({ name, selectors, header }: Operation): string {
  const query = selectors.map(({ name, value }) => (value === null ? name : `${name}=${value}`)).join('&')
  const needs = [...(query === '' ? [] : [`?${query}`]), ...(header === null ? [] : [`the header x-obj-${header}`])]
  return needs.length === 0
    ? `${name}: without the parameters and headers of the other operations`
    : `${name}: with ${needs.join(' and ')}`
}
