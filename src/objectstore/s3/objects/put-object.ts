/** PutObject. What can be refused by the headers alone is, before the body is read. */
import type { Answer as EngineAnswer } from '../../../engine/decision.ts'
import { checksumsOfObject } from '../body/body-claims.ts'
import { planBody } from '../body/body-plan.ts'
import { declaredChecksum } from '../body/declared-checksum.ts'
import type { Answer, ObjectHandler } from '../handler.ts'
import type { ObjectSummary } from '../../operations.ts'
import { receiveBody } from '../body/receive-body.ts'
import { attributesOf } from './attributes.ts'
import { demandPrecondition, writePrecondition } from './conditions.ts'
import { demandConditions, demandTagging } from './further-actions.ts'
import { demandClaimed, newObject } from './incoming-object.ts'
import { WrittenHeaders } from './object-headers.ts'

export const putObject: ObjectHandler = (request, bucket, key, context) => {
  const { headers, caller, body } = request
  const { store } = context
  const plan = planBody(headers, caller, body.contentLength, declaredChecksum(headers))
  const attributes = attributesOf(request)
  const precondition = writePrecondition(headers, key)
  const algorithms = checksumsOfObject(plan.claims)

  /** The only promise of a PUT whose headers give no reason to wait: the rest goes by callbacks. */
  const put = (): Promise<Answer> =>
    new Promise((answered, refused) => {
      demandPrecondition(precondition, store, bucket, key)
      const target = { bucket, key, upload: null }
      receiveBody(request, plan, algorithms, target, context, {
        refused,
        answered({ received, trailer }) {
          try {
            demandClaimed(plan.claims, received, trailer)
            const object = newObject({ bucket, key, attributes, body: received, precondition }, algorithms)
            const stored: EngineAnswer<ObjectSummary> = {
              refused,
              answered: (summary) => answered({ status: 200, objectHeaders: new WrittenHeaders(object, summary) }),
            }
            store.putObject(stored, object)
          } catch (error) {
            refused(error)
          }
        },
      })
    })

  const conditions = (): Promise<void> | null => demandConditions(request, bucket, key, context)
  const tagging = demandTagging(request, bucket, key, attributes.tags, context)
  const allowed = tagging === null ? conditions() : tagging.then(conditions)
  return allowed === null ? put() : allowed.then(put)
}
