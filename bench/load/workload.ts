/**
 * What a service brings to the load tool. Everything else (connections, pacing, latency, disk rate, progress, report)
 * is shared and knows no service.
 *
 *   service.plan(options) ──► Workload ──openSource()──► one RequestSource per connection ──next()──► request bytes
 *
 * A **task** is what is started, paced and timed: one request, or several on the same connection, each made from the answer to the
 * one before. What it completes is counted in **units**.
 *
 * To add a service: implement LoadService in a folder of its own and list it in `services.ts`.
 */
import type { HttpResponse } from './http-response-parser.ts'
import type { HttpConnection, HttpConnectionOptions, Target } from './http-connection.ts'
import type { OptionTable, OptionValues } from './options.ts'
import type { RunOptions } from './run.ts'

export interface LoadService {
  readonly name: string
  /** One line for `load --help`. */
  readonly summary: string
  /** Complete command lines for `load <name> --help`. */
  readonly examples: readonly string[]
  /** Its own options; they are merged over the shared ones, so a service may give a shared option a default. */
  readonly options: OptionTable
  /** @throws UsageError */
  plan(options: OptionValues, run: RunOptions): Workload
}

export interface Workload {
  readonly target: Target
  /** What is counted, in the plural: records, spans, messages, objects. */
  readonly unit: string
  /** What is timed, in the plural: requests, cycles. */
  readonly task: string
  /** Units that a task is meant to complete; the open-loop rate is divided by it. */
  readonly unitsPerTask: number
  /** Shown in the report and in the JSON result, in this order. Must not hold secrets. */
  readonly configuration: readonly (readonly [name: string, value: string])[]
  /**
   * Makes what the run needs on the server, before anything is measured.
   *
   * @param say prints a line about work that takes a while
   * @throws ConnectionError, RefusedError
   */
  prepare(say: (line: string) => void): Promise<void>
  openSource(connection: number): RequestSource
  /** Absent: HTTP. */
  readonly connect?: (options: HttpConnectionOptions) => Connection
  /** The stable name of a refusal, such as `record_quota_exceeded`. Never throws; 'unknown' when it cannot tell. */
  refusalKind(response: HttpResponse): string
  /** Asks the server for what it acknowledged, after a run with --verify. Null: there is nothing to ask for. */
  readonly verify: (() => Promise<Verification>) | null
  close(): void
}

/** What carries requests, one at a time. */
export type Connection = Pick<HttpConnection, 'isOpen' | 'open' | 'send' | 'destroy'>

/** The tasks of one connection. One is under way at a time: next() is called after the last one was reported back. */
export interface RequestSource {
  /** The first request of a task. Bytes stay valid and unchanged until the next call of next() or succeeded(). */
  next(): LoadRequest | Promise<LoadRequest>
  /**
   * The last request was answered with success: 2xx. Runs before the connection sends again.
   *
   * @returns the next request of the task, or what the task came to
   * @throws UnreadableAnswerError
   */
  succeeded(response: HttpResponse): LoadRequest | TaskResult
  /** The last request got no answer that can be read, or a 5xx: the server may or may not have done it. Ends the task. */
  unresolved(): void
}

export interface LoadRequest {
  /** Begins the request; small ones are here as a whole, because one write is cheaper than two. */
  readonly head: Buffer
  readonly body: Buffer | null
}

export interface TaskResult {
  /** 0, and nothing refused: there was nothing to do. Counted apart, in no latency. */
  readonly units: number
  /** What the server has to store or brings, before encodings. */
  readonly payloadBytes: number
  /** The same as it went over the wire. */
  readonly bodyBytes: number
  /** Units that a successful answer refused, by the kind of each. */
  readonly refused: readonly string[]
}

export interface Verification {
  readonly ok: boolean
  /** What was asked and how it went, one sentence each. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[]
}

/** A successful answer without what it must have. */
export class UnreadableAnswerError extends Error {
  override readonly name = 'UnreadableAnswerError'
}

/** The server refused what the run needs: one line, exit code 1. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}
