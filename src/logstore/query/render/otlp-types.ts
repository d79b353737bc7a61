/** The protobuf messages of OTLP and google.rpc, from the definitions in proto/, read once when first asked for. */
import { fileURLToPath } from 'node:url'
import protobuf from 'protobufjs'

const FILES = [
  'opentelemetry/proto/collector/logs/v1/logs_service.proto',
  'opentelemetry/proto/collector/trace/v1/trace_service.proto',
  'google/rpc/status.proto',
  'google/rpc/error_details.proto',
]

function load(): protobuf.Root {
  const root = new protobuf.Root()
  // Imports name files from the root of proto/; what protobufjs has built in (google/protobuf/any.proto) it finds itself.
  root.resolvePath = (_from, target) => fileURLToPath(new URL(`../../../../proto/${target}`, import.meta.url))
  root.loadSync(FILES)
  root.resolveAll()
  return root
}

let loaded: protobuf.Root | null = null

/** @param name  full name, such as `opentelemetry.proto.logs.v1.LogRecord` */
export function messageType(name: string): protobuf.Type {
  loaded ??= load()
  return loaded.lookupType(name)
}
