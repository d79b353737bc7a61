/** A body that goes to the store as it comes, and is found to be what the request says it is. */
import { checkBody, digestPlan } from './body-claims.ts'
import type { BodyPlan } from './body-plan.ts'
import type { ChecksumAlgorithm } from '../../bodies/checksums.ts'
import type { BodyTarget, ReceivedBody } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { GatewayContext, GatewayRequest } from '../handler.ts'

/**
 * @param kept checksums to be computed, whatever the request claims
 * @throws S3Error MissingContentLength, EntityTooLarge before anything is read; BadDigest, and all that is wrong with a body
 */
export async function receiveBody(
  { headers, body }: GatewayRequest,
  { framing, contentLength, claims }: BodyPlan,
  kept: readonly ChecksumAlgorithm[],
  target: BodyTarget,
  { store, putBytesMax }: GatewayContext,
): Promise<ReceivedBody> {
  if (contentLength === null && !headers.has('transfer-encoding')) throw refuse('MissingContentLength')
  if (contentLength !== null) demandSize(contentLength, putBytesMax)
  const writer = store.receive(contentLength, digestPlan(claims, kept), target)
  const { received, trailer } = await body.pipe(putBytesMax, framing, writer)
  try {
    checkBody(claims, received.digest, trailer)
  } catch (error) {
    received.abandon()
    throw error
  }
  return received
}

/** @throws S3Error EntityTooLarge */
export function demandSize(bytes: number, bytesMax: number): void {
  if (bytes <= bytesMax) return
  throw refuse('EntityTooLarge', undefined, { fields: { ProposedSize: bytes, MaxSizeAllowed: bytesMax } })
}
