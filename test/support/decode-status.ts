import assert from 'node:assert/strict'
import { rpcTypes } from '../../src/logstore/proto-types.ts'

export interface DecodedStatus {
  readonly code: number
  readonly message: string
  readonly reason: string
  readonly domain: string
  /** null: without RetryInfo. */
  readonly retryAfterSeconds: number | null
}

/** Reads an encoded google.rpc.Status as a client would; every detail must be of a known type. */
export function decodeStatus(bytes: Uint8Array): DecodedStatus {
  const { Status, ErrorInfo, RetryInfo } = rpcTypes()
  const status = Status.toObject(Status.decode(bytes), { defaults: true })
  const details = new Map<string, Uint8Array>(
    status['details'].map((any: { type_url: string; value: Uint8Array }) => [any.type_url, any.value]),
  )
  const errorInfo = details.get('type.googleapis.com/google.rpc.ErrorInfo')
  const retryInfo = details.get('type.googleapis.com/google.rpc.RetryInfo')
  assert(errorInfo, 'every status has an ErrorInfo')
  assert.equal(details.size, retryInfo ? 2 : 1)
  const { reason, domain } = ErrorInfo.toObject(ErrorInfo.decode(errorInfo), { defaults: true })
  return {
    code: status['code'],
    message: status['message'],
    reason,
    domain,
    retryAfterSeconds: retryInfo
      ? RetryInfo.toObject(RetryInfo.decode(retryInfo), { longs: Number })['retry_delay'].seconds
      : null,
  }
}
