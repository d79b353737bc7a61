/** The configuration of a stream, from the bodies that create and change it. */
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import { AUDIT_STREAM, DEFAULT_STREAM_CONFIG } from '../state/state.ts'
import type { StreamConfig } from '../state/state.ts'
import type { UpdateStreamBody } from '../wire/requests.ts'

type Policy = NonNullable<StreamConfig['failure_policy']>

/**
 * Absent fields stay as they are in `present`, also inside retention and failure policy. Null fields become the default.
 */
export function configOf(stream: string, body: UpdateStreamBody, present: StreamConfig): StreamConfig | BrokerError {
  const { default_durability, retention } = body
  const failure_policy =
    body.failure_policy === undefined ? present.failure_policy : policyOf(body.failure_policy, present.failure_policy)
  if (failure_policy instanceof Error) return failure_policy
  const config: StreamConfig = {
    default_durability:
      default_durability === undefined ? present.default_durability : (default_durability ?? 'local-disk'),
    retention:
      retention === null ? DEFAULT_STREAM_CONFIG.retention : { ...present.retention, ...given(retention ?? {}) },
    failure_policy,
  }
  if (failure_policy?.dead_letter_stream === stream) {
    return refuse('invalid_request', 'failure_policy.dead_letter_stream must be another stream')
  }
  // Refused only if the body names it: older logs have such policies, and the rest of these streams can still be changed.
  if (body.failure_policy?.dead_letter_stream === AUDIT_STREAM) {
    return refuse(
      'invalid_request',
      `failure_policy.dead_letter_stream cannot be ${AUDIT_STREAM}: only the broker writes to it`,
    )
  }
  return config
}

function policyOf(
  body: UpdateStreamBody['failure_policy'],
  present: StreamConfig['failure_policy'],
): Policy | null | BrokerError {
  if (body === null || body === undefined) return null
  const max_attempts = body.max_attempts ?? present?.max_attempts
  if (max_attempts === undefined) return refuse('invalid_request', 'failure_policy.max_attempts is required')
  const { retry_delay_millis, dead_letter_stream, apply_on_expiry } = body
  return {
    max_attempts,
    retry_delay_millis: kept(retry_delay_millis, present?.retry_delay_millis, 0),
    dead_letter_stream: kept(dead_letter_stream, present?.dead_letter_stream, null),
    apply_on_expiry: kept(apply_on_expiry, present?.apply_on_expiry, false),
  } satisfies Policy
}

/** Null becomes the default, absent stays. */
const kept = <T>(value: T | null | undefined, present: T | undefined, byDefault: T): T =>
  value === undefined ? (present ?? byDefault) : (value ?? byDefault)

/** The fields that are not absent. */
const given = (fields: Partial<StreamConfig['retention']>): Partial<StreamConfig['retention']> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
