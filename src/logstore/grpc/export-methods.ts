/** The two OTLP/gRPC methods the log store serves. Messages stay the bytes they are: the decode lane reads them. */
import type { MethodDefinition } from '@grpc/grpc-js'
import { SIGNAL_LOG, SIGNAL_TRACE } from '../batch-frame.ts'

interface ExportMethod {
  readonly signal: number
  readonly definition: MethodDefinition<Buffer, Buffer>
}

const asIs = (bytes: Buffer): Buffer => bytes

/**
 * Clients call it as the unary method it is. The server takes it for a client stream, which is the same on the wire: its handler
 * runs when the metadata is in, so a caller is refused before the message is read, and holds its place while it arrives.
 */
const exportMethod = (signal: number, service: string): ExportMethod => ({
  signal,
  definition: {
    path: `/opentelemetry.proto.collector.${service}/Export`,
    requestStream: true,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  },
})

export const EXPORT_METHODS: readonly ExportMethod[] = [
  exportMethod(SIGNAL_LOG, 'logs.v1.LogsService'),
  exportMethod(SIGNAL_TRACE, 'trace.v1.TraceService'),
]

/** Export…ServiceResponse without partial success: full success is told by leaving it out. */
export const EXPORT_RESPONSE = Buffer.alloc(0)
