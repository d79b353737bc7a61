/**
 * Hands requests of the page on to a service, and its answers back. It adds no right: what a request may do is what its own credentials allow.
 *
 * F1 [streamed]      bodies pass in both directions as fast as the slower side takes them; neither is gathered
 * F2 [named-headers] only headers that a service is known to read go on. So no visitor can act as a trusted proxy or bring the identity
 *                    that the broker's mode `external` takes from one, and no cookie, referrer or origin of the page arrives
 * F3 [as-written]    path and query go on as they came, without the prefix of the service, and `Host` is the service's own: that is what
 *                    the page signs for
 * F4 [inert]         an answer is never more than data to the browser: no script runs in it, and what a visitor opens by its address is saved
 * F5 [forgotten]     nothing of a request is kept, and none of it is logged
 * F6 [answered]      every visitor gets an answer or a closed connection, whatever the service sends: what is no answer of HTTP must neither
 *                    leave a page waiting nor end this process
 * F7 [parts-raw]     a part of an encoded object goes without its encoding: browsers would decode it, and fail
 */
import { request as httpRequest } from 'node:http'
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { pipeline } from 'node:stream'
import { answerProblem } from './answers.ts'

/** Where a service is. */
export interface Target {
  /** Without a slash at the end. */
  readonly url: string
  /** Whether it is part of this process: then its certificate need not have the name that it is reached by. */
  readonly isLocal: boolean
  /** F2: names, and beginnings of names that end with a hyphen. */
  readonly headers: readonly string[]
}

/** A service that takes no connection in this time counts as away. */
const CONNECT_MS = 10_000

/** Objects may have as many headers as a request that stores them. */
export const HEADER_BYTES_MAX = 48 * 1024

const PARTIAL = 206

const COMMON: ReadonlySet<string> = new Set([
  'accept',
  'authorization',
  'content-length',
  'content-type',
  'transfer-encoding',
  'x-request-id',
])

/** Headers of answers that are left out: those of the connection, of other sites, and those that the console sets itself. */
const KEPT_BACK = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'set-cookie',
  'trailer',
  'upgrade',
  'content-security-policy',
  'x-frame-options',
])

/** F4 */
const INERT: OutgoingHttpHeaders = {
  'content-security-policy': "default-src 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** @param target path and query behind the prefix of the service, raw */
export function forward(
  { url, isLocal, headers: names }: Target,
  path: string,
  visit: IncomingMessage,
  answer: ServerResponse,
): void {
  const { protocol, hostname, port, pathname } = new URL(url)
  const send = protocol === 'https:' ? httpsRequest : httpRequest
  const asked = send({
    protocol,
    hostname: hostname.replace(/^\[(.*)\]$/, '$1'),
    port,
    method: visit.method,
    path: `${pathname === '/' ? '' : pathname}${path}`,
    headers: { ...headersFor(visit.headers, names), connection: 'keep-alive' }, // F2
    timeout: CONNECT_MS,
    agent: false, // services close idle connections, which would meet the next request
    rejectUnauthorized: !isLocal,
    maxHeaderSize: HEADER_BYTES_MAX,
  })
  asked.on('timeout', () => {
    if (asked.socket?.connecting !== false) asked.destroy(new Error('it does not accept the connection in time'))
  })
  let response: IncomingMessage | null = null
  asked.on('response', (given) => {
    try {
      answer.writeHead(given.statusCode ?? 502, headersOf(given, visit))
    } catch (error) {
      return void asked.destroy(error as Error) // F6: Node reads more than it writes, such as the status 099
    }
    response = given
    pipeline(given, answer, () => {}) // F1; an answer that breaks off in the service breaks off here as well
  })
  const fail = (error: NodeJS.ErrnoException): void => {
    if (response?.complete) return // bytes behind the answer are no reason to cut it
    if (answer.headersSent) return void answer.destroy()
    visit.unpipe(asked)
    visit.resume()
    answerProblem(answer, 502, `${url} does not answer: ${error.code ?? error.message}`)
  }
  asked.on('error', fail)
  asked.on('close', () => {
    if (response === null && !answer.headersSent) fail(new Error('it changes the protocol')) // F6: Node drops such an answer without an error
  })
  answer.on('close', () => asked.destroy())
  visit.pipe(asked) // F1
}

function headersFor(given: IncomingHttpHeaders, names: readonly string[]): OutgoingHttpHeaders {
  const isKnown = (name: string): boolean =>
    COMMON.has(name) || names.some((each) => (each.endsWith('-') ? name.startsWith(each) : name === each))
  return Object.fromEntries(Object.entries(given).filter(([name]) => isKnown(name)))
}

/** F4 */
function headersOf(given: IncomingMessage, visit: IncomingMessage): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = { 'cache-control': 'no-store' }
  for (const [name, value] of Object.entries(given.headers)) {
    if (!KEPT_BACK.has(name) && !name.startsWith('access-control-')) headers[name] = value
  }
  if (given.statusCode === PARTIAL) delete headers['content-encoding'] // F7
  const isOpened = visit.headers['sec-fetch-dest'] === 'document'
  const disposition = given.headers['content-disposition']
  if (isOpened && !/^attachment\b/i.test(disposition ?? '')) headers['content-disposition'] = 'attachment'
  return Object.assign(headers, INERT)
}
