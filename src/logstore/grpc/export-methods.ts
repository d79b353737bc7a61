/** The two OTLP/gRPC methods the log store serves. Messages stay the bytes they are: the decode lane reads them. */
import { SIGNAL_LOG, SIGNAL_TRACE } from '../batch-frame.ts'

export interface ExportMethod {
  readonly signal: number
  readonly path: string
}

export const EXPORT_METHODS: readonly ExportMethod[] = [
  { signal: SIGNAL_LOG, path: '/opentelemetry.proto.collector.logs.v1.LogsService/Export' },
  { signal: SIGNAL_TRACE, path: '/opentelemetry.proto.collector.trace.v1.TraceService/Export' },
]
