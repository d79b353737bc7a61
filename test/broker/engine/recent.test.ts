/** Claims of records that the memory of the log still has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerWorld } from '../../support/broker-world.ts'
import { Client } from './client.ts'

async function published(
  readsRecent: boolean,
  count: number,
  payload = 'x',
): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open({ readsRecent, segmentBytes: 1 << 20 })
  const client = new Client(world)
  await client.now(client.create('orders'))
  for (let i = 0; i < count; i += 1) await client.now(client.publish('orders', `m-${i}-${payload}`))
  return { world, client }
}

describe('a claim of records that were just published', () => {
  it('gives them out without a reader, when its lease is stored', async () => {
    const { world, client } = await published(true, 3)
    world.holdsReads = true
    const claim = client.claim('orders', { max_messages: 3 })
    assert.equal(claim.outcome.kind, 'pending')
    await world.step()
    assert.deepEqual(
      claim.value.map(({ offset }) => offset),
      [0, 1, 2],
    )
  })

  it('says the same as a reader would', async () => {
    const [recent, read] = await Promise.all(
      [true, false].map(async (readsRecent) => {
        const { client } = await published(readsRecent, 5, '"\u{1f980}\n"')
        return client.now(client.claim('orders', { max_messages: 10 }))
      }),
    )
    const recordsOf = (deliveries: typeof recent) =>
      deliveries!.map(({ offset, attempt, record }) => ({ offset, attempt, record: { ...record, ingest_time_ms: 0 } }))
    assert.deepEqual(recordsOf(recent), recordsOf(read))
  })

  it('leaves many of them to a reader', async () => {
    const { world, client } = await published(true, 70)
    world.holdsReads = true
    const claim = client.claim('orders', { max_messages: 70 })
    await world.step()
    assert.equal(claim.outcome.kind, 'pending')
    assert.equal((await client.now(claim)).length, 70)
  })

  it('leaves them to a reader after a restart', async () => {
    const { world, client } = await published(true, 1)
    world.end('kill')
    await world.open()
    world.holdsReads = true
    const claim = client.claim('orders')
    await world.step()
    assert.equal(claim.outcome.kind, 'pending')
    assert.equal((await client.now(claim)).length, 1)
  })
})
