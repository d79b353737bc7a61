/** Clients that leave so many long answers unread that the broker makes no more. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { BrokerWorld } from '../../support/broker-world.ts'
import { Client } from './client.ts'

const FULL_BYTES = 256 << 20

it('keep others from pages and claims, which are refused or wait, and take no lease', async () => {
  const world = await BrokerWorld.open()
  const client = new Client(world)
  await client.now(client.create('orders'))
  await client.now(client.publish('orders', 'm-1'))
  const read = world.core.reads.unread.hold(FULL_BYTES)
  const refused = client.claim('orders')
  const waiting = client.claim('orders', { wait_millis: 10_000 })
  const page = client.replay('orders')
  await world.flush()
  assert.deepEqual([refused.code, page.code, waiting.outcome.kind], ['internal_error', 'internal_error', 'pending'])
  read()
  await client.now(client.publish('orders', 'm-2'))
  const deliveries = await client.now(waiting)
  assert.deepEqual(
    deliveries.map(({ offset, attempt }) => [offset, attempt]),
    [[0, 1]],
  )
})
