/**
 * The console serves its own page alone. A page of another site, or one whose name was made to point here, must not be able to use the
 * services through a visitor's browser.
 *
 * V1 [own-host]    `Host` is loopback, the bind address or a name of TRILOG_ALLOWED_HOSTS (../http/web-guard.ts W1)
 * V2 [own-page]    what reads or changes data comes from a page of this very origin, as far as the browser says where it comes from. A page of
 *                  another port of this machine is another origin. Reading may begin in the address bar, changing may not
 * V3 [data]        data are never taken as a script, a style sheet, a frame or a worker: a stored object must not run here
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { WebGuard } from '../http/web-guard.ts'

const READING_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD'])
/** Values of `Sec-Fetch-Dest` that data may have: a script asks for bytes, or the visitor saves them as a file. */
const DATA_DESTINATIONS: ReadonlySet<string> = new Set(['', 'empty', 'document'])

const FOREIGN_HOST =
  'the Host must be loopback or the address the console is bound to: add the name to TRILOG_ALLOWED_HOSTS'
const FOREIGN_PAGE =
  'only the page of the console itself may do this: open it under the address that the request was sent to, and have proxies leave Host as it is'
const NOT_DATA = 'an answer of a service is data: a page must not load it as a script, style sheet or frame'

export interface Visit {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  /** Whether it came over TLS of the console itself. */
  readonly isSecure: boolean
}

/** V1. Why the request is refused, in words; null: it is not. */
export const hostProblem = (guard: WebGuard, { headers }: Visit): string | null =>
  guard.hostProblem(headers.host ?? '') === null ? null : FOREIGN_HOST

/** V2 and V3, of a request for data, whose host was found to be own. */
export function dataProblem({ method, headers, isSecure }: Visit): string | null {
  const site = textOf(headers['sec-fetch-site'])
  const isReading = READING_METHODS.has(method)
  if (site !== '' && site !== 'same-origin' && !(site === 'none' && isReading)) return FOREIGN_PAGE
  const origin = textOf(headers.origin)
  if (origin !== '' && !isOwnOrigin(origin, headers.host ?? '', isSecure)) return FOREIGN_PAGE
  return DATA_DESTINATIONS.has(textOf(headers['sec-fetch-dest'])) ? null : NOT_DATA
}

/** Without TLS here the scheme is left open: a proxy may speak TLS to the browser. */
function isOwnOrigin(origin: string, host: string, isSecure: boolean): boolean {
  const [, scheme, rest] = /^(https?):\/\/(.+)$/i.exec(origin.toLowerCase()) ?? []
  return rest === host.toLowerCase() && (scheme === 'https' || !isSecure)
}

const textOf = (value: string | string[] | undefined): string =>
  Array.isArray(value) ? value.join(',') : (value ?? '')
