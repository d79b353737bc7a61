/**
 * The message types of google.rpc, loaded from proto/ when the first refusal is answered in protobuf, then kept.
 * Field names are those of the .proto files (`retry_delay`, `type_url`).
 */
import { fileURLToPath } from 'node:url'
import type { Type } from 'protobufjs'
import { treeFile } from '../tree.ts'
import { loadProtobuf } from './protobuf.ts'

interface RpcTypes {
  readonly Status: Type
  readonly ErrorInfo: Type
  readonly RetryInfo: Type
}

const FILES = ['status.proto', 'error_details.proto'].map((name) => fileURLToPath(treeFile(`proto/google/rpc/${name}`)))

let loaded: RpcTypes | null = null

export function rpcTypes(): RpcTypes {
  return (loaded ??= load())
}

function load(): RpcTypes {
  const { Root } = loadProtobuf()
  const root = new Root().loadSync(FILES, { keepCase: true }).resolveAll()
  return {
    Status: root.lookupType('google.rpc.Status'),
    ErrorInfo: root.lookupType('google.rpc.ErrorInfo'),
    RetryInfo: root.lookupType('google.rpc.RetryInfo'),
  }
}
