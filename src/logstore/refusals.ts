/**
 * Everything the log store refuses, in one table: what each kind means over HTTP and over gRPC.
 * Source: specification "Errors", contract "Log store" (status and kind).
 */

/** Codes of google.rpc.Code. */
const GRPC = {
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const

interface RefusalRule {
  readonly status: number
  readonly grpc: number
  /** The default. `permanentRefusal` overrides it for a request that can never succeed. */
  readonly retryable: boolean
}

const permanent = (status: number, grpc: number): RefusalRule => ({ status, grpc, retryable: false })
const retryable = (status: number, grpc: number): RefusalRule => ({ status, grpc, retryable: true })

export const REFUSALS = {
  missing_tenant: permanent(401, GRPC.UNAUTHENTICATED),
  missing_credentials: permanent(401, GRPC.UNAUTHENTICATED),
  unknown_tenant: permanent(403, GRPC.PERMISSION_DENIED),
  invalid_credentials: permanent(401, GRPC.UNAUTHENTICATED),
  tenant_mismatch: permanent(403, GRPC.PERMISSION_DENIED),
  dataset_not_authorized: permanent(403, GRPC.PERMISSION_DENIED),
  record_quota_exceeded: retryable(429, GRPC.RESOURCE_EXHAUSTED),
  byte_quota_exceeded: retryable(429, GRPC.RESOURCE_EXHAUSTED),
  concurrency_exceeded: retryable(429, GRPC.RESOURCE_EXHAUSTED),
  unsupported_content_type: permanent(415, GRPC.INVALID_ARGUMENT),
  unsupported_content_encoding: permanent(415, GRPC.INVALID_ARGUMENT),
  malformed_batch: permanent(400, GRPC.INVALID_ARGUMENT),
  empty_batch: permanent(400, GRPC.INVALID_ARGUMENT),
  batch_too_large: permanent(413, GRPC.INVALID_ARGUMENT),
  payload_too_large: permanent(413, GRPC.RESOURCE_EXHAUSTED),
  request_timeout: retryable(503, GRPC.DEADLINE_EXCEEDED), // not 408: OTLP exporters drop a batch that is refused with it
  invalid_query: permanent(400, GRPC.INVALID_ARGUMENT),
  invalid_page_limit: permanent(400, GRPC.INVALID_ARGUMENT),
  invalid_cursor: permanent(400, GRPC.INVALID_ARGUMENT),
  trace_not_found: permanent(404, GRPC.NOT_FOUND),
  tail_unavailable: permanent(501, GRPC.UNIMPLEMENTED),
  deadline_exceeded: retryable(504, GRPC.DEADLINE_EXCEEDED),
  wal_unavailable: retryable(503, GRPC.UNAVAILABLE),
  not_leading: retryable(503, GRPC.UNAVAILABLE),
  bundle_read_failed: retryable(500, GRPC.INTERNAL),
  object_storage_read_failed: retryable(502, GRPC.UNAVAILABLE),
  not_found: permanent(404, GRPC.UNIMPLEMENTED),
  method_not_allowed: permanent(405, GRPC.UNIMPLEMENTED),
  internal_error: permanent(500, GRPC.INTERNAL),
} as const satisfies Record<string, RefusalRule>

export type RefusalKind = keyof typeof REFUSALS

/** In a fixed order, so that a lane can name a kind by number in a ring message. */
export const REFUSAL_KINDS = Object.keys(REFUSALS) as readonly RefusalKind[] // keys of the table above

export interface Refusal {
  readonly kind: RefusalKind
  readonly message: string
  readonly retryable: boolean
  /** Whole seconds until the same request can succeed; 0 when unknown or never. */
  readonly retryAfterSeconds: number
}

/** A refusal by its rule; retryable ones of status 429 and 503 always say when to come back. */
export function refusal(kind: RefusalKind, message: string, retryAfterSeconds = 1): Refusal {
  const rule = REFUSALS[kind]
  return { kind, message, retryable: rule.retryable, retryAfterSeconds: rule.retryable ? retryAfterSeconds : 0 }
}

/** The refusal of a request that can never fit: clients that retry it, as the kind may advise, would retry for ever. */
export const permanentRefusal = (kind: RefusalKind, message: string): Refusal => ({
  kind,
  message,
  retryable: false,
  retryAfterSeconds: 0,
})
