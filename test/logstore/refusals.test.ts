import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { REFUSALS } from '../../src/logstore/refusals.ts'

/** Statuses of the contract. That of `request_timeout` makes OTLP exporters repeat the batch. */
const BY_STATUS: Readonly<Record<number, readonly string[]>> = {
  400: ['malformed_batch', 'empty_batch', 'invalid_query', 'invalid_page_limit', 'invalid_cursor'],
  401: ['missing_tenant', 'missing_credentials', 'invalid_credentials'],
  403: ['unknown_tenant', 'tenant_mismatch', 'dataset_not_authorized'],
  404: ['not_found'],
  405: ['method_not_allowed'],
  413: ['batch_too_large', 'payload_too_large'],
  415: ['unsupported_content_type', 'unsupported_content_encoding'],
  429: ['record_quota_exceeded', 'byte_quota_exceeded', 'concurrency_exceeded'],
  500: ['bundle_read_failed'],
  502: ['object_storage_read_failed'],
  503: ['wal_unavailable', 'request_timeout'],
  504: ['deadline_exceeded'],
}
const RETRYABLE_FROM = 429

describe('a refusal', () => {
  it('has the status of the contract, and says whether to try again', () => {
    const rules: Readonly<Record<string, { readonly status: number; readonly retryable: boolean }>> = REFUSALS
    for (const [status, kinds] of Object.entries(BY_STATUS)) {
      for (const kind of kinds) {
        const { status: its, retryable } = rules[kind]!
        assert.deepEqual([its, retryable], [Number(status), Number(status) >= RETRYABLE_FROM], kind)
      }
    }
  })
})
