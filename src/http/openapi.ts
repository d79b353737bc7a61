/**
 * The OpenAPI 3.1 document of a service, from its route table. Routes without a description are left out.
 *
 * D1  each operation has a name, which the service gives; no two have the same
 * D2  a named schema stands once, among the components, and is referred to everywhere else. So are bodies of requests and
 *     replies, under the name of their operation: generators make a type of each
 */
import type { OperationDocument } from './routes.ts'

export interface OpenApiInfo {
  readonly title: string
  readonly version: string
  readonly description: string
}

/** A route, as far as it is documented. */
export interface DocumentedRoute {
  readonly method: string
  readonly path: string
  readonly endpoint: { readonly document?: OperationDocument }
}

interface OperationName {
  /** In lower camel case: `publishRecord`. */
  readonly id: string
  readonly tag: string
}

/** Values that show what a request or a reply looks like. */
export interface OperationExample {
  readonly request?: unknown
  readonly reply?: unknown
}

export interface OpenApiParts {
  /** Where the service listens unless it is told otherwise. */
  readonly defaultUrl: string
  /** By method and path as the route table has them: `GET /v1/streams/:stream`. */
  readonly operations: Readonly<Record<string, OperationName>>
  /** Description of each tag, by its name. */
  readonly tags: Readonly<Record<string, string>>
  /** Parts of bodies that deserve a name of their own. */
  readonly schemas?: Readonly<Record<string, object>>
  /** By the id of the operation. */
  readonly examples?: Readonly<Record<string, OperationExample>>
  /** As OpenAPI has them, by the names that operations use. */
  readonly securitySchemes?: Readonly<Record<string, object>>
  /** Security of operations that name none themselves. Default: none. */
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  /** Schemas of parameters in paths by their names; a parameter without one is any string. */
  readonly pathParameters?: Readonly<Record<string, object>>
}

const LICENSE = { name: 'Apache-2.0', identifier: 'Apache-2.0' }

export function openApiDocument(
  info: OpenApiInfo,
  routes: readonly DocumentedRoute[],
  { defaultUrl, operations, tags, schemas = {}, examples = {}, securitySchemes, ...parts }: OpenApiParts,
): object {
  const components = new Components(schemas)
  const paths: Record<string, Record<string, object>> = {}
  for (const { method, path, endpoint } of routes) {
    if (!endpoint.document) continue
    const name = operations[`${method} ${path}`]
    if (name === undefined) throw new Error(`${method} ${path} has no name in the OpenAPI document`) // D1
    const { security = [], pathParameters = {} } = parts
    const place = { path, name, example: examples[name.id] ?? {}, security, pathParameters, components }
    const ofPath = (paths[path.replaceAll(/:(\w+)/g, '{$1}')] ??= {})
    ofPath[method.toLowerCase()] = operationOf(endpoint.document, place)
  }
  return {
    openapi: '3.1.0',
    info: { ...info, license: LICENSE },
    servers: [{ url: '/' }, { url: defaultUrl, description: 'default address' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: { ...(securitySchemes && { securitySchemes }), schemas: components.all() },
  }
}

interface OperationPlace {
  readonly path: string
  readonly name: OperationName
  readonly example: OperationExample
  readonly security: NonNullable<OpenApiParts['security']>
  readonly pathParameters: Readonly<Record<string, object>>
  readonly components: Components
}

function operationOf(document: OperationDocument, place: OperationPlace): object {
  const { summary, description, deprecated, query = [], headers = [], security, requestBody, replies } = document
  const { path, name, example, pathParameters, components } = place
  const type = name.id.charAt(0).toUpperCase() + name.id.slice(1)
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: components.refer(pathParameters[name] ?? { type: 'string' }),
  }))
  const parameters = [
    ...inPath,
    ...query.map(({ name, schema }) => ({ name, in: 'query', schema: components.refer(schema) })),
    ...headers.map(({ name, required, schema }) => ({
      name,
      in: 'header',
      required,
      schema: components.refer(schema),
    })),
  ]
  const content = (mediaTypes: readonly string[], schema: object | undefined, type: string, example: unknown): object =>
    Object.fromEntries(
      mediaTypes.map((mediaType) => [
        mediaType,
        {
          ...(schema && { schema: components.referTo(type, schema) }),
          ...(example !== undefined && { example }),
        },
      ]),
    )
  return {
    operationId: name.id,
    tags: [name.tag],
    summary,
    ...(description && { description }),
    ...(deprecated && { deprecated }),
    security: security ? alternatives(security) : place.security,
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && {
      requestBody: {
        required: !requestBody.optional,
        content: content(requestBody.mediaTypes, requestBody.schema, `${type}Request`, example.request),
      },
    }),
    responses: Object.fromEntries(
      replies.map(({ status, description, mediaType, schema }) => {
        const isSuccess = typeof status === 'number' && status < 300
        const shown = isSuccess ? example.reply : undefined
        const own = isSuccess ? `${type}Reply` : `${type}Reply${status}`
        return [
          String(status),
          { description, ...(mediaType && { content: content([mediaType], schema, own, shown) }) },
        ]
      }),
    ),
  }
}

/** Security schemes, all of which are needed; none: no credentials are needed. */
const alternatives = (schemes: readonly string[]): object[] =>
  schemes.length === 0 ? [] : [Object.fromEntries(schemes.map((scheme) => [scheme, []]))]

/** D2 */
class Components {
  /** Names of schemas by their JSON text, as builders of schemas copy the objects. */
  readonly #names = new Map<string, string>()
  readonly #schemas = new Map<string, object>()

  constructor(schemas: Readonly<Record<string, object>>) {
    for (const [name, schema] of Object.entries(schemas)) this.#names.set(JSON.stringify(schema), name)
    for (const [name, schema] of Object.entries(schemas)) this.#schemas.set(name, this.#inside(schema))
  }

  all(): object {
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)))
  }

  /** Puts the schema of a body under a name; one that is no object stands where it is used. */
  referTo(name: string, schema: object): object {
    const isObject = 'properties' in schema
    const text = JSON.stringify(schema)
    if (isObject && !this.#names.has(text)) {
      this.#names.set(text, name)
      this.#schemas.set(name, this.#inside(schema))
    }
    return this.refer(schema)
  }

  refer(schema: object): object {
    const name = this.#names.get(JSON.stringify(schema))
    return name === undefined ? this.#inside(schema) : { $ref: `#/components/schemas/${name}` }
  }

  /** As JSON, without the fields that the builder of schemas keeps for itself. */
  #inside(schema: object): object {
    const members = Object.entries(schema).filter(([key]) => !key.startsWith('~'))
    return Object.fromEntries(members.map(([key, value]: [string, unknown]) => [key, this.#value(value)]))
  }

  #value(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#value(each))
    return typeof value === 'object' && value !== null ? this.refer(value) : value
  }
}
