/** The OpenAPI 3.1 document of a service, from its route table: routes that say nothing about themselves are left out. */
import type { OperationDocument } from './routes.ts'

export interface OpenApiInfo {
  readonly title: string
  readonly version: string
  readonly description?: string
}

/** A route, as far as it is documented. */
export interface DocumentedRoute {
  readonly method: string
  readonly path: string
  readonly endpoint: { readonly document?: OperationDocument }
}

export interface OpenApiParts {
  /** As OpenAPI has them, by the names that operations use. */
  readonly securitySchemes?: Readonly<Record<string, object>>
  /** Schemas of parameters in paths by their names; one without is any string. */
  readonly pathParameters?: Readonly<Record<string, object>>
}

export function openApiDocument(
  info: OpenApiInfo,
  routes: readonly DocumentedRoute[],
  { securitySchemes, pathParameters = {} }: OpenApiParts = {},
): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const { method, path, endpoint } of routes) {
    if (!endpoint.document) continue
    const operations = (paths[path.replaceAll(/:(\w+)/g, '{$1}')] ??= {})
    operations[method.toLowerCase()] = operationOf(method, path, endpoint.document, pathParameters)
  }
  return { openapi: '3.1.0', info, paths, ...(securitySchemes && { components: { securitySchemes } }) }
}

function operationOf(
  method: string,
  path: string,
  document: OperationDocument,
  pathParameters: Readonly<Record<string, object>>,
): object {
  const { summary, query = [], headers = [], security, requestBody, replies } = document
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: pathParameters[name] ?? { type: 'string' },
  }))
  const parameters = [
    ...inPath,
    ...query.map(({ name, schema }) => ({ name, in: 'query', schema })),
    ...headers.map(({ name, required, schema }) => ({ name, in: 'header', required, schema })),
  ]
  return {
    operationId: `${method.toLowerCase()}${path.replaceAll(/[^A-Za-z0-9]+(\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    summary,
    ...(security && { security: [Object.fromEntries(security.map((scheme) => [scheme, []]))] }),
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && {
      requestBody: { required: !requestBody.optional, content: contentOf(requestBody.mediaTypes, requestBody.schema) },
    }),
    responses: Object.fromEntries(
      replies.map(({ status, description, mediaType, schema }) => [
        String(status),
        { description, ...(mediaType && { content: contentOf([mediaType], schema) }) },
      ]),
    ),
  }
}

function contentOf(mediaTypes: readonly string[], schema?: object): object {
  return Object.fromEntries(mediaTypes.map((type) => [type, schema ? { schema } : {}]))
}
