/** Hands a body to the store as it comes. */
import type { Answer } from '../../../engine/decision.ts'
import { digestPlan } from './body-claims.ts'
import type { BodyPlan } from './body-plan.ts'
import type { ChecksumAlgorithm } from '../../bodies/checksums.ts'
import type { BodyTarget } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { GatewayContext, GatewayRequest, PipedBody } from '../handler.ts'

/**
 * @param kept   checksums to be computed, in addition to those that the request claims
 * @param answer refused when the body is wrong; its digests are not checked here
 * @throws S3Error MissingContentLength, EntityTooLarge before anything is read
 */
export function receiveBody(
  { headers, body }: GatewayRequest,
  { framing, contentLength, claims }: BodyPlan,
  kept: readonly ChecksumAlgorithm[],
  target: BodyTarget,
  { store, putBytesMax }: GatewayContext,
  answer: Answer<PipedBody>,
): void {
  if (contentLength === null && !headers.has('transfer-encoding')) throw refuse('MissingContentLength')
  if (contentLength !== null) demandSize(contentLength, putBytesMax)
  const writer = store.receive(contentLength, digestPlan(claims, kept), target)
  body.pipe(putBytesMax, framing, writer, answer)
}

/** @throws S3Error EntityTooLarge */
export function demandSize(bytes: number, bytesMax: number): void {
  if (bytes <= bytesMax) return
  throw refuse('EntityTooLarge', undefined, { fields: { ProposedSize: bytes, MaxSizeAllowed: bytesMax } })
}
