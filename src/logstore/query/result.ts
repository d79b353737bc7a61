/** One result of a query: finds the record in its batch and renders it. */
import { formatRecordId } from '../../../native-free-codecs/record-id-text.ts'
import type { RecordBatch } from '../batch-frame.ts'
import { renderRecord } from './render/record.ts'
import type { PartTexts } from './render/record.ts'

/** The JSON text of record `recordNumber`; id and time are those of the index. */
export function renderResult(
  batch: RecordBatch,
  recordNumber: number,
  id: Uint32Array,
  timeHigh: number,
  timeLow: number,
  parts: PartTexts,
): string {
  const { resource, scope, record, resourceSchemaUrl, scopeSchemaUrl, dataset } = batch.record(recordNumber)
  const { signal, format, source, tenant } = batch.envelopeOf(recordNumber)
  const { body } = batch
  const startOf = (part: Uint8Array): number => part.byteOffset - body.byteOffset
  const endOf = (part: Uint8Array): number => startOf(part) + part.byteLength
  const stored = {
    recordId: formatRecordId(id, 0),
    signal,
    format,
    source,
    tenant,
    dataset,
    timeHigh,
    timeLow,
    body,
    resourceStart: startOf(resource),
    resourceEnd: endOf(resource),
    scopeStart: startOf(scope),
    scopeEnd: endOf(scope),
    recordStart: startOf(record),
    recordEnd: endOf(record),
    resourceSchemaUrl,
    scopeSchemaUrl,
  }
  return renderRecord(stored, parts)
}
