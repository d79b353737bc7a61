import { checksumsOfObject } from '../body/body-claims.ts'
import { planBody } from '../body/body-plan.ts'
import { declaredChecksum } from '../body/declared-checksum.ts'
import type { ObjectHandler } from '../handler.ts'
import { UNCONDITIONAL } from '../../operations.ts'
import { receiveBody } from '../body/receive-body.ts'
import { attributesOf } from './attributes.ts'
import { writePrecondition } from './conditions.ts'
import { demandConditions, demandTagging } from './further-actions.ts'
import { demandClaimed, newObject } from './incoming-object.ts'
import { writtenObjectHeaders } from './object-headers.ts'

/** What can be refused by the headers alone is, before the body is read. */
export const putObject: ObjectHandler = async (request, bucket, key, context) => {
  const { headers, caller, body } = request
  const { store } = context
  const plan = planBody(headers, caller, body.contentLength, declaredChecksum(headers))
  const attributes = attributesOf(request)
  const precondition = writePrecondition(headers, key)
  const tagging = demandTagging(request, bucket, key, attributes.tags, context)
  if (tagging !== null) await tagging
  const conditions = demandConditions(request, bucket, key, context)
  if (conditions !== null) await conditions
  if (precondition !== UNCONDITIONAL) precondition(store.peek(bucket, key))

  const algorithms = checksumsOfObject(plan.claims)
  const { received, trailer } = await receiveBody(request, plan, algorithms, { bucket, key, upload: null }, context)
  demandClaimed(plan.claims, received, trailer)
  const object = newObject({ bucket, key, attributes, body: received, precondition }, algorithms)
  return { status: 200, headers: writtenObjectHeaders(object, await store.putObject(object)) }
}
