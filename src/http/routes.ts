/**
 * A service as the HTTP front sees it: a table of routes, and its refusals for requests that no route answers.
 */
import type { OwnIds } from './request-ids.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import type { WebSocketEndpoint } from './web-socket.ts'

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

export interface Route {
  readonly method: Method
  /** '/v1/endpoint/:activation_id'; a parameter is one whole segment that is not empty. '/*' at the end takes any rest. */
  readonly path: string
  readonly endpoint: Endpoint
}

export interface Endpoint {
  /**
   * Called when the headers are in. Answers at once, or reads the body, or keeps the exchange and answers later. `head` is dead
   * when this returns, and `exchange.readBody` must be called before that.
   */
  begin(head: RequestHead, exchange: Exchange): void
  /** The route also answers connections without a certificate, where the service asks for one. */
  readonly isPublic?: true
  /** For a GET route that also takes WebSockets: these do not come to `begin`. */
  readonly webSocket?: WebSocketEndpoint
  /** For the OpenAPI document; routes without one are left out. */
  readonly document?: OperationDocument
}

/** An OpenAPI operation, as far as an endpoint knows it itself. */
export interface OperationDocument {
  readonly summary: string
  /** What the summary leaves out. */
  readonly description?: string
  readonly deprecated?: true
  readonly query?: readonly { readonly name: string; readonly schema: object }[]
  readonly headers?: readonly { readonly name: string; readonly required: boolean; readonly schema: object }[]
  /** Names of security schemes of the service; all of them are needed. */
  readonly security?: readonly string[]
  readonly requestBody?: {
    readonly mediaTypes: readonly string[]
    readonly schema?: object
    readonly optional?: boolean
  }
  readonly replies: readonly {
    readonly status: number | 'default'
    readonly description: string
    readonly mediaType?: string
    readonly schema?: object
  }[]
}

/** Message of the refusal `withoutCertificate`. */
export const WITHOUT_CERTIFICATE = 'the connection shows no certificate of an authority of this service'

/** The part of a service that exists before it is open. */
export interface ServiceFront {
  /** For logs: 'logstore'. */
  readonly name: string
  /** Lower case; the client's own id is read from it, and every response carries it. */
  readonly requestIdHeader: string
  /** Lower case; where the client's own id may stand as well. */
  readonly requestIdAlias?: string
  /** Which ids of clients are kept. */
  readonly ownRequestIds: OwnIds
  /** Generated ids begin with it. */
  readonly requestIdPrefix: string
  /**
   * Answers 401 or 403 to a client without a certificate, where the service asks every client for one. If it is absent, the service looks at
   * `clientCertificate` itself.
   */
  readonly withoutCertificate?: (head: RequestHead, exchange: Exchange) => void
  /** The headers do not say clearly where the body ends: 400. The connection is closed behind the answer. */
  malformed(exchange: Exchange, message: string): void
  /** An endpoint threw: our own bug, already logged. */
  internalError(exchange: Exchange): void
}

export interface HttpService extends ServiceFront {
  readonly routes: readonly Route[]
  notFound(head: RequestHead, exchange: Exchange): void
  /** @param allow for the Allow header, sorted */
  methodNotAllowed(head: RequestHead, exchange: Exchange, allow: readonly string[]): void
}

/** A route table compiled to one entry per path: the endpoint of each method, HEAD included wherever there is a GET. */
export interface CompiledPath {
  readonly path: string
  readonly endpoints: ReadonlyMap<Method, Endpoint>
  readonly allow: readonly string[]
}

export function compileRoutes(routes: readonly Route[]): readonly CompiledPath[] {
  const byPath = new Map<string, Map<Method, Endpoint>>()
  for (const { method, path, endpoint } of routes) {
    const endpoints = byPath.get(path) ?? new Map<Method, Endpoint>()
    if (endpoints.has(method)) throw new Error(`two routes for ${method} ${path}`)
    byPath.set(path, endpoints.set(method, endpoint))
  }
  return Array.from(byPath, ([path, endpoints]) => {
    const get = endpoints.get('GET')
    if (get && !endpoints.has('HEAD')) endpoints.set('HEAD', get)
    return { path, endpoints, allow: [...endpoints.keys()].sort() }
  })
}
