/**
 * Keeps web pages away from requests that need no credentials. A browser lets any page send requests to this machine and to its network. So
 * without credentials, only the browser's own headers tell a page from the user.
 *
 * W1 [own-host]   `Host` is loopback, the bind address, or a name of the settings. A page whose own name was made to point here (DNS rebinding)
 *                 sends that name. A service bound to all addresses takes every address as its own, not only those of the machine's interfaces:
 *                 an address cannot be rebound, and a container is reached by addresses of the machine around it
 * W2 [same-site]  a request that the browser marks as cross-site is refused
 * W3 [own-origin] a change, or a WebSocket, is refused when its `Origin` is neither the host that it is sent to nor one of W1: browsers send no mark
 *                 over plain HTTP to other machines. Here an address is own only when it is loopback, the bind address or named in the settings
 */
import { canonicalAddress, hostOf, isLoopback, withoutRootDot } from '../addresses.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import type { Endpoint, Route } from './routes.ts'
import { answerText } from './text-answer.ts'

export interface OwnHosts {
  /** Name or address that the service is bound to. */
  readonly bindHost: string
  /** Names and addresses from the settings, in lower case. */
  readonly allowedHosts: readonly string[]
  /** Every name below it is also one of this server. */
  readonly baseDomain?: string | null
}

const ALL_ADDRESSES = new Set(['0.0.0.0', '::'])
const READING_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])
/** How many values of Host are remembered as own: each port and each bucket makes another value. */
const KNOWN_HOSTS_MAX = 1000

const FOREIGN_HOST =
  'a request without credentials must have a loopback name or the bind address as its Host: add other names to TRILOG_ALLOWED_HOSTS'
const CROSS_SITE = 'pages of other web sites may not use this service without credentials'
const FOREIGN_ORIGIN =
  'pages of other hosts may not change anything without credentials: add the host of the page to TRILOG_ALLOWED_HOSTS'

export class WebGuard {
  readonly #hosts: ReadonlySet<string>
  readonly #takesEveryAddress: boolean
  /** The base domain with a dot before it; null: there is none. */
  readonly #suffix: string | null
  readonly #known = new Set<string>()
  /** The value that was found to be own last: most requests repeat it, and comparing is quicker than looking up. */
  #last: string | null = null

  constructor({ bindHost, allowedHosts, baseDomain = null }: OwnHosts) {
    const bind = canonicalAddress(bindHost) ?? bindHost.toLowerCase()
    this.#takesEveryAddress = ALL_ADDRESSES.has(bind)
    this.#hosts = new Set([bind, ...allowedHosts, ...(baseDomain === null ? [] : [baseDomain])])
    this.#suffix = baseDomain === null ? null : `.${baseDomain}`
  }

  /** W1 to W3. Why the request is refused, in words for the client; null: it is not. */
  problemOf(
    head: Pick<RequestHead, 'method' | 'header'>,
    changes: boolean = !READING_METHODS.has(head.method),
  ): string | null {
    const host = head.header('host')
    const problem = this.hostProblem(host)
    if (problem !== null) return problem
    if (isCrossSite(head.header('sec-fetch-site'))) return CROSS_SITE
    const origin = head.header('origin')
    if (origin === '' || !changes) return null
    return this.#isOwnOrigin(origin, host) ? null : FOREIGN_ORIGIN
  }

  /** W1 alone. */
  hostProblem(host: string): string | null {
    if (host === this.#last || this.#known.has(host)) return null
    const name = hostOf(host)
    if (name === null || !this.#isOwn(name, this.#takesEveryAddress)) return FOREIGN_HOST
    if (this.#known.size >= KNOWN_HOSTS_MAX) this.#known.clear()
    this.#known.add(host)
    this.#last = host
    return null
  }

  /** W2 alone, for a service that knows which origins may send cross-site requests. */
  siteProblem(fetchSite: string, mayOrigin: () => boolean): string | null {
    return isCrossSite(fetchSite) && !mayOrigin() ? CROSS_SITE : null
  }

  #isOwn(host: string, takesEveryAddress: boolean): boolean {
    const name = withoutRootDot(host)
    if (this.#hosts.has(name) || isLoopback(name) || name.endsWith('.localhost')) return true
    if (this.#suffix !== null && name.endsWith(this.#suffix)) return true
    return takesEveryAddress && canonicalAddress(name) !== null
  }

  /** W3 */
  #isOwnOrigin(origin: string, ownAuthority: string): boolean {
    const host = hostOf(/^https?:\/\/(.*)$/i.exec(origin)?.[1] ?? '')
    return host !== null && (host === hostOf(ownAuthority) || this.#isOwn(host, false))
  }
}

const isCrossSite = (fetchSite: string): boolean => fetchSite.toLowerCase() === 'cross-site'

/** @param refuse in the service's own shape, with status 403 */
export const guardEndpoint = (
  guard: WebGuard,
  endpoint: Endpoint,
  refuse: (exchange: Exchange, problem: string) => void = (exchange, problem) => answerText(exchange, 403, problem),
): Endpoint => {
  const { webSocket } = endpoint
  return {
    ...endpoint,
    begin(head, exchange) {
      const problem = guard.problemOf(head)
      if (problem === null) endpoint.begin(head, exchange)
      else refuse(exchange, problem)
    },
    ...(webSocket && {
      webSocket: {
        ...webSocket,
        accept(head, exchange) {
          const problem = guard.problemOf(head, true)
          if (problem === null) return webSocket.accept(head, exchange)
          refuse(exchange, problem)
          return null
        },
      },
    }),
  }
}

/** For routes beside those of a service. They answer problems as a JSON string. */
export const guardRoutes = (guard: WebGuard, routes: readonly Route[]): readonly Route[] =>
  routes.map((route) => ({ ...route, endpoint: guardEndpoint(guard, route.endpoint) }))
