import { ProtobufView } from '../search/protobuf-view.ts'
import type { RecordView } from '../search/record-view.ts'
import type { Group } from './block-writer.ts'
import { ROOT_LOG, ROOT_SPAN } from './record-shape.ts'

/** The resource and scope of a group as the view of a record that has nothing else. Null: the group is JSON. */
export function viewOfGroup(group: Group): RecordView | null {
  return group.root === ROOT_LOG || group.root === ROOT_SPAN ? viewOfProtobufGroup(group) : null
}

/** Likewise, for a group that the caller knows to be protobuf. */
export function viewOfProtobufGroup({ signal, resource, scope }: Group): ProtobufView {
  const view = new ProtobufView()
  const body = Buffer.concat([resource, scope])
  const scopeStart = resource.byteLength
  const none = { group: 0, recordStart: 0, recordEnd: 0 }
  const place = { ...none, resourceStart: 0, resourceEnd: scopeStart, scopeStart, scopeEnd: body.byteLength }
  view.seek(body, signal, place, 0)
  return view
}
