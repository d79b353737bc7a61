/** Body of DeleteObjects: `Delete{Quiet?, Object{Key, VersionId?, ETag?}+}`. */
import { refuse } from '../../refusals.ts'
import { DELETE_BODY_BYTES_MAX, DELETE_KEYS_MAX } from '../document-limits.ts'
import type { Sliced } from '../slices.ts'
import { readXmlInSlices } from '../xml/xml-reader.ts'
import { element, list, once, optional, text } from '../xml/xml-shape.ts'

export interface DeleteRequest {
  /** Only failures are answered. */
  readonly quiet: boolean
  readonly objects: readonly DeleteItem[]
}

interface DeleteItem {
  readonly key: string
  readonly versionId: string | null
  /** ETag that the object must have; as sent, `*` included. */
  readonly etag: string | null
}

const DELETE = {
  name: 'Delete',
  bytesMax: DELETE_BODY_BYTES_MAX,
  shape: element({
    Quiet: optional(text),
    Object: list(
      element({
        Key: once(text),
        VersionId: optional(text),
        ETag: optional(text),
        LastModifiedTime: optional(text),
        Size: optional(text),
      }),
      { min: 1, max: DELETE_KEYS_MAX },
    ),
  }),
} as const

/** @throws S3Error MalformedXML, EntityTooLarge, NotImplemented for the conditions that S3 has in directory buckets only */
export function* readDeleteRequest(body: Uint8Array): Sliced<DeleteRequest> {
  const { Quiet, Object: items } = yield* readXmlInSlices(body, DELETE)
  const objects = items.map((item): DeleteItem => {
    if (item.Key === '') throw refuse('MalformedXML')
    if (item.LastModifiedTime !== null || item.Size !== null) throw refuse('NotImplemented')
    return { key: item.Key, versionId: item.VersionId, etag: item.ETag?.trim() ?? null }
  })
  return { quiet: Quiet !== null && booleanOf(Quiet), objects }
}

/** An `xs:boolean`; some clients write it with a capital. */
function booleanOf(text: string): boolean {
  const word = text.trim().toLowerCase()
  if (word === 'true' || word === '1') return true
  if (word === 'false' || word === '0') return false
  throw refuse('MalformedXML')
}
