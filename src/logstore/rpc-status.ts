/**
 * Refusals as OTLP/HTTP protobuf clients and gRPC clients read them: google.rpc.Status with ErrorInfo and, when the request may
 * be repeated, RetryInfo. Source: OTLP specification "Failures", google/rpc/status.proto and error_details.proto.
 */
import { rpcTypes } from './proto-types.ts'
import { REFUSALS } from './refusals.ts'
import type { Refusal } from './refusals.ts'

const ERROR_INFO_TYPE = 'type.googleapis.com/google.rpc.ErrorInfo'
const RETRY_INFO_TYPE = 'type.googleapis.com/google.rpc.RetryInfo'
const ERROR_DOMAIN = 'logstore.trilog'

/** Encoded google.rpc.Status; its message is `<kind>: <message>`. */
export function encodeRpcStatus({ kind, message, retryable, retryAfterSeconds }: Refusal): Uint8Array {
  const { Status, ErrorInfo, RetryInfo } = rpcTypes()
  const errorInfo = ErrorInfo.encode({ reason: kind, domain: ERROR_DOMAIN, metadata: {} }).finish()
  const details = [{ type_url: ERROR_INFO_TYPE, value: errorInfo }]
  if (retryable) {
    const retryInfo = RetryInfo.encode({ retry_delay: { seconds: retryAfterSeconds, nanos: 0 } }).finish()
    details.push({ type_url: RETRY_INFO_TYPE, value: retryInfo })
  }
  return Status.encode({ code: REFUSALS[kind].grpc, message: `${kind}: ${message}`, details }).finish()
}
