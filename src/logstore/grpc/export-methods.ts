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

/** The call below the one that handlers see: the library's types hide it, and its version is pinned. */
interface LibraryCall {
  readonly stream: EventEmitter
  decompressMessage(message: Buffer, encoding: string): Buffer | Promise<Buffer>
  sendStatus(status: { readonly code: number }): void
}

const libraryCallOf = (call: ServerReadableStream<Buffer, Buffer>): LibraryCall =>
  (call as unknown as { readonly call: LibraryCall }).call

/**
 * Tells how many bytes of a call's message arrive, when they do. The library says nothing of a message before it is whole, so this
 * listens to the stream below it.
 */
export function onMessageBytes(call: ServerReadableStream<Buffer, Buffer>, listener: (bytes: number) => void): void {
  libraryCallOf(call).stream.on('data', (data: Buffer) => listener(data.byteLength))
}

/** Compressed flag and length. */
const MESSAGE_HEAD_BYTES = 5

/**
 * Leaves a call's message as it was sent: the decode lane decompresses, bounded and for more encodings than the library. To be called in the turn
 * in which the call begins.
 *
 * @returns the number among `encodings` of the message that came
 */
export function keepCompressed(call: ServerReadableStream<Buffer, Buffer>, encodings: readonly string[]): () => number {
  const below = libraryCallOf(call)
  const decompress = below.decompressMessage.bind(below)
  let came = 0
  below.decompressMessage = (message, name) => {
    const encoding = encodings.indexOf(name)
    if (encoding < 0) return decompress(message, name) // which refuses it
    came = encoding
    return message.subarray(MESSAGE_HEAD_BYTES)
  }
  return () => came
}

/** Tells of statuses that the library sends by itself. @returns to be called before an own answer */
export function onLibraryStatus(
  call: ServerReadableStream<Buffer, Buffer>,
  listener: (code: number) => void,
): () => void {
  const below = libraryCallOf(call)
  const send = below.sendStatus.bind(below)
  let isOwn = false
  below.sendStatus = (status) => {
    if (!isOwn) listener(status.code)
    send(status)
  }
  return () => {
    isOwn = true
  }
}
