/**
 * DeleteObjects: each key by itself. A key that may not be deleted, or whose condition is not met, is an error beside the others. The
 * changes are made at the same time, so that they share what it takes to make them durable.
 *
 * D1  a caller that may delete none of the keys in a foreign bucket gets the answer of a single delete: that there is no such bucket
 */
import type { DeleteRequest } from './delete-request.ts'
import { readDeleteRequest } from './delete-request.ts'
import { deletedBytes } from '../document-bytes.ts'
import { DELETE_BODY_BYTES_MAX } from '../document-limits.ts'
import { renderDeleteResult } from './object-answers.ts'
import type { DeleteFailure, DeletedKey } from './object-answers.ts'
import type { Bucket } from '../../operations.ts'
import { S3Error, refuse } from '../../refusals.ts'
import { collectBody } from '../body/collect-body.ts'
import type { BucketHandler, GatewayContext, GatewayRequest } from '../handler.ts'
import { SYNCED, bucketIdHeader } from '../ids.ts'
import { etagPrecondition } from './conditions.ts'
import { demandReading } from './further-actions.ts'
import { checkKey } from './object-key.ts'
import { ONLY_VERSION } from '../operations-table.ts'
import { whenDurable } from '../when-durable.ts'

type DeleteItem = DeleteRequest['objects'][number]
type Outcome = { readonly deleted: DeletedKey } | { readonly failure: DeleteFailure; readonly isAllowed: boolean }

export const deleteObjects: BucketHandler = async (request, bucket, context) => {
  await request.reserveRoom(deletedBytes(request.body.contentLength))
  const body = await collectBody(request, DELETE_BODY_BYTES_MAX, 'demanded')
  const { quiet, objects } = await context.pace.run(readDeleteRequest(body))
  const outcomes = await Promise.all(objects.map((item) => outcomeOf(item, request, bucket, context)))
  const gone = outcomes.flatMap((outcome) => ('deleted' in outcome ? [outcome.deleted] : []))
  context.deleted(
    request,
    bucket.name,
    gone.map(({ key }) => key),
  )
  demandOneAllowed(outcomes, request, bucket)
  const deleted = quiet ? [] : gone
  const failures = outcomes.flatMap((outcome) => ('failure' in outcome ? [outcome.failure] : []))
  return {
    status: 200,
    headers: [bucketIdHeader(bucket.number), SYNCED],
    body: { contentType: 'application/xml', bytes: renderDeleteResult(deleted, failures) },
  }
}

/** D1 */
function demandOneAllowed(outcomes: readonly Outcome[], { caller }: GatewayRequest, bucket: Bucket): void {
  if (caller.principal?.id === bucket.owner) return
  const refusals = outcomes.flatMap((each) => ('failure' in each && !each.isAllowed ? [each.failure.refusal] : []))
  if (refusals.length === outcomes.length) throw refusals[0]! // a request has one key at least
}

async function outcomeOf(
  { key, versionId, etag }: DeleteItem,
  request: GatewayRequest,
  bucket: Bucket,
  context: GatewayContext,
): Promise<Outcome> {
  let isAllowed = false
  try {
    await context.authorize(request, 's3:DeleteObject', bucket.name, key)
    isAllowed = true
    checkKey(key)
    if (versionId !== null && versionId !== ONLY_VERSION) throw refuse('NotImplemented')
    if (etag !== null) await demandReading(request, bucket, key, context)
    await context.store.deleteObject(bucket, key, etagPrecondition(etag, key))
    return { deleted: { key, versionId, deleteMarker: true, deleteMarkerVersionId: null } }
  } catch (error) {
    const refusal = await whenDurable(context.store, error)
    if (refusal instanceof S3Error) return { failure: { key, versionId, refusal }, isAllowed }
    throw refusal
  }
}
