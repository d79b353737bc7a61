/** Records whose publishers do not wait for the disk. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Client } from './client.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { BrokerWorld } from '../../support/broker-world.ts'

async function openedWithVolatile(): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open()
  const client = new Client(world)
  await client.now(client.create('orders'))
  await world.broker.publish({ tenant: 'local', principal: 'tester' }, 'orders', {
    messageId: 'm-1',
    payload: { text: 'p', encoding: 'utf8' },
    key: null,
    eventTimeMs: null,
    headers: {},
    durability: 'volatile',
  })
  return { world, client }
}

for (const [when, pass] of [
  ['before it is written', () => {}],
  ['when it is written, and main has not heard so yet', (world: BrokerWorld) => world.stepWithoutNotice()],
] as const) {
  describe(`a volatile record that was answered, ${when}`, () => {
    it('is there for the next replay', async () => {
      const { world, client } = await openedWithVolatile()
      pass(world)
      const page = client.replay('orders')
      await nextTurn()
      assert.deepEqual(
        (await client.now(page)).records.map(({ message_id }) => message_id),
        ['m-1'],
      )
    })

    it('is there for the next claim', async () => {
      const { world, client } = await openedWithVolatile()
      pass(world)
      const claim = client.claim('orders')
      await nextTurn()
      assert.equal((await client.now(claim)).length, 1)
    })
  })
}
