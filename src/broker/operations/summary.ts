/** The description of a stream. */
import type { StreamSummary } from '../wire/record-answers.ts'
import type { StreamState } from '../state/state.ts'

export function summaryOf(stream: StreamState): StreamSummary {
  return {
    stream: stream.name,
    ...stream.config,
    first_offset: stream.floor,
    next_offset: stream.nextOffset,
    record_count: stream.readableBetween(stream.floor, stream.nextOffset),
    payload_bytes: stream.payloadBytes,
    created_at_ms: stream.createdAtMs,
  }
}
