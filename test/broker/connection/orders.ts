/** A broker with the stream `orders`, and questions about its group `g`. */
import { BrokerWorld, CALLER } from '../../support/broker-world.ts'
import type { BrokerWorldOptions } from '../../support/broker-world.ts'

export const STREAM = 'orders'
export const HOUR_MS = 3_600_000

export async function opened(options: BrokerWorldOptions = {}): Promise<BrokerWorld> {
  const world = await BrokerWorld.open(options)
  const created = world.broker.createStream(CALLER, STREAM, {})
  await world.flush()
  await created
  return world
}

export const subscribe = (id: number, credit: number, more: object = {}) => ({
  id,
  op: 'subscribe',
  stream: STREAM,
  consumer_group: 'g',
  credit,
  lease_timeout_millis: HOUR_MS,
  ...more,
})

export async function activeLeases(world: BrokerWorld): Promise<number> {
  const leases = world.broker.leases(CALLER, { stream: STREAM, group: 'g' }, false)
  await world.flush()
  return (await leases).leases.length
}
