/** The two OTLP/gRPC methods the log store serves. Messages stay the bytes they are: the decode lane reads them. */
import type { EventEmitter } from 'node:events'
import type { MethodDefinition, ServerReadableStream } from '@grpc/grpc-js'
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

/**
 * Tells how many bytes of a call's message arrive, when they do. The library says nothing of a message before it is whole, so this
 * listens to the stream below it: a property that its types hide.
 */
export function onMessageBytes(call: ServerReadableStream<Buffer, Buffer>, listener: (bytes: number) => void): void {
  const { stream } = (call as unknown as { readonly call: { readonly stream: EventEmitter } }).call
  stream.on('data', (data: Buffer) => listener(data.byteLength))
}
