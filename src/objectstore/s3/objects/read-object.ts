/** What GetObject and HeadObject have in common: everything but the body. */
import { eitherHeader } from '../auth/request-identity.ts'
import type { Checksum } from '../../bodies/checksums.ts'
import type { Bucket, ShownHeaders, StoredObject } from '../../operations.ts'
import type { GatewayContext, GatewayRequest, HeaderLine, MaybePromise } from '../handler.ts'
import type { ContentAttributes } from './attributes.ts'
import { checkRead } from './conditions.ts'
import { checkCustomerKey } from './encryption.ts'
import { refuseAbsent } from './existing-object.ts'
import { refusalOfAction } from './further-actions.ts'
import { checksumHeaderLines, storedObjectHeaders } from './object-headers.ts'
import { contentRange, selectionOf } from './ranges.ts'
import type { Selection } from './ranges.ts'
import { responseOverrides } from './response-overrides.ts'

export interface ObjectReading {
  readonly object: StoredObject
  readonly selection: Selection
  readonly status: 200 | 206
  readonly contentType: string
  /** All but Content-Type and Content-Length; see Answer. */
  readonly objectHeaders: ShownHeaders
  readonly headers: readonly HeaderLine[]
}

/** Without a promise when the object is in memory, and has no tags. @throws S3Error */
export function readObject(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): MaybePromise<ObjectReading> {
  const overrides = responseOverrides(request)
  const object = context.store.object(bucket, key)
  if (object instanceof Promise || object.tags.length > 0)
    return readLater(request, bucket, key, context, overrides, object)
  return readingOf(request, bucket, object, overrides, context.nowMs())
}

async function readLater(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
  overrides: Partial<ContentAttributes> | null,
  found: MaybePromise<StoredObject | null>,
): Promise<ObjectReading> {
  const object = (await found) ?? (await refuseAbsent(request, bucket, key, context))
  const reading = readingOf(request, bucket, object, overrides, context.nowMs())
  if (object.tags.length === 0) return reading
  // As in S3, a caller that may not read tags does not learn that there are any.
  const showsTags = (await refusalOfAction('s3:GetObjectTagging', request, bucket, key, context)) === null
  const tagging: HeaderLine = ['x-obj-tagging-count', String(object.tags.length)]
  return showsTags ? { ...reading, headers: [tagging, ...reading.headers] } : reading
}

function readingOf(
  request: GatewayRequest,
  bucket: Bucket,
  object: StoredObject,
  overrides: Partial<ContentAttributes> | null,
  nowMs: number,
): ObjectReading {
  checkCustomerKey(request.headers, object.encryption)
  const shown = overrides === null ? object : { ...object, ...overrides }
  checkRead(request.headers, object, shown, nowMs)
  const selection = selectionOf(request, object)
  const isPartial = selection.kind !== 'whole' && object.size > 0 // an empty object has no range to name
  const headers: HeaderLine[] = []
  if (isPartial) headers.push(['Content-Range', contentRange(selection, object.size)])
  if (selection.part !== null) headers.push(['x-obj-mp-parts-count', String(object.parts?.length)])
  if (asksForChecksums(request)) headers.push(...checksumsOf(object, selection))
  return {
    object,
    selection,
    status: isPartial ? 206 : 200,
    contentType: shown.contentType,
    objectHeaders: storedObjectHeaders(bucket, object, overrides),
    headers,
  }
}

const asksForChecksums = ({ headers }: GatewayRequest): boolean =>
  eitherHeader(headers, 'checksum-mode')?.toUpperCase() === 'ENABLED'

/** Checksums of the whole object when it is answered whole; the part's own checksum when a part is answered. */
function checksumsOf({ checksums }: StoredObject, { kind, part }: Selection): readonly HeaderLine[] {
  if (kind === 'range') return []
  if (part === null) return checksumHeaderLines(checksums)
  const [whole] = checksums
  if (whole === undefined || part.checksum === null) return []
  const ofPart: Checksum = { ...whole, value: part.checksum }
  return checksumHeaderLines([ofPart])
}
