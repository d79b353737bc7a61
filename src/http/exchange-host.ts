import type { Link } from '../linked-list.ts'

/** A server as its exchanges see it. */
export interface ExchangeHost<Exchange> {
  readonly requestIdHeader: string
  /** CRLF and what goes before the id in an answer. */
  readonly requestIdLine: string
  readonly requestIdAlias: string | null
  readonly stalledClientMs: number
  /** It speaks TLS. */
  readonly isSecure: boolean
  /** The server is closing: answers ask the client to open no further request on this connection. */
  readonly closing: boolean
  nowMs(): number
  /** For the pace of clients. */
  readonly servedMs: number
  /** @param own what the client sent for one */
  requestIdOf(own: string): string
  /** Outside the present callback of the library. */
  later(task: () => void): void
  /** Sweeps the exchange until `unwatch`. */
  watch(exchange: Exchange): Link<Exchange>
  unwatch(link: Link<Exchange>): void
  /** So much more, or less, of its body is held in memory until it is whole. */
  hold(bytes: number): void
  /** Room for an answer, before it is made. @returns withdraws the request */
  reserve(bytes: number, granted: () => void): () => void
  /** Our own bug while serving a request: logged with its id, answered in the service's words. */
  failed(exchange: Exchange, error: unknown): void
  ended(exchange: Exchange): void
}
