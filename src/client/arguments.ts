/**
 * Checks the names in a call by the rules of the routes, and refuses them in their words. A client over HTTP checks nothing else itself:
 * a bad name would lead to another route. The broker checks the rest.
 */
import type { DeliveryPath, GroupPath } from '../broker/operations.ts'
import { streamNamed, tokenNamed } from '../broker/path-names.ts'
import { refuse } from '../broker/refusals.ts'
import { isObject } from '../plain-objects.ts'
import type { DeliveryName, Forcible } from './broker-client.ts'

export const streamOf = (name: string): string => streamNamed(name)

export const groupOf = (stream: string, group: string): GroupPath => ({
  stream: streamOf(stream),
  group: tokenOf(group, 'consumer group'),
})

export function deliveryOf(delivery: DeliveryName): DeliveryPath {
  const { stream, subscription_id, delivery_id } = objectOf(delivery, 'the delivery')
  return {
    stream: streamOf(stream),
    subscriptionId: tokenOf(subscription_id, 'subscription'),
    deliveryId: tokenOf(delivery_id, 'delivery'),
  }
}

export const tokenOf = (token: string, what: string): string => tokenNamed(token, what)

export const optionsOf = <Options extends object>(options: Options): Options => objectOf(options, 'the options')

export function forceOf(options: Forcible): boolean {
  const { force = false } = optionsOf(options)
  if (typeof force === 'boolean') return force
  throw refuse('invalid_query', 'force must be true or false')
}

/** For values without a schema, in the words for those that have one. */
function objectOf<Given extends object>(value: Given, what: string): Given {
  if (isObject(value)) return value
  throw refuse('invalid_request', `${what} must be object`)
}

/** Deliveries of one claim. */
export function deliveriesOf(deliveries: readonly DeliveryName[]): DeliveriesPath {
  if (!Array.isArray(deliveries) || deliveries.length === 0) {
    throw refuse('invalid_request', 'the deliveries must be a list of at least one')
  }
  const paths = deliveries.map(deliveryOf)
  const { stream, subscriptionId } = paths[0]!
  if (paths.some((path) => path.stream !== stream || path.subscriptionId !== subscriptionId)) {
    throw refuse('invalid_request', 'the deliveries must be of one claim')
  }
  return { stream, subscriptionId, delivery_ids: paths.map(({ deliveryId }) => deliveryId) }
}

export interface DeliveriesPath extends Pick<DeliveryPath, 'stream' | 'subscriptionId'> {
  readonly delivery_ids: string[]
}
