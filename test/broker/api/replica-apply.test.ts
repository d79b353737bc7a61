/** Specification "Limits": how much a batch from another site may hold. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { parseReplicaApply } from '../../../src/broker/api/replication.ts'
import { REPLICA_APPLY_PAYLOAD_BYTES_MAX } from '../../../src/broker/limits.ts'

const LINK = { source_site: 'a', target_site: 'b', policy: 'dr', tenant: 'local', stream: 'orders' }

it('a batch holds at most 64 MiB of payloads, keys, headers and message ids together, else replica_apply_too_large', async () => {
  const message_id = 'm'
  const payloadBytes = REPLICA_APPLY_PAYLOAD_BYTES_MAX / 4 - message_id.length
  const payload_hex = '00'.repeat(payloadBytes)
  const record = { message_id, payload_hex, event_time_ms: 1, ingest_time_ms: 1 }
  const batch = (more: object) => ({
    ...LINK,
    records: Array.from({ length: 4 }, (_, origin_offset) => ({
      origin_offset,
      ...record,
      ...(origin_offset === 3 && more),
    })),
  })
  assert.equal((await parseReplicaApply(batch({}))).records.length, 4)
  for (const more of [{ key_hex: '00' }, { headers: { h: '' } }, { message_id: 'mm' }]) {
    await assert.rejects(async () => parseReplicaApply(batch(more)), {
      code: 'replica_apply_too_large',
      message: `the records must not exceed ${REPLICA_APPLY_PAYLOAD_BYTES_MAX} bytes`,
    })
  }
})
