import type { ObjectStore } from '../operations.ts'
import { refusalOf } from './answer.ts'

/** G1 of gateway.ts. A refusal, once what it was judged on is durable; where that was lost, the failure is its loss. */
export async function confirmed(store: ObjectStore, error: unknown): Promise<unknown> {
  const refused = refusalOf(error)
  if (refused === null || refused.category === 'throttle' || refused.category === 'server') return error
  return store.settled().then(
    () => error,
    (lost: unknown) => lost,
  )
}
