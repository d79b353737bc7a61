/**
 * What carries a request to a broker and its answer back. A transport of one's own can add credentials to each request:
 *
 *   const inner = fetchTransport()
 *   const transport = { send: (request) => inner.send({ ...request, headers: { ...request.headers, authorization: … } }) }
 */

export interface HttpRequest {
  /** `http://host:port`, one of those that the client was given. */
  readonly origin: string
  readonly method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE'
  /** With the query, percent-encoded. */
  readonly path: string
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** JSON; null: none. */
  readonly body: string | null
  /** Aborted when the caller no longer waits. It is created when it is first read. */
  readonly signal: AbortSignal
  /** The same, cheaper than a signal: only the listener that was given last is called. */
  readonly onAbandoned?: (listener: () => void) => void
}

export interface HttpAnswer {
  readonly status: number
  /** The header `retry-after`; null: there is none. */
  readonly retryAfter: string | null
  /** The header `x-trilog-leader`: where the leading node of the cluster is. Absent or null: there is none. */
  readonly leader?: string | null
  readonly text: string
}

export interface HttpTransport {
  /**
   * Follows no redirect: credentials are for this broker.
   *
   * @throws NotSent when there was no connection; any other error means that the broker may have got the request
   */
  send(request: HttpRequest): Promise<HttpAnswer>
  /** Closes the connections that are kept. */
  close?(): void
}

/** Nothing of the request left this machine, so any request may be sent to another address. */
export class NotSent extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'NotSent'
  }
}
