import type { Link } from '../linked-list.ts'

/** A server as its exchanges see it. */
export interface ExchangeHost<Exchange> {
  readonly requestIdHeader: string
  /** What goes before the id in an answer: CRLF, the name of the header, a colon and a space. */
  readonly requestIdLine: string
  readonly requestIdAlias: string | null
  readonly stalledClientMs: number
  /** It speaks TLS. */
  readonly isSecure: boolean
  /** The server is closing: answers ask the client to open no further request on this connection. */
  readonly closing: boolean
  nowMs(): number
  /** The time by which the pace of clients is measured (`ServedTime`). */
  readonly servedMs: number
  /** @param own the id that the client sent */
  requestIdOf(own: string): string
  /** Runs the task outside the present callback of the library. */
  later(task: () => void): void
  /** Sweeps the exchange until `unwatch`. */
  watch(exchange: Exchange): Link<Exchange>
  unwatch(link: Link<Exchange>): void
  /** So many more bytes of a body or an answer are held in memory; fewer when negative. */
  hold(bytes: number): void
  /** Asks for room for an answer before it is made. @returns a function that withdraws the request */
  reserve(bytes: number, granted: () => void): () => void
  /** Our own bug while serving a request: logged with its id, answered in the service's words. */
  failed(exchange: Exchange, error: unknown): void
  ended(exchange: Exchange): void
}
