import type { ObjectStore } from '../operations.ts'
import { refusalOf } from './answer.ts'

/** G1 of gateway.ts. Resolves with the refusal when the state that it was judged on is durable, or with the error when that was lost. */
export async function whenDurable(store: ObjectStore, error: unknown): Promise<unknown> {
  const refused = refusalOf(error)
  if (refused === null || refused.category === 'throttle' || refused.category === 'server') return error
  return store.settled().then(
    () => error,
    (lost: unknown) => lost,
  )
}
