import { ProtobufView } from '../search/protobuf-view.ts'
import type { RecordView } from '../search/record-view.ts'
import type { Group } from './block-writer.ts'
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'

/** What a group says of its resource and scope, as a view of a record that has nothing else; null: it stands in JSON. */
export function viewOfGroup(group: Group): RecordView | null {
  return group.root === ROOT_LOG || group.root === ROOT_SPAN ? viewOfProtobufGroup(group) : null
}

/** Likewise, of a group of which the caller knows that it stands in protobuf. */
export function viewOfProtobufGroup({ signal, resource, scope }: Group): ProtobufView {
  const view = new ProtobufView()
  const body = Buffer.concat([resource, scope])
  const scopeStart = resource.byteLength
  const none = { group: 0, recordStart: 0, recordEnd: 0 }
  const place = { ...none, resourceStart: 0, resourceEnd: scopeStart, scopeStart, scopeEnd: body.byteLength }
  view.seek(body, signal, place, 0)
  return view
}
