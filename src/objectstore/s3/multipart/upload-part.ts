/** UploadPart. What can be refused by the headers alone is, before the body is read. */
import { planBody } from '../body/body-plan.ts'
import { declaredChecksum } from '../body/declared-checksum.ts'
import { checksumsOfPart } from './multipart-checksums.ts'
import type { HeaderLine, ObjectHandler, PipedBody } from '../handler.ts'
import { receiveBody } from '../body/receive-body.ts'
import { demandClaimed } from '../objects/incoming-object.ts'
import { keepPart, namedPart, partHeaders, targetOf } from './named-part.ts'

export const uploadPart: ObjectHandler = async (request, bucket, key, context) => {
  const { headers, caller, body } = request
  const part = namedPart(request, bucket, key, context.store)
  const { checksum: ofUpload } = part.upload
  const declared = declaredChecksum(headers)
  const plan = planBody(headers, caller, body.contentLength, declared)
  const algorithms = checksumsOfPart(ofUpload, declared)
  const { received, trailer } = await new Promise<PipedBody>((answered, refused) => {
    receiveBody(request, plan, algorithms, targetOf(part), context, { answered, refused })
  })
  demandClaimed(plan.claims, received, trailer)
  const { etag } = await keepPart(part, received, context.store)

  const shown = ofUpload.isChosen ? ofUpload.algorithm : declared?.algorithm
  const checksums = received.digest.checksums
    .filter(({ algorithm }) => algorithm === shown)
    .map(({ algorithm, value }): HeaderLine => [`x-obj-checksum-${algorithm.toLowerCase()}`, value])
  return { status: 200, headers: [['ETag', `"${etag}"`], ...checksums, ...partHeaders(part)] }
}
