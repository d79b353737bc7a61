/** The protobuf messages of OTLP and google.rpc, from the definitions in proto/, read once when first asked for. */
import { fileURLToPath } from 'node:url'
import type { Root, Type } from 'protobufjs'
import { treeFile } from '../../../tree.ts'
import { loadProtobuf } from '../../protobuf.ts'

/** Loaded with this module, before a query asks for it. */
export const protobuf = loadProtobuf()

const FILES = [
  'opentelemetry/proto/collector/logs/v1/logs_service.proto',
  'opentelemetry/proto/collector/trace/v1/trace_service.proto',
  'google/rpc/status.proto',
  'google/rpc/error_details.proto',
]

function load(): Root {
  const root = new protobuf.Root()
  // Imports name files from the root of proto/; what protobufjs has built in (google/protobuf/any.proto) it finds itself.
  root.resolvePath = (_from, target) => fileURLToPath(treeFile(`proto/${target}`))
  root.loadSync(FILES)
  root.resolveAll()
  return root
}

let loaded: Root | null = null

/** @param name  full name, such as `opentelemetry.proto.logs.v1.LogRecord` */
export function messageType(name: string): Type {
  loaded ??= load()
  return loaded.lookupType(name)
}
