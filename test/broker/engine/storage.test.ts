/** Refusals of storage administration when the log or the threads do not work. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerError } from '../../../src/broker/refusals.ts'
import { StoreError } from '../../../src/errors.ts'
import { BrokerWorld, CALLER, Pending } from '../../support/broker-world.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { Client } from './client.ts'

async function opened(): Promise<{ world: BrokerWorld; client: Client }> {
  const world = await BrokerWorld.open()
  const client = new Client(world)
  await client.now(client.create('orders'))
  for (let i = 0; i < 20; i += 1) await client.now(client.publish('orders', `${i} ${'x'.repeat(500)}`))
  await world.engine.idle()
  return { world, client }
}

function refusalOf({ outcome }: Pending<unknown>): BrokerError {
  assert.ok(outcome.kind === 'refused' && outcome.error instanceof BrokerError)
  return outcome.error
}

describe('a tiering manifest', () => {
  it('whose records cannot be read now is tiering_manifest_failed, retryable, and right the next time', async () => {
    const { world, client } = await opened()
    const limits = { maxAgeMs: null, maxBytes: 1200 }
    const { reads } = world.core
    const original = reads.firstWithin.bind(reads)
    reads.firstWithin = () => Promise.reject(new StoreError('unavailable', 'thread_died', 'the thread died'))
    for (const asked of [
      () => world.broker.tieringReadiness(CALLER, 'orders', limits),
      () => world.broker.archiveManifest(CALLER, 'orders', limits),
    ]) {
      const pending = new Pending<unknown>(asked())
      await world.flush()
      const { code, status, retryable } = refusalOf(pending)
      assert.deepEqual([code, status, retryable], ['tiering_manifest_failed', 500, true])
    }
    reads.firstWithin = original
    const ready = await client.now(new Pending(world.broker.tieringReadiness(CALLER, 'orders', limits)))
    assert.equal(ready.ready, true)
    await world.close()
  })
})

/** Reports damage to `orders`. @returns the id of the incident */
async function damaged({ world, client }: Awaited<ReturnType<typeof opened>>): Promise<string> {
  const { log, state } = world.core
  const [segment] = log.segments
  const range = { from: segment!.base, to: segment!.base + 2000 }
  log.reportDamage(segment!, { ...range, reason: 'the test says so' })
  state.applyDamage(segment!.base, range.from, range.to)
  const { incidents } = await client.now(new Pending(world.broker.quarantine(CALLER, 'orders')))
  return incidents[0]!.incident_id
}

describe('the acknowledgement', () => {
  it('of an incident of another tenant is refused as that of one that there is not', async () => {
    const { world, client } = await opened()
    const incident = await damaged({ world, client })
    const other = { ...CALLER, tenant: 'other' }
    await client.now(new Pending(world.broker.createStream(other, 'orders', {})))
    assert.deepEqual((await client.now(new Pending(world.broker.quarantine(other, 'orders')))).incidents, [])
    const asked = (id: string) => new Pending(world.broker.acknowledgeQuarantine(other, 'orders', id, {}))
    const [real, none] = [asked(incident), asked('inc-000000000000')]
    await world.flush()
    assert.equal(refusalOf(real).code, 'quarantine_not_found')
    assert.equal(refusalOf(real).message, refusalOf(none).message)
    const { incidents } = await client.now(new Pending(world.broker.quarantine(CALLER, 'orders')))
    assert.equal(incidents[0]!.state, 'open')
    await world.close()
  })

  it('of an incident that the log does not keep is quarantine_storage_failed, and the incident stays open', async () => {
    const { world, client } = await opened()
    const incident = await damaged({ world, client })
    const acknowledged = new Pending(world.broker.acknowledgeQuarantine(CALLER, 'orders', incident, {}))
    await nextTurn()
    await world.journalDies()
    assert.equal(refusalOf(acknowledged).code, 'quarantine_storage_failed')
    const { incidents } = await client.now(new Pending(world.broker.quarantine(CALLER, 'orders')))
    assert.equal(incidents[0]!.state, 'open')
    await world.close()
  })
})
