import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OtlpBatch, RECORDS_PER_BATCH_MAX } from '../../../native-free-codecs/otlp-batch.ts'
import { FORMAT_PROTOBUF, SIGNAL_LOG } from '../../../src/logstore/batch-frame.ts'
import { scanBatch } from '../../../src/logstore/index/scan-batch.ts'
import { PREPARED_BODY_BYTES_MAX, PreparedBatches } from '../../../src/logstore/ingest/prepared-batches.ts'
import { encodeLogs, logsRequest, text } from '../../support/otlp.ts'

const never = (): boolean => false
const batchOf = (records: number, dataset: string): Buffer =>
  encodeLogs(
    logsRequest(
      Array.from({ length: records }, (_, i) => ({ timeUnixNano: String(i + 1), body: { stringValue: `paid ${i}` } })),
      [text('service.name', dataset), text('tenant_id', 'local')],
    ),
  )
const idsOf = (records: number): Uint32Array => Uint32Array.from({ length: 4 * records }, (_, i) => i * 2_654_435_761)

function scanned(body: Buffer): OtlpBatch {
  const batch = new OtlpBatch()
  scanBatch(batch, body, SIGNAL_LOG, FORMAT_PROTOBUF)
  return batch
}

describe('a batch that a lane prepared', () => {
  it('is read as it was written, whatever the slot and the reader had before', () => {
    const lane = PreparedBatches.create(2)
    const sequencer = PreparedBatches.attach(lane.shared)
    const read = scanned(batchOf(RECORDS_PER_BATCH_MAX, 'before'))
    const readIds = new Uint32Array(4 * RECORDS_PER_BATCH_MAX)
    for (const records of [RECORDS_PER_BATCH_MAX, 1, 40]) {
      for (const decompressed of [true, false]) {
        const body = batchOf(records, `shop ${records}`)
        const batch = scanned(body)
        assert(lane.write(1, batch, idsOf(records), decompressed ? body : null))
        assert.deepEqual(sequencer.read(1, read, readIds), decompressed ? body : null)
        const { recordCount, groupCount, resourceCount, schemaUrlCount } = batch
        assert.partialDeepStrictEqual(read, { recordCount, groupCount, resourceCount, schemaUrlCount })
        for (const column of ['recordStart', 'recordEnd', 'recordGroup', 'timeHigh', 'timeLow'] as const) {
          assert.deepEqual(read[column].subarray(0, recordCount), batch[column].subarray(0, recordCount), column)
        }
        assert.deepEqual(read.traceWords.subarray(0, 4 * recordCount), batch.traceWords.subarray(0, 4 * recordCount))
        assert.deepEqual(readIds.subarray(0, 4 * records), idsOf(records))
        assert.deepEqual(
          [read.resourceDataset[0], read.resourceTenantClaim[0], read.resourceTenantConflict[0]],
          [`shop ${records}`, 'local', false],
        )
      }
    }
  })

  it('that is too long is left', () => {
    const batch = scanned(batchOf(1, 'shop'))
    const lane = PreparedBatches.create(1)
    assert(!lane.write(0, batch, idsOf(1), Buffer.alloc(PREPARED_BODY_BYTES_MAX + 1)))
  })

  it('is taken once: by a lane that begins in time, or by the sequencer', () => {
    const prepared = PreparedBatches.create(1)
    const first = prepared.queue(0)
    assert(prepared.tryBegin(0, first))
    assert(!prepared.tryBegin(0, first), 'another lane has it')
    prepared.end(0, first, true)
    assert(prepared.take(0, first, never))

    const second = prepared.queue(0)
    assert(!prepared.take(0, second, never), 'no lane had begun')
    assert(!prepared.tryBegin(0, second), 'it is too late')
    assert(!prepared.tryBegin(0, first), 'the slot is of another request by now')

    const third = prepared.queue(0)
    assert(prepared.tryBegin(0, third))
    assert(!prepared.take(0, third, () => true), 'a sequencer that stops waits for nobody')
    prepared.end(0, third, false)
    assert(!prepared.take(0, third, never), 'it was left')
  })
})
