/** Requests by `fetch`, which browsers have. It does not say whether a request that failed was sent: it may have been. */
import { refuse } from '../../broker/refusals.ts'
import type { HttpAnswer, HttpRequest, HttpTransport } from './transport.ts'

/** A part `.` or `..` of a path, however it is written: a URL leaves it out. */
const DOTS = /\/(\.|%2e){1,2}(?=[/?]|$)/i

export const fetchTransport = (): HttpTransport => ({
  async send({ origin, method, path, headers, body, signal }: HttpRequest): Promise<HttpAnswer> {
    if (DOTS.test(path)) throw refuse('invalid_request', 'fetch cannot send a request for the name . or ..')
    const response = await fetch(`${origin}${path}`, {
      method,
      headers,
      body,
      signal,
      redirect: 'error',
      credentials: 'omit',
      referrerPolicy: 'no-referrer',
    })
    return {
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      leader: response.headers.get('x-trilog-leader'),
      text: await response.text(),
    }
  },
})
