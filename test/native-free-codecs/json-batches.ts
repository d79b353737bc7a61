/** Batches given as JSON text. */
import { OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import { scanLogsJson, scanTracesJson } from '../../native-free-codecs/otlp-json-scan.ts'

export const scanLogs = (text: string | Buffer): OtlpBatch => {
  const bytes = Buffer.from(text)
  const batch = new OtlpBatch()
  scanLogsJson(bytes, 0, bytes.length, batch)
  return batch
}
export const scanTraces = (text: string): OtlpBatch => {
  const bytes = Buffer.from(text)
  const batch = new OtlpBatch()
  scanTracesJson(bytes, 0, bytes.length, batch)
  return batch
}
