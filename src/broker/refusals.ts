/**
 * Everything the broker refuses, in one table: what each code means over HTTP, and what a caller should do about it.
 * Source: specification "Errors", contract "Broker". Ours: `request_timeout`, `quarantine_storage_failed`, `node_recovering`,
 * `not_leading`.
 */
import { StoreError } from '../errors.ts'
import type { ErrorKind } from '../errors.ts'

interface RefusalRule {
  readonly status: number
  /** The same request can succeed later without a change. */
  readonly retryable: boolean
  /** Said to the caller. */
  readonly action: string
}

const permanent = (status: number, action: string): RefusalRule => ({ status, retryable: false, action })
const retryable = (status: number, action: string): RefusalRule => ({ status, retryable: true, action })

export const REFUSALS = {
  invalid_request: permanent(400, 'Fix what the message names.'),
  invalid_query: permanent(400, 'Fix or remove the query parameter.'),
  invalid_payload: permanent(400, 'Fix the payload or the key.'),
  invalid_start: permanent(400, 'Give one of start_offset, event_time_ms and ingest_time_ms, as an unsigned integer.'),
  invalid_page_size: permanent(400, 'Fix max_records or max_payload_bytes.'),
  invalid_start_offset: permanent(400, 'Give start_offset as an unsigned integer.'),
  invalid_retention_policy: permanent(400, 'Give max_bytes and max_age_ms as unsigned integers.'),
  invalid_tiering_policy: permanent(400, 'Give max_bytes and max_age_ms as unsigned integers.'),
  authentication_required: permanent(401, 'Supply credentials.'),
  authentication_failed: permanent(401, 'Supply valid credentials.'),
  authorization_denied: permanent(403, 'Check the grants of tenant, stream and role.'),
  stream_not_found: permanent(404, 'Create the stream, or use one that exists.'),
  missing_stream: permanent(404, 'Create the stream, or use one that exists.'),
  not_found: permanent(404, 'Use a documented route.'),
  delivery_not_found: permanent(404, 'Use the stream, subscription and delivery of the answer to the claim.'),
  quarantine_not_found: permanent(404, 'List the incidents of the stream.'),
  replication_worker_not_found: permanent(404, 'Check stream and sites against the replication status.'),
  metrics_disabled: permanent(
    404,
    'Start the node with MQ_METRICS_EXPOSURE=http (mq --metrics-exposure http, trilog start --mq-metrics-exposure http).',
  ),
  method_not_allowed: permanent(405, 'Use a method of the Allow header.'),
  request_timeout: retryable(408, 'Send the request again, without pauses in its body.'),
  stream_already_exists: permanent(409, 'Describe the stream and compare before creating it again.'),
  lease_expired: permanent(409, 'Claim again: the record is given out anew.'),
  lease_not_active: permanent(409, 'Inspect the leases of the group: the delivery is resolved.'),
  replication_not_configured: permanent(
    409,
    'Start the node with MQ_REPLICATION_BINDING_FILE (mq --replication-binding-file, trilog start --mq-replication-binding-file).',
  ),
  write_not_allowed: permanent(409, 'Inspect the present state.'),
  replica_apply_gap: permanent(409, 'Send from the next expected offset on.'),
  payload_too_large: permanent(
    413,
    'Send less in one request, or raise MQ_MAX_BODY_BYTES (mq --max-body-bytes, trilog start --mq-max-body-bytes).',
  ),
  replica_apply_too_large: permanent(413, 'Reduce the batch.'),
  replica_apply_invalid: permanent(400, 'Fix what the message names.'),
  quota_exceeded: retryable(429, 'Reduce the rate, and wait as Retry-After says.'),
  internal_error: permanent(500, 'Inspect the state before trying again; the log of the node says more.'),
  queue_state_persistence_failed: permanent(500, 'Inspect the group and its leases before trying again.'),
  quarantine_storage_failed: permanent(500, 'Inspect the incidents before trying again.'),
  tiering_manifest_failed: permanent(500, 'Try again later; the log of the node says more.'),
  replica_apply_failed: permanent(500, 'Send the batch again: what was applied before is skipped.'),
  node_recovering: retryable(503, 'Wait as Retry-After says; GET /readyz says how far the node is.'),
  not_leading: retryable(503, 'Send the request to the node that leads: x-trilog-leader says where, if it is known.'),
  replication_unavailable: retryable(503, 'Inspect the replication status, and wait as Retry-After says.'),
} as const satisfies Record<string, RefusalRule>

export type RefusalCode = keyof typeof REFUSALS

export interface RefusalOptions extends ErrorOptions {
  /** Whole seconds until the same request can succeed; default 1. */
  readonly retryAfterSeconds?: number
  /** Instead of the code's rule: false for what can never succeed, true for a failure that passes. */
  readonly retryable?: boolean
  /** Instead of the code's rule, where that would not help. */
  readonly action?: string
  /** Only for `replica_apply_gap`. */
  readonly nextExpectedOffset?: number
  /** Address of the leading node; only `not_leading` has it. */
  readonly leader?: string | null
}

/** The `error` of an answer's body. */
export interface RefusalDetail {
  readonly code: RefusalCode
  readonly message: string
  readonly action: string
  readonly retryable: boolean
}

export class BrokerError extends StoreError {
  declare readonly code: RefusalCode
  readonly retryable: boolean
  readonly retryAfterSeconds: number
  readonly action: string
  /** Only for `replica_apply_gap`: the offset where the source continues. */
  readonly nextExpectedOffset: number | null
  /** Address of the leading node; only `not_leading` has it. Null: it is not known. */
  readonly leader: string | null

  constructor(code: RefusalCode, message: string, options: RefusalOptions = {}) {
    super(kindOf(REFUSALS[code].status), code, message, options)
    this.name = 'BrokerError'
    this.nextExpectedOffset = options.nextExpectedOffset ?? null
    this.leader = options.leader ?? null
    this.action = options.action ?? REFUSALS[code].action
    this.retryable = options.retryable ?? REFUSALS[code].retryable
    this.retryAfterSeconds = this.retryable ? Math.max(1, Math.ceil(options.retryAfterSeconds ?? 1)) : 0
  }

  get status(): number {
    return REFUSALS[this.code].status
  }

  get detail(): RefusalDetail {
    const { code, message, action, retryable } = this
    return { code, message, action, retryable }
  }
}

/** To be thrown, or to be the result of one item of a batch. @param message names fields and states, never values */
export const refuse = (code: RefusalCode, message: string, options?: RefusalOptions): BrokerError =>
  new BrokerError(code, message, options)

/** @param leader address of the node that leads the cluster; null: it is not known */
export const notLeading = (leader: string | null): BrokerError =>
  refuse('not_leading', leader === null ? 'no node of the cluster leads at present' : `the node at ${leader} leads`, {
    leader,
  })

/** True when an operator must hear of it: a thread or a disk failed, or it is our own bug. */
export const isFailure = (error: unknown): boolean =>
  !(error instanceof BrokerError || (error instanceof StoreError && error.kind === 'overloaded'))

/** The refusal for any error of an operation. */
export function refusalOf(error: unknown): BrokerError {
  if (error instanceof BrokerError) return error
  const passes = error instanceof StoreError && (error.kind === 'overloaded' || error.kind === 'unavailable') // a thread that died is replaced
  return passes
    ? refuse('internal_error', 'the broker cannot serve this now: repeat the request', { retryable: true })
    : internalError()
}

export const internalError = (): BrokerError =>
  refuse('internal_error', 'the broker failed to handle the request; its log says more')

function kindOf(status: number): ErrorKind {
  if (status === 404) return 'notFound'
  if (status === 409) return 'conflict'
  if (status === 429) return 'overloaded'
  return status >= 500 ? 'unavailable' : 'invalid'
}
