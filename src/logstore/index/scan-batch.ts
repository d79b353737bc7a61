import { scanLogsJson, scanTracesJson } from '../../../native-free-codecs/otlp-json-scan.ts'
import { scanLogsProtobuf, scanTracesProtobuf } from '../../../native-free-codecs/otlp-protobuf-scan.ts'
import type { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import { FORMAT_JSON, SIGNAL_LOG } from '../batch-frame.ts'

/**
 * Scans a whole body into `batch`, by its signal and format.
 *
 * @throws MalformedBatchError
 */
export function scanBatch(batch: OtlpBatch, body: Uint8Array, signal: number, format: number): void {
  batch.reset()
  if (format === FORMAT_JSON) {
    if (signal === SIGNAL_LOG) scanLogsJson(body, 0, body.byteLength, batch)
    else scanTracesJson(body, 0, body.byteLength, batch)
  } else if (signal === SIGNAL_LOG) scanLogsProtobuf(body, 0, body.byteLength, batch)
  else scanTracesProtobuf(body, 0, body.byteLength, batch)
}
