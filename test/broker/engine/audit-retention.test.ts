/** Audit events older than the node's setting allows are removed, and stay removed. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerWorld } from '../../support/broker-world.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { Client } from './client.ts'

const MAX_AGE_MS = 60_000

async function opened(): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open({ auditMaxAgeMs: MAX_AGE_MS })
  return { world, client: new Client(world) }
}

/** The stream that each present event names. */
async function audited(client: Client): Promise<(string | null)[]> {
  return streamsOf(await client.now(client.events()))
}

const streamsOf = (events: readonly { readonly stream: string | null }[]): (string | null)[] =>
  events.map(({ stream }) => stream)

describe('audit events', () => {
  it('go when they are too old, where that is set', async () => {
    const { world, client } = await opened()
    await client.now(client.create('a'))
    await world.advance(MAX_AGE_MS + 1000)
    await client.now(client.create('b'))
    await Promise.all([world.retainer.enforce(), world.flush()])
    await world.flush()
    assert.deepEqual(await audited(client), ['b'])
    await world.close()
  })

  it('are missing on a page only when it is stored that they went', async () => {
    const { world, client } = await opened()
    await client.now(client.create('a'))
    await world.advance(MAX_AGE_MS + 1000)
    await client.now(client.create('b'))
    const enforced = world.retainer.enforce()
    for (let turns = 0; world.core.appender.inFlight === 0; turns += 1) {
      assert.ok(turns < 100, 'retention removed nothing')
      await nextTurn()
    }
    const page = client.events()
    for (let turns = 0; turns < 10; turns += 1) await nextTurn()
    assert.equal(page.outcome.kind, 'pending')
    await world.journalDies() // the removal was on its way and is lost: the event was never removed
    assert.deepEqual(streamsOf(await client.now(page)), ['a', 'b'])
    await world.flush()
    await enforced
    await world.close()
  })
})
