/** Claims of records that are still in the log's memory. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerWorld, CALLER, Pending } from '../../support/broker-world.ts'
import { Client, inputOf } from './client.ts'

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

  it('gives out what one frame brought together, whatever is claimed between', async () => {
    const { world, client } = await published(true, 1)
    const inputs = Array.from({ length: 50 }, (_, i) => inputOf(`batch-${i}-${'x'.repeat(200)}`))
    await client.now(new Pending(world.broker.publishBatch(CALLER, 'orders', inputs)))
    await client.now(client.publish('orders', 'behind'))
    world.holdsReads = true
    const given: string[] = []
    for (const group of ['g1', 'g2']) {
      for (let claims = 0; claims < 26; claims += 1) {
        const claim = client.claim('orders', { max_messages: 2 }, { group })
        await world.step()
        given.push(...claim.value.map(({ record }) => record.message_id))
      }
    }
    const all = ['m-0-x', ...inputs.map(({ messageId }) => messageId), 'behind']
    assert.deepEqual(given, [...all, ...all])
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
