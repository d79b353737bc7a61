/**
 * CompleteMultipartUpload.
 *
 * M1  completing again what was completed not long ago gives the same answer, even if the request differs: a client that repeats it
 *     lost the answer. That goes for two requests at the same time as well
 */
import { digestOfWhole } from '../../bodies/body-digests.ts'
import { checkBody, digestPlan } from '../body/body-claims.ts'
import { loadChecksums } from '../../bodies/checksum-algorithms.ts'
import { planBody } from '../body/body-plan.ts'
import type { Checksum } from '../../bodies/checksums.ts'
import { readCompleteRequest } from './complete-request.ts'
import { completeBytes } from '../document-bytes.ts'
import { COMPLETE_BODY_BYTES_MAX } from '../document-limits.ts'
import { renderCompletedUpload } from './multipart-answers.ts'
import type { Bucket, Encryption, Precondition } from '../../operations.ts'
import { S3Error } from '../../refusals.ts'
import type { Answer, GatewayContext, GatewayRequest, ObjectHandler } from '../handler.ts'
import { bucketIdHeader, objectIdHeaders, SYNCED } from '../ids.ts'
import { demandPrecondition, writePrecondition } from '../objects/conditions.ts'
import { encryptionHeaders } from '../objects/encryption.ts'
import { demandConditions } from '../objects/further-actions.ts'
import { checksumHeaderLines } from '../objects/object-headers.ts'
import { wholeOf } from './completion.ts'
import { namedUpload, uploadIdHeader, uploadIdOf } from './named-upload.ts'

/** A `CompletedUpload`, or an upload that is being completed. */
interface Completed {
  readonly etag: string
  readonly checksums: readonly Checksum[]
  readonly commitSequence: number
  readonly encryption: Encryption | null
}

export const completeMultipartUpload: ObjectHandler = async (request, bucket, key, context) => {
  const completed = (): Promise<Completed | null> => context.store.completedUpload(bucket, key, uploadIdOf(request))
  const before = await completed()
  if (before !== null) return answerOf(before, request, bucket, key) // M1
  try {
    return answerOf(await complete(request, bucket, key, context), request, bucket, key)
  } catch (error) {
    const meanwhile = error instanceof S3Error && error.code === 'NoSuchUpload' ? await completed() : null
    if (meanwhile === null) throw error
    return answerOf(meanwhile, request, bucket, key) // M1
  }
}

async function complete(
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  context: GatewayContext,
): Promise<Completed> {
  const { store } = context
  await loadChecksums([namedUpload(request, bucket, key, store).checksum.algorithm]) // before the list is read
  const precondition = writePrecondition(request.headers, key)
  await demandConditions(request, bucket, key, context)
  demandPrecondition(precondition, store, bucket, key)
  await request.reserveRoom(completeBytes(request.body.contentLength))
  const list = await listBytes(request)
  return context.documents.runWithMemory(list.byteLength, () =>
    completeWith(list, precondition, request, bucket, key, context),
  )
}

async function completeWith(
  list: Buffer,
  precondition: Precondition,
  request: GatewayRequest,
  bucket: Bucket,
  key: string,
  { store, pace }: GatewayContext,
): Promise<Completed> {
  const listed = await pace.run(readCompleteRequest(list, uploadIdOf(request)))
  const upload = namedUpload(request, bucket, key, store) // as it is now: parts may have come meanwhile
  const { parts, etag, checksum } = await pace.run(wholeOf(upload, listed, request.headers))
  const checksums = [checksum]
  const summary = await store.completeUpload({ upload, parts, etag, checksums, precondition })
  return { etag: summary.etag, checksums, commitSequence: summary.commitSequence, encryption: upload.encryption }
}

/** Collects the list. Checksums in the headers are those of the object; the list itself has only MD5 and SHA-256. */
async function listBytes({ headers, caller, body }: GatewayRequest): Promise<Buffer> {
  const { framing, claims } = planBody(headers, caller, body.contentLength, null)
  const { bytes } = await body.collect(COMPLETE_BODY_BYTES_MAX, framing)
  if (claims.contentMd5 !== null || claims.sha256 !== null) {
    checkBody(claims, digestOfWhole(digestPlan(claims, []), bytes), null)
  }
  return bytes
}

function answerOf(completed: Completed, request: GatewayRequest, bucket: Bucket, key: string): Answer {
  const { etag, checksums, commitSequence, encryption } = completed
  const location = request.url
  return {
    status: 200,
    headers: [
      bucketIdHeader(bucket.number),
      ...objectIdHeaders(commitSequence),
      uploadIdHeader(uploadIdOf(request)),
      ['ETag', `"${etag}"`],
      ...checksumHeaderLines(checksums),
      ...(encryption?.kind === 'customer' ? [] : encryptionHeaders(encryption)), // S3 does not name a customer's key here
      SYNCED,
    ],
    body: {
      contentType: 'application/xml',
      bytes: renderCompletedUpload({ location, bucket: bucket.name, key, etag, checksums }),
    },
  }
}
