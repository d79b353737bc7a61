/**
 * What a service brings to the load tool. Everything else (connections, pacing, latency, disk rate, progress, report)
 * is shared and knows no service.
 *
 *   service.plan(options) ──► Workload ──openSource()──► one RequestSource per connection ──next()──► request bytes
 *
 * To add a service: implement LoadService in a folder of its own and list it in `services.ts`.
 */
import type { HttpResponse } from './http-response-parser.ts'
import type { Target } from './http-connection.ts'
import type { OptionTable, OptionValues } from './options.ts'

export interface LoadService {
  readonly name: string
  /** One line for `load --help`. */
  readonly summary: string
  /** Complete command lines for `load <name> --help`. */
  readonly examples: readonly string[]
  /** Its own options; they are merged over the shared ones, so a service may give a shared option a default. */
  readonly options: OptionTable
  /** @throws UsageError */
  plan(options: OptionValues): Workload
}

export interface Workload {
  readonly target: Target
  /** What is counted, in the plural: records, spans, messages, objects. */
  readonly unit: string
  /** Units in every request; the open-loop rate is divided by it. */
  readonly unitsPerRequest: number
  /** Shown in the report and in the JSON result, in this order. Must not hold secrets. */
  readonly configuration: readonly (readonly [name: string, value: string])[]
  openSource(connection: number): RequestSource
  /** The stable name of a refusal, such as `record_quota_exceeded`. Never throws; 'unknown' when it cannot tell. */
  refusalKind(response: HttpResponse): string
  /** Asks the server for what it acknowledged. */
  verify(): Promise<Verification>
  close(): void
}

/** The requests of one connection. One is under way at a time: next() is called after the last one was reported back. */
export interface RequestSource {
  /** The bytes stay valid and unchanged until the next call. */
  next(): LoadRequest | Promise<LoadRequest>
  /** The last request was answered with status 200. Runs before the connection sends again. */
  acknowledged(response: HttpResponse): void
  /** The last request got no answer, or a 5xx: the server may or may not have kept it. */
  unresolved(): void
}

export interface LoadRequest {
  readonly head: Buffer
  readonly body: Buffer
  /** Size of the body before content encoding: what the server has to store. */
  readonly payloadBytes: number
}

export interface Verification {
  readonly ok: boolean
  /** What was asked and how it went, one sentence each. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[]
}
