/** Values in the answers of the test broker. */
import type { StreamSummary } from '../../../src/broker/wire/record-answers.ts'
import type { IncidentEntry } from '../../../src/broker/wire/storage-answers.ts'

const api_version = 'v1'

export const delivery = {
  api_version,
  stream: 'orders',
  consumer_group: 'workers',
  subscription_id: 'sub-1',
  delivery_id: 'dlv-1',
} as const
export const group = { api_version, stream: 'orders', consumer_group: 'workers' } as const
export const cursor = { cursor: 'main', offset: 3, updated_at_ms: 9 }
export const stream: StreamSummary = {
  stream: 'orders "1"',
  default_durability: 'local-disk',
  retention: { max_age_millis: 5, max_bytes: null, min_cursor_name: null },
  failure_policy: { max_attempts: 3, retry_delay_millis: 0, dead_letter_stream: null, apply_on_expiry: false },
  first_offset: 0,
  next_offset: 2,
  record_count: 2,
  payload_bytes: 20,
  created_at_ms: 1,
}
export const incident: IncidentEntry = {
  incident_id: 'inc-1',
  stream: 'orders',
  state: 'open',
  segment: '000',
  first_offset: null,
  last_offset: 4,
  damaged_bytes: 8,
  reason: 'frame_crc_mismatch',
  acknowledged_at_ms: null,
  acknowledged_by: null,
  note: null,
}
export const segment = { segment: '000', records: 2, payload_bytes: 20, first_offset: 0, last_offset: 1 }
